// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"slices"
	"strconv"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// The lengths of tickets, by which the tickets of each kind of queue are recognised.
const (
	rwTicket     = HoldSize
	lockTicket   = rwTicket + 1 // the mode
	permitTicket = rwTicket + WeightSize
)

// ticketQueue is a queue of tickets at the server.
type ticketQueue struct {
	kind, key, heartbeats string
	ticketLength          int // the length of the queue's tickets
	shared                bool
}

// queryQueue queries the tickets of a queue. If no session holds the lock, the queue says which kind it is of.
func queryQueue(i *Inspection, q ticketQueue) {
	i.Query(wire.Call{Command: "ZCARD", Keys: []string{q.key}}, func(reply wire.Reply) {
		if tickets := int(reply.Int(0)); tickets > 0 {
			if i.Use.HolderCount == 0 {
				i.Use.Kind = q.kind
			}
			i.Use.WaiterCount, i.InUse = i.Use.WaiterCount+tickets, true
		}
	})
	page := wire.Call{Script: scripts.LockWaiters, Keys: []string{q.key, q.heartbeats}, Args: []string{"0", strconv.Itoa(i.WaiterLimit), strconv.Itoa(q.ticketLength)}}
	i.Query(page, func(reply wire.Reply) {
		for at := 0; at+3 < reply.Len(); at += 4 {
			ticket := reply.Text(at)
			if ticket == "" {
				continue // of another kind
			}
			w := Waiter{
				Label: reply.Text(at + 3), Session: nativeSession(ticket),
				Since: reply.Stamp(at + 1).Time(), Alive: reply.Int(at+2) == 1, Shared: q.shared,
			}
			if q.ticketLength == permitTicket && len(ticket) > rwTicket {
				w.Permits, _ = strconv.Atoi(ticket[rwTicket:]) // 0 if another program wrote it
			}
			i.Use.Waiters = append(i.Use.Waiters, w)
		}
		// The two queues of a read-write lock are shown as one.
		slices.SortStableFunc(i.Use.Waiters, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	})
}
