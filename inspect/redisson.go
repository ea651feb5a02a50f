// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// redisson is the layout of the Java client. Keys are names there, so each key of the server may be one. A key is
// listed if its type and its content are those that Redisson writes.
type redisson struct{ namePrefix string }

// The types of keys, as SCAN calls them.
const (
	hashType   = "hash"
	stringType = "string"
)

// The forms of values and keys that Redisson writes: an owner of a lock, a number, and the auxiliary keys that are numbers, too.
var (
	ownerForm    = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`)
	numberForm   = regexp.MustCompile(`^-?[0-9]{1,20}$`)
	auxiliaryKey = regexp.MustCompile(`^redisson_lock_token:|:rwlock_timeout:[0-9]+$`)
)

// scans implements lister.
func (r redisson) scans() []wire.Scan {
	match := literal(r.namePrefix) + "*"
	return []wire.Scan{{Match: match, Type: hashType}, {Match: match, Type: stringType}}
}

// ofKey implements lister.
func (r redisson) ofKey(scan wire.Scan, key string) *keyInspection {
	ki := &keyInspection{entry: Entry{Name: key, Key: key}}
	switch {
	case auxiliaryKey.MatchString(key):
		return nil
	case scan.Type == hashType:
		r.queryHash(ki)
	default:
		r.queryNumber(ki)
	}
	return ki
}

// ofName returns the inspection of one name. The type of the key is not known yet.
func (r redisson) ofName(_ names.Set, entry Entry) []*keyInspection {
	ki := &keyInspection{entry: entry}
	ki.query(wire.Call{Script: scripts.RedissonDescribe, Keys: []string{entry.Key}}, func(reply wire.Reply) {
		switch reply.Code() {
		case wire.Done:
			r.queryHash(ki)
		case wire.Foreign:
			r.queryNumber(ki)
		default: // there is no such key
		}
	})
	return []*keyInspection{ki}
}

// queryHash queries what a hash is.
func (r redisson) queryHash(ki *keyInspection) {
	key := []string{ki.entry.Key}
	var mode string
	var size int64
	ki.query(wire.Call{Command: "HLEN", Keys: key}, func(reply wire.Reply) { size = reply.Int(0) })
	ki.query(wire.Call{Command: "HGET", Keys: key, Args: []string{"mode"}}, func(reply wire.Reply) { mode = reply.Text(0) })
	ki.query(wire.Call{Script: scripts.RedissonDescribe, Keys: key}, func(reply wire.Reply) {
		if reply.Code() != wire.Done || !ownerForm.MatchString(reply.Text(3)) {
			return
		}
		switch kind := reply.Text(1); {
		case kind == "r" && size == 1:
			ki.entry.Kind = Exclusive
			ki.addHolder(ownerOf(reply.Text(3), time.UnixMilli(max(reply.Int(5), 0))))
			r.queryFairQueue(ki)
		case kind == "w" && (mode == "read" || mode == "write") && size <= maxOfName:
			ki.entry.Kind = RWLock
			r.queryRWLock(ki)
		}
	})
}

// ownerOf returns the holder, or waiter, that Redisson calls hold.
func ownerOf(hold string, until time.Time) Holder {
	h := Holder{Label: hold, Session: layout.Redisson().Session(hold), Hold: session.HoldID(hold)}
	if until.UnixMilli() > 0 {
		h.Until = until
	}
	return h
}

func (redisson) queryRWLock(ki *keyInspection) {
	list := wire.Call{Script: scripts.RedissonRWList, Keys: []string{ki.entry.Key}, Args: []string{"", "0", strconv.Itoa(maxOfName)}}
	ki.query(list, func(reply wire.Reply) {
		for i := 2; i+1 < reply.Len(); i += 2 {
			h := ownerOf(reply.Text(i), reply.Stamp(i+1).Time())
			h.Shared = reply.Text(1) != "1"
			ki.addHolder(h)
		}
	})
}

// queryFairQueue queries the queue that only a fair lock has.
func (r redisson) queryFairQueue(ki *keyInspection) {
	name := ki.entry.Key
	page := wire.Call{
		Script: scripts.RedissonFairWaiters,
		Keys:   []string{names.RedissonPrefixed("redisson_lock_queue", name), names.RedissonPrefixed("redisson_lock_timeout", name)},
		Args:   []string{"0", strconv.Itoa(maxOfName)},
	}
	ki.query(page, func(reply wire.Reply) {
		for i := 0; i+3 < reply.Len(); i += 4 {
			h := ownerOf(reply.Text(i), time.Time{})
			ki.entry.Waiters = append(ki.entry.Waiters, Waiter{Label: h.Label, Session: h.Session, Alive: reply.Int(i+2) == 1})
		}
		if ki.entry.WaiterCount = len(ki.entry.Waiters); ki.entry.WaiterCount > 0 {
			ki.entry.Kind = Fair
		}
	})
}

// numberSize is more than the longest number has.
const numberSize = 24

// queryNumber queries what a string is. If it is a number, the permits beside it say that it is a semaphore. Other
// strings, such as those of a cache, cost one short call each.
func (r redisson) queryNumber(ki *keyInspection) {
	key := ki.entry.Key
	ki.query(wire.Call{Command: "GETRANGE", Keys: []string{key}, Args: []string{"0", strconv.Itoa(numberSize - 1)}}, func(reply wire.Reply) {
		free := reply.Text(0)
		if !numberForm.MatchString(free) {
			return
		}
		for _, suffix := range []string{"timeout", "signalbox"} {
			ki.query(listHolds(scripts.RedissonPermitList, names.RedissonSuffixed(key, suffix), ""), func(reply wire.Reply) {
				addPermits(ki, reply)
				r.setPermits(ki, free, suffix == "timeout")
			})
		}
	})
}

// addPermits adds the holders of permits that a list has.
func addPermits(ki *keyInspection, reply wire.Reply) {
	for i := 2; i+1 < reply.Len(); i += 2 {
		n, label, _ := layout.Redisson().Semaphore.ParseHold("", reply.Text(i))
		h := Holder{Label: label, Hold: session.HoldID(reply.Text(i)), Permits: n}
		if until := reply.Stamp(i + 1); until > 0 {
			h.Until = until.Time()
		}
		ki.addHolder(h)
	}
}

// setPermits sets the kind of a number by the permits beside it. total says that they are all permits that are held.
func (redisson) setPermits(ki *keyInspection, free string, total bool) { //nolint:revive // a fact, not a switch
	ki.inUse = true
	if ki.entry.HolderCount == 0 {
		ki.entry.Kind = Number
		return
	}
	ki.entry.Kind, ki.entry.Held = Semaphore, ki.entry.HolderCount
	if n, err := strconv.Atoi(strings.TrimSpace(free)); err == nil && total {
		ki.entry.Capacity = n + ki.entry.Held
	}
}
