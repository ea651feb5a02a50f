// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// The lengths of tickets, by which a queue's own are known.
const (
	rwTicket     = 41
	lockTicket   = rwTicket + 1 // the mode
	permitTicket = rwTicket + layout.WeightSize
)

// native is the library's own layout.
type native struct {
	prefix string // of the keys
	asked  string // what the names begin with
	limit  int    // of waiters
}

// scans implements view.
func (n native) scans() []wire.Scan {
	return []wire.Scan{{Match: literal(n.prefix+"{"+names.Encode(whole(n.asked))) + "*"}}
}

// probe implements view.
func (n native) probe(_ wire.Scan, key string) *probe {
	tag, set, parsed := names.Parse(n.prefix, key)
	if !parsed {
		return nil
	}
	p := &probe{entry: Entry{Key: key, Hashed: names.IsHash(tag)}}
	name, decoded := names.Decode(tag)
	if p.entry.Name = name; !decoded {
		p.entry.Name, p.entry.Raw = tag, !p.entry.Hashed
	}
	if n.asked != "" && (p.entry.Hashed || !strings.HasPrefix(p.entry.Name, n.asked)) {
		return nil // what a digest stands for may begin with anything
	}
	return n.begin(p, set)
}

// begin asks the first questions about the key of p, one of those of set. It returns nil for a key that says nothing
// alone, as a queue does.
func (n native) begin(p *probe, set names.Set) *probe {
	switch p.entry.Key {
	case set.Holder:
		n.lock(p, set)
	case set.Permits():
		n.permits(p, set)
	case set.Latch():
		n.latch(p)
	case set.Outcome():
		n.outcome(p)
	default:
		return nil
	}
	return p
}

// all returns the probes for one name.
func (n native) all(set names.Set, entry Entry) []*probe {
	var probes []*probe
	for _, key := range []string{set.Holder, set.Permits(), set.Latch(), set.Outcome()} {
		p := &probe{entry: entry}
		p.entry.Key = key
		probes = append(probes, n.begin(p, set))
	}
	return probes
}

func (n native) lock(p *probe, set names.Set) {
	var described wire.Reply
	p.ask(session.Describing(set.Holder), func(reply wire.Reply) { described = reply })
	queues := wire.Call{Command: "EXISTS", Keys: []string{set.Line(), set.Writers(), set.Readers()}}
	p.ask(queues, func(reply wire.Reply) { n.described(p, set, described, reply.Int(0) > 0) })
}

// described reads what the holder key says. queued: the name has a queue.
func (n native) described(p *probe, set names.Set, reply wire.Reply, queued bool) { //nolint:revive // a fact, not a switch
	if reply.Code() < wire.NotDone {
		p.foreign()
		return
	}
	h, hold, letter, err := session.ReadHold(reply)
	switch {
	case err != nil && !queued:
		return // free
	case err != nil: // free, and a waiter is about to be granted it
		p.entry.Kind = Exclusive
		n.queue(p, lockQueue(set))
		n.rwQueues(p, set)
		return
	}
	p.entry.Kind = h.Kind
	switch letter {
	case "w":
		n.rwlock(p, set)
		if queued {
			n.rwQueues(p, set)
		}
		return
	case "f":
		p.ask(wire.Call{Script: scripts.ElectionRead, Keys: []string{set.Leader()}}, func(reply wire.Reply) {
			if reply.Code() == wire.Done && reply.Text(1) == hold {
				p.entry.Kind, p.entry.Value = Election, reply.Text(2)
			}
		})
	}
	p.hold(Holder{Label: h.Label, Session: h.Session, Hold: session.HoldID(hold), Since: h.Since, Until: h.Until, Token: h.Token})
	if queued {
		n.queue(p, lockQueue(set))
	}
}

// list returns a script's call that lists the first holds of a key that has several. kind is what a key of its kind has as a
// member; Redisson's keys have nothing of the sort.
func list(script *scripts.Script, key, kind string) wire.Call {
	return wire.Call{Script: script, Keys: []string{key}, Args: []string{kind, "0", strconv.Itoa(most)}}
}

func (native) rwlock(p *probe, set names.Set) {
	table := layout.Native().RWLock
	p.ask(list(scripts.HoldsList, set.Holder, "sb1w"), func(reply wire.Reply) {
		floor, writing := reply.Stamp(0), reply.Text(1) == "1"
		for i := 2; i+1 < reply.Len(); i += 2 {
			name := reply.Text(i)
			h := Holder{Label: table.Label(name), Session: layout.Native().Session(name), Hold: session.HoldID(name), Until: reply.Stamp(i + 1).Time(), Shared: !writing}
			if writing && floor != 0 {
				h.Since, h.Token = floor.Time(), floor.Token()
			}
			p.hold(h)
		}
	})
}

func (n native) rwQueues(p *probe, set names.Set) {
	n.queue(p, queue{kind: RWLock, line: set.Writers(), lives: set.RWLives(), ticket: rwTicket})
	n.queue(p, queue{kind: RWLock, line: set.Readers(), lives: set.RWLives(), ticket: rwTicket, shared: true})
}

