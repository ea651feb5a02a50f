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

// The lengths of tickets, by which the tickets of each kind of queue are recognised.
const (
	rwTicket     = layout.HoldSize
	lockTicket   = rwTicket + 1 // the mode
	permitTicket = rwTicket + layout.WeightSize
)

// native is the library's own layout.
type native struct {
	prefix      string // the prefix of the keys
	namePrefix  string // the beginning of the names to list
	waiterLimit int    // the most waiters to read
}

// scans implements lister.
func (n native) scans() []wire.Scan {
	return []wire.Scan{{Match: literal(n.prefix+"{"+names.Encode(withoutPartialRune(n.namePrefix))) + "*"}}
}

// ofKey implements lister.
func (n native) ofKey(_ wire.Scan, key string) *keyInspection {
	tag, set, parsed := names.Parse(n.prefix, key)
	if !parsed {
		return nil
	}
	ki := &keyInspection{entry: Entry{Key: key, Hashed: names.IsHash(tag)}}
	name, decoded := names.Decode(tag)
	if ki.entry.Name = name; !decoded {
		ki.entry.Name, ki.entry.Raw = tag, !ki.entry.Hashed
	}
	if n.namePrefix != "" && (ki.entry.Hashed || !strings.HasPrefix(ki.entry.Name, n.namePrefix)) {
		return nil // what a digest stands for may begin with anything
	}
	return n.queryKey(ki, set)
}

// queryKey adds the first queries for the key of p, one of the keys of set. It returns nil for a key that says nothing by
// itself, such as a queue.
func (n native) queryKey(ki *keyInspection, set names.Set) *keyInspection {
	switch ki.entry.Key {
	case set.Holder:
		n.queryLock(ki, set)
	case set.Permits():
		n.queryPermits(ki, set)
	case set.Latch():
		n.queryLatch(ki)
	case set.Outcome():
		n.queryOutcome(ki)
	case set.Shards():
		n.queryShards(ki, set)
	default:
		return nil
	}
	return ki
}

// ofName returns the inspections of one name.
func (n native) ofName(set names.Set, entry Entry) []*keyInspection {
	var inspections []*keyInspection
	for _, key := range []string{set.Holder, set.Permits(), set.Latch(), set.Outcome(), set.Shards()} {
		ki := &keyInspection{entry: entry}
		ki.entry.Key = key
		inspections = append(inspections, n.queryKey(ki, set))
	}
	return inspections
}

// queryLock queries the holder key and the existence of queues.
func (n native) queryLock(ki *keyInspection, set names.Set) {
	var described wire.Reply
	ki.query(session.DescribeCall(set.Holder), func(reply wire.Reply) { described = reply })
	queues := wire.Call{Command: "EXISTS", Keys: []string{set.QueueKey(), set.Writers(), set.Readers()}}
	ki.query(queues, func(reply wire.Reply) { n.readLock(ki, set, described, reply.Int(0) > 0) })
}

// readLock reads the description of the holder key. queued says that the name has a queue.
func (n native) readLock(ki *keyInspection, set names.Set, reply wire.Reply, queued bool) { //nolint:revive // a fact, not a switch
	if reply.Code() < wire.NotDone {
		ki.setForeign()
		return
	}
	h, hold, letter, err := session.ReadHold(reply)
	switch {
	case err != nil && !queued:
		return // free
	case err != nil: // free, and a waiter is about to be granted it
		ki.entry.Kind = Exclusive
		n.queryQueue(ki, lockQueue(set))
		n.queryRWQueues(ki, set)
		return
	}
	ki.entry.Kind = h.Kind
	switch letter {
	case "w":
		n.queryRWLock(ki, set)
		if queued {
			n.queryRWQueues(ki, set)
		}
		return
	case "f":
		ki.query(wire.Call{Script: scripts.ElectionRead, Keys: []string{set.Leader()}}, func(reply wire.Reply) {
			if reply.Code() == wire.Done && reply.Text(1) == hold {
				ki.entry.Kind, ki.entry.Value = Election, reply.Text(2)
			}
		})
	}
	ki.addHolder(Holder{Label: h.Label, Session: h.Session, Hold: session.HoldID(hold), MayBeIdle: h.MayBeIdle, Since: h.Since, Until: h.Until, Token: h.Token})
	if queued {
		n.queryQueue(ki, lockQueue(set))
	}
}

func (native) queryRWLock(ki *keyInspection, set names.Set) {
	table := layout.Native().RWLock
	ki.query(session.ListCall(scripts.HoldsList, set.Holder, "sb1w", 0, maxOfName), func(reply wire.Reply) {
		floor, writing := reply.Stamp(0), reply.Text(1) == "1"
		for i := 2; i+1 < reply.Len(); i += 2 {
			name := reply.Text(i)
			h := Holder{Label: table.LabelOf(name), Session: layout.Native().Session(name), Hold: session.HoldID(name), Until: reply.Stamp(i + 1).Time(), Shared: !writing}
			if writing && floor != 0 {
				h.Since, h.Token = floor.Time(), floor.Token()
			}
			ki.addHolder(h)
		}
	})
}

func (n native) queryRWQueues(ki *keyInspection, set names.Set) {
	n.queryQueue(ki, ticketQueue{kind: RWLock, key: set.Writers(), heartbeats: set.RWHeartbeats(), ticketLength: rwTicket})
	n.queryQueue(ki, ticketQueue{kind: RWLock, key: set.Readers(), heartbeats: set.RWHeartbeats(), ticketLength: rwTicket, shared: true})
}

