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
type redisson struct{ asked string }

// The types of keys, as SCAN calls them.
const (
	hashes = "hash"
	texts  = "string"
)

// The forms of what Redisson writes: an owner of a lock, a number, and the keys of its own that are numbers as well.
var (
	owner  = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`)
	number = regexp.MustCompile(`^-?[0-9]{1,20}$`)
	own    = regexp.MustCompile(`^redisson_lock_token:|:rwlock_timeout:[0-9]+$`)
)

// scans implements view.
func (r redisson) scans() []wire.Scan {
	match := literal(r.asked) + "*"
	return []wire.Scan{{Match: match, Type: hashes}, {Match: match, Type: texts}}
}

// probe implements view.
func (r redisson) probe(scan wire.Scan, key string) *probe {
	p := &probe{entry: Entry{Name: key, Key: key}}
	switch {
	case own.MatchString(key):
		return nil
	case scan.Type == hashes:
		r.lock(p)
	default:
		r.number(p)
	}
	return p
}

// all returns the probes for one name: which type its key has is not known.
func (r redisson) all(_ names.Set, entry Entry) []*probe {
	p := &probe{entry: entry}
	p.ask(wire.Call{Script: scripts.RedissonDescribe, Keys: []string{entry.Key}}, func(reply wire.Reply) {
		switch reply.Code() {
		case wire.Done:
			r.lock(p)
		case wire.Foreign:
			r.number(p)
		default: // there is no such key
		}
	})
	return []*probe{p}
}

// lock asks what a hash is.
func (r redisson) lock(p *probe) {
	key := []string{p.entry.Key}
	var mode string
	var size int64
	p.ask(wire.Call{Command: "HLEN", Keys: key}, func(reply wire.Reply) { size = reply.Int(0) })
	p.ask(wire.Call{Command: "HGET", Keys: key, Args: []string{"mode"}}, func(reply wire.Reply) { mode = reply.Text(0) })
	p.ask(wire.Call{Script: scripts.RedissonDescribe, Keys: key}, func(reply wire.Reply) {
		if reply.Code() != wire.Done || !owner.MatchString(reply.Text(3)) {
			return
		}
		switch kind := reply.Text(1); {
		case kind == "r" && size == 1:
			p.entry.Kind = Exclusive
			p.hold(ownerOf(reply.Text(3), time.UnixMilli(max(reply.Int(5), 0))))
			r.fairQueue(p)
		case kind == "w" && (mode == "read" || mode == "write") && size <= most:
			p.entry.Kind = RWLock
			r.rwlock(p)
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

func (redisson) rwlock(p *probe) {
	list := wire.Call{Script: scripts.RedissonRWList, Keys: []string{p.entry.Key}, Args: []string{"", "0", strconv.Itoa(most)}}
	p.ask(list, func(reply wire.Reply) {
		for i := 2; i+1 < reply.Len(); i += 2 {
			h := ownerOf(reply.Text(i), reply.Stamp(i+1).Time())
			h.Shared = reply.Text(1) != "1"
			p.hold(h)
		}
	})
}

// fairQueue asks for the queue that only a fair lock has.
func (r redisson) fairQueue(p *probe) {
	name := p.entry.Key
	page := wire.Call{
		Script: scripts.RedissonFairWaiters,
		Keys:   []string{names.RedissonPrefixed("redisson_lock_queue", name), names.RedissonPrefixed("redisson_lock_timeout", name)},
		Args:   []string{"0", strconv.Itoa(most)},
	}
	p.ask(page, func(reply wire.Reply) {
		for i := 0; i+3 < reply.Len(); i += 4 {
			h := ownerOf(reply.Text(i), time.Time{})
			p.entry.Waiters = append(p.entry.Waiters, Waiter{Label: h.Label, Session: h.Session, Alive: reply.Int(i+2) == 1})
		}
		if p.entry.WaiterCount = len(p.entry.Waiters); p.entry.WaiterCount > 0 {
			p.entry.Kind = Fair
		}
	})
}

// numberSize is more than the longest number has.
const numberSize = 24

// number asks what a text is. If it is a number, the permits beside it say that it is a semaphore. Other texts, such as those of a
// cache, cost one short call each.
func (r redisson) number(p *probe) {
	key := p.entry.Key
	p.ask(wire.Call{Command: "GETRANGE", Keys: []string{key}, Args: []string{"0", strconv.Itoa(numberSize - 1)}}, func(reply wire.Reply) {
		free := reply.Text(0)
		if !number.MatchString(free) {
			return
		}
		for _, suffix := range []string{"timeout", "signalbox"} {
			p.ask(list(scripts.RedissonPermitList, names.RedissonSuffixed(key, suffix), ""), func(reply wire.Reply) {
				permits(p, reply)
				r.counted(p, free, suffix == "timeout")
			})
		}
	})
}

// permits adds the holders of permits that a list has.
func permits(p *probe, reply wire.Reply) {
	for i := 2; i+1 < reply.Len(); i += 2 {
		n, label, _ := layout.Redisson().Semaphore.Holder("", reply.Text(i))
		h := Holder{Label: label, Hold: session.HoldID(reply.Text(i)), Permits: n}
		if until := reply.Stamp(i + 1); until > 0 {
			h.Until = until.Time()
		}
		p.hold(h)
	}
}

// counted says what the number is, as far as the permits beside it say. total: they are all permits that are held.
func (redisson) counted(p *probe, free string, total bool) { //nolint:revive // a fact, not a switch
	p.used = true
	if p.entry.HolderCount == 0 {
		p.entry.Kind = Number
		return
	}
	p.entry.Kind, p.entry.Held = Semaphore, p.entry.HolderCount
	if n, err := strconv.Atoi(strings.TrimSpace(free)); err == nil && total {
		p.entry.Capacity = n + p.entry.Held
	}
}