func (n native) permits(p *probe, set names.Set) {
	table := layout.Native().Semaphore
	key := set.Permits()
	p.entry.Kind = Semaphore
	p.ask(list(scripts.HoldsList, key, "sb1s"), func(reply wire.Reply) {
		if reply.Code() == wire.Foreign {
			p.foreign()
			return
		}
		for i := 2; i+1 < reply.Len(); i += 2 {
			permits, label, owner := table.Holder("", reply.Text(i))
			p.hold(Holder{Label: label, Session: owner, Hold: session.HoldID(reply.Text(i)), Permits: permits, Until: reply.Stamp(i + 1).Time()})
		}
	})
	p.ask(wire.Call{Script: table.Available, Keys: []string{key}}, func(reply wire.Reply) {
		if reply.Code() == wire.Done {
			p.entry.Capacity, p.entry.Held = int(max(reply.Int(1), 0)), int(reply.Int(2))
		}
	})
	p.ask(wire.Call{Command: "EXISTS", Keys: []string{set.PermitsLine()}}, func(reply wire.Reply) {
		if reply.Int(0) > 0 {
			n.queue(p, queue{kind: Semaphore, line: set.PermitsLine(), lives: set.PermitsLives(), ticket: permitTicket})
		}
	})
}

// queue is where tickets of a kind wait.
type queue struct {
	kind, line, lives string
	ticket            int // the length of its tickets
	shared            bool
}

func lockQueue(set names.Set) queue {
	return queue{kind: Exclusive, line: set.Line(), lives: set.Lives(), ticket: lockTicket}
}

// queue asks for the tickets of a queue. If no session holds the lock, the queue says which kind it is of.
func (n native) queue(p *probe, q queue) {
	p.ask(wire.Call{Command: "ZCARD", Keys: []string{q.line}}, func(reply wire.Reply) {
		if tickets := int(reply.Int(0)); tickets > 0 {
			if p.entry.HolderCount == 0 {
				p.entry.Kind = q.kind
			}
			p.entry.WaiterCount, p.used = p.entry.WaiterCount+tickets, true
		}
	})
	page := wire.Call{Script: scripts.LockWaiters, Keys: []string{q.line, q.lives}, Args: []string{"0", strconv.Itoa(n.limit), strconv.Itoa(q.ticket)}}
	p.ask(page, func(reply wire.Reply) {
		for i := 0; i+3 < reply.Len(); i += 4 {
			ticket := reply.Text(i)
			if ticket == "" {
				continue // of another kind
			}
			w := Waiter{
				Label: reply.Text(i + 3), Session: layout.Native().Session(ticket),
				Since: reply.Stamp(i + 1).Time(), Alive: reply.Int(i+2) == 1, Shared: q.shared,
			}
			if q.ticket == permitTicket && len(ticket) > rwTicket {
				w.Permits, _ = strconv.Atoi(ticket[rwTicket:]) // 0 if another program wrote it
			}
			p.entry.Waiters = append(p.entry.Waiters, w)
		}
		// The two queues of a read-write lock are shown as one.
		slices.SortStableFunc(p.entry.Waiters, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	})
}

// The fields of a latch's round, and its length; scripts/README.md has them.
const (
	roundSize = 65
	counting  = 'c'
)

func (native) latch(p *probe) {
	var value string
	key := []string{p.entry.Key}
	p.ask(wire.Call{Command: "HGET", Keys: key, Args: []string{"round"}}, func(reply wire.Reply) { value = reply.Text(0) })
	p.ask(wire.Call{Command: "HLEN", Keys: key}, func(reply wire.Reply) {
		size := int(reply.Int(0))
		switch {
		case size == 0:
		case len(value) != roundSize || value[:3] != "sb1":
			p.foreign()
		case value[19] == counting:
			p.entry.Kind, p.used = Countdown, true
			p.entry.Since = wire.ParseStamp(value[3:19]).Time()
			p.entry.Total, _ = strconv.Atoi(value[47:55]) // 0 if another program wrote it
			p.entry.Left = max(p.entry.Total-(size-2), 0) // all fields but round and past are ids
		}
	})
}

// outcomeHead is how an outcome begins: sb1o and a stamp.
const outcomeHead = 20

func (native) outcome(p *probe) {
	key := []string{p.entry.Key}
	p.ask(wire.Call{Command: "GETRANGE", Keys: key, Args: []string{"0", strconv.Itoa(outcomeHead - 1)}}, func(reply wire.Reply) {
		switch head := reply.Text(0); {
		case head == "":
		case len(head) != outcomeHead || head[:4] != "sb1o":
			p.foreign()
		default:
			p.entry.Kind, p.used = Once, true
			stamp := wire.ParseStamp(head[4:])
			p.entry.Since, p.entry.Token = stamp.Time(), stamp.Token()
		}
	})
	p.ask(wire.Call{Command: "PEXPIRETIME", Keys: key}, func(reply wire.Reply) {
		if ends := reply.Int(0); ends > 0 && p.entry.Kind == Once {
			p.entry.Until = time.UnixMilli(ends)
		}
	})
}