func (n native) queryPermits(ki *keyInspection, set names.Set) {
	table := layout.Native().Semaphore
	key := set.Permits()
	ki.entry.Kind = Semaphore
	ki.query(session.ListCall(scripts.HoldsList, key, "sb1s", 0, maxOfName), func(reply wire.Reply) {
		if reply.Code() == wire.Foreign {
			ki.setForeign()
			return
		}
		for i := 2; i+1 < reply.Len(); i += 2 {
			permits, label, owner := table.ParseHold("", reply.Text(i))
			ki.addHolder(Holder{Label: label, Session: owner, Hold: session.HoldID(reply.Text(i)), Permits: permits, Until: reply.Stamp(i + 1).Time()})
		}
	})
	ki.query(wire.Call{Script: table.Available, Keys: []string{key}}, func(reply wire.Reply) {
		if reply.Code() == wire.Done {
			ki.entry.Capacity, ki.entry.Held = int(max(reply.Int(1), 0)), int(reply.Int(2))
		}
	})
	ki.query(wire.Call{Command: "EXISTS", Keys: []string{set.PermitsQueue()}}, func(reply wire.Reply) {
		if reply.Int(0) > 0 {
			n.queryQueue(ki, ticketQueue{kind: Semaphore, key: set.PermitsQueue(), heartbeats: set.PermitsHeartbeats(), ticketLength: permitTicket})
		}
	})
}

// ticketQueue is a queue of tickets at the server.
type ticketQueue struct {
	kind, key, heartbeats string
	ticketLength          int // the length of the queue's tickets
	shared                bool
}

func lockQueue(set names.Set) ticketQueue {
	return ticketQueue{kind: Exclusive, key: set.QueueKey(), heartbeats: set.HeartbeatsKey(), ticketLength: lockTicket}
}

// queryQueue queries the tickets of a queue. If no session holds the lock, the queue says which kind it is of.
func (n native) queryQueue(ki *keyInspection, q ticketQueue) {
	ki.query(wire.Call{Command: "ZCARD", Keys: []string{q.key}}, func(reply wire.Reply) {
		if tickets := int(reply.Int(0)); tickets > 0 {
			if ki.entry.HolderCount == 0 {
				ki.entry.Kind = q.kind
			}
			ki.entry.WaiterCount, ki.inUse = ki.entry.WaiterCount+tickets, true
		}
	})
	page := wire.Call{Script: scripts.LockWaiters, Keys: []string{q.key, q.heartbeats}, Args: []string{"0", strconv.Itoa(n.waiterLimit), strconv.Itoa(q.ticketLength)}}
	ki.query(page, func(reply wire.Reply) {
		for i := 0; i+3 < reply.Len(); i += 4 {
			ticket := reply.Text(i)
			if ticket == "" {
				continue // of another kind
			}
			w := Waiter{
				Label: reply.Text(i + 3), Session: layout.Native().Session(ticket),
				Since: reply.Stamp(i + 1).Time(), Alive: reply.Int(i+2) == 1, Shared: q.shared,
			}
			if q.ticketLength == permitTicket && len(ticket) > rwTicket {
				w.Permits, _ = strconv.Atoi(ticket[rwTicket:]) // 0 if another program wrote it
			}
			ki.entry.Waiters = append(ki.entry.Waiters, w)
		}
		// The two queues of a read-write lock are shown as one.
		slices.SortStableFunc(ki.entry.Waiters, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	})
}

// The fields of a latch's round, and its length; scripts/README.md has them.
const (
	roundSize = 65
	counting  = 'c'
)

func (native) queryLatch(ki *keyInspection) {
	var value string
	key := []string{ki.entry.Key}
	ki.query(wire.Call{Command: "HGET", Keys: key, Args: []string{"round"}}, func(reply wire.Reply) { value = reply.Text(0) })
	ki.query(wire.Call{Command: "HLEN", Keys: key}, func(reply wire.Reply) {
		size := int(reply.Int(0))
		switch {
		case size == 0:
		case len(value) != roundSize || value[:3] != "sb1":
			ki.setForeign()
		case value[19] == counting:
			ki.entry.Kind, ki.inUse = Countdown, true
			ki.entry.Since = wire.ParseStamp(value[3:19]).Time()
			ki.entry.Total, _ = strconv.Atoi(value[47:55])  // 0 if another program wrote it
			ki.entry.Left = max(ki.entry.Total-(size-2), 0) // all fields but round and past are ids
		}
	})
}

// outcomeHead is how an outcome begins: sb1o and a stamp.
const outcomeHead = 20

func (native) queryOutcome(ki *keyInspection) {
	ki.query(readString(ki.entry.Key, outcomeHead), func(reply wire.Reply) {
		switch head := reply.Text(0); {
		case head == "":
		case len(head) != outcomeHead || head[:4] != "sb1o":
			ki.setForeign()
		default:
			ki.entry.Kind, ki.inUse = Once, true
			stamp := wire.ParseStamp(head[4:])
			ki.entry.Since, ki.entry.Token = stamp.Time(), stamp.Token()
			if ends := reply.Int(1); ends > 0 {
				ki.entry.Until = time.UnixMilli(ends)
			}
		}
	})
}
