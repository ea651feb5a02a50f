// SPDX-License-Identifier: Apache-2.0

package redisson

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// reader reads the keys of locks. A key is one if its type and its content are those that Redisson writes.
//
//nolint:gochecknoglobals // a constant table
var reader = proto.Reader{
	Types:    []string{proto.HashKey, proto.StringKey},
	ReadKey:  readKey,
	ReadName: readName,
}

// The forms of values and keys that Redisson writes: an owner of a lock, a number, and the auxiliary keys that are numbers, too.
var (
	ownerForm    = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`)
	numberForm   = regexp.MustCompile(`^-?[0-9]{1,20}$`)
	auxiliaryKey = regexp.MustCompile(`^redisson_lock_token:|:rwlock_timeout:[0-9]+$`)
)

func readKey(i *proto.Inspection, keyType string) {
	switch {
	case auxiliaryKey.MatchString(i.Key):
	case keyType == proto.HashKey:
		readHash(i)
	default:
		readNumber(i)
	}
}

func readName(i *proto.Inspection) {
	i.Query(wire.Call{Script: describeScript, Keys: []string{i.Key}}, func(reply wire.Reply) {
		switch reply.Code() {
		case wire.Done:
			readHash(i)
		case wire.Foreign:
			readNumber(i)
		default: // there is no such key
		}
	})
}

// readHash queries what a hash is.
func readHash(i *proto.Inspection) {
	key := []string{i.Key}
	var mode string
	var size int64
	i.Query(wire.Call{Command: "HLEN", Keys: key}, func(reply wire.Reply) { size = proto.ReadNumber(&reply) })
	i.Query(wire.Call{Command: "HGET", Keys: key, Args: []string{"mode"}}, func(reply wire.Reply) { mode = proto.ReadText(&reply) })
	i.Query(wire.Call{Script: describeScript, Keys: key}, func(reply wire.Reply) {
		d := proto.ReadHolderDescribed(&reply)
		if d.Code != wire.Done || !ownerForm.MatchString(d.ID) {
			return
		}
		switch {
		case d.Kind == "r" && size == 1:
			readFairQueue(i, ownerOf(d.ID, d.Ends))
		case d.Kind == "w" && (mode == "read" || mode == "write") && size <= proto.MaxHolders:
			readRWLock(i)
		}
	})
}

// ownerOf returns the holder, or waiter, that Redisson calls hold.
func ownerOf(hold string, until time.Time) proto.Holder {
	h := proto.Holder{Label: hold, Session: sessionOf(hold), Hold: proto.HoldID(hold)}
	if until.UnixMilli() > 0 {
		h.Until = until
	}
	return h
}

func readRWLock(i *proto.Inspection) {
	i.Query(rwLister.ListCall(i.Key, 0, proto.MaxHolders), func(reply wire.Reply) {
		list, _ := proto.ReadHoldsListed(&reply) // a key of another kind has no holds
		use := proto.Use{Kind: proto.RWLock.Name}
		for _, hold := range list.Holds {
			h := ownerOf(hold.Name, hold.Ends.Time())
			h.Shared = list.Phase != "1"
			use.Holders = append(use.Holders, h)
		}
		if len(use.Holders) > 0 {
			i.Report(use)
		}
	})
}

// readFairQueue reports the holder of a lock, and queries the queue that only a fair one has.
func readFairQueue(i *proto.Inspection, holder proto.Holder) {
	use := proto.Use{Kind: proto.ExclusiveUse, Holders: []proto.Holder{holder}}
	i.Report(use)
	page := wire.Call{
		Script: fairWaitersScript,
		Keys:   []string{prefixed("redisson_lock_queue", i.Key), prefixed("redisson_lock_timeout", i.Key)},
		Args:   proto.Waiters{After: "0", Count: strconv.Itoa(proto.MaxHolders)}.AppendTo(nil),
	}
	i.Query(page, func(reply wire.Reply) {
		for _, t := range proto.ReadWaiters(&reply) {
			h := ownerOf(t.Ticket, time.Time{})
			use.Waiters = append(use.Waiters, proto.Waiter{Label: h.Label, Session: h.Session, Alive: t.IsAlive})
		}
		if len(use.Waiters) > 0 {
			use.Kind = proto.Fair.Name
		}
		i.Report(use)
	})
}

// numberSize is more than the longest number has.
const numberSize = 24

// readNumber queries what a string is. If it is a number, the permits beside it say that it is a semaphore. Other
// strings, such as those of a cache, cost one short call each.
func readNumber(i *proto.Inspection) {
	i.Query(wire.Call{Command: "GETRANGE", Keys: []string{i.Key}, Args: []string{"0", strconv.Itoa(numberSize - 1)}}, func(reply wire.Reply) {
		free := proto.ReadText(&reply)
		if !numberForm.MatchString(free) {
			return
		}
		var use proto.Use
		for _, suffix := range []string{permitsSuffix, plainSuffix} {
			i.Query(permitLister.ListCall(suffixed(i.Key, suffix), 0, proto.MaxHolders), func(reply wire.Reply) {
				use.Holders = append(use.Holders, permitHolders(&reply)...)
				setPermits(&use, free, suffix == permitsSuffix)
				i.Report(use)
			})
		}
	})
}

func permitHolders(reply *wire.Reply) (holders []proto.Holder) {
	list, _ := proto.ReadHoldsListed(reply) // a key of another kind has no holds
	for _, hold := range list.Holds {
		n, label, _ := parsePermit("", hold.Name)
		h := proto.Holder{Label: label, Hold: proto.HoldID(hold.Name), Permits: n}
		if hold.Ends > 0 {
			h.Until = hold.Ends.Time()
		}
		holders = append(holders, h)
	}
	return holders
}

// setPermits sets the kind of a number by the permits beside it. total says that they are all permits that are held.
func setPermits(use *proto.Use, free string, total bool) { //nolint:revive // a fact, not a switch
	if len(use.Holders) == 0 {
		use.Kind = proto.NumberUse
		return
	}
	use.Kind, use.Held = proto.Semaphore.Name, len(use.Holders)
	if n, err := strconv.Atoi(strings.TrimSpace(free)); err == nil && total {
		use.Capacity = n + use.Held
	}
}
