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
	page := Waiters{After: "0", Count: strconv.Itoa(i.WaiterLimit), Size: strconv.Itoa(q.ticketLength)}
	i.Query(wire.Call{Script: scripts.LockWaiters, Keys: []string{q.key, q.heartbeats}, Args: page.AppendTo(nil)}, func(reply wire.Reply) {
		for _, t := range ReadWaiters(&reply) {
			if t.Ticket == "" {
				continue // of another kind
			}
			w := Waiter{Label: t.Label, Session: nativeSession(t.Ticket), Since: t.Since().Time(), Alive: t.IsAlive, Shared: q.shared}
			if q.ticketLength == permitTicket && len(t.Ticket) > rwTicket {
				w.Permits, _ = strconv.Atoi(t.Ticket[rwTicket:]) // 0 if another program wrote it
			}
			i.Use.Waiters = append(i.Use.Waiters, w)
		}
		// The two queues of a read-write lock are shown as one.
		slices.SortStableFunc(i.Use.Waiters, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	})
}
