// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Poll is the call of lock/poll, rwlock/poll and semaphore/poll.
type Poll struct{ Session, HeartbeatUS, Number, Label, Verb, Channel, Attempts, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c Poll) AppendTo(args []string) []string {
	return append(args, c.Session, c.HeartbeatUS, c.Number, c.Label, c.Verb, c.Channel, c.Attempts, c.KeepMS)
}

// Polled is the reply to a poll.
type Polled struct {
	Granted

	Code     wire.Code
	Kind     string        // the kind that has the name, if the code is wire.Foreign
	Left     time.Duration // how long the hold of the lock, or the first of its holds, lasts at the most
	States   string        // a byte for each attempt of the poll: 0 if it has neither a ticket nor the lock
	Now      wire.Stamp
	Stamp    wire.Stamp // of the hold, from lock/poll; 0 if there is none
	Unlisted string     // a ticket that the poll did not list and that keeps out others, from the other scripts; "" if there is none
}

// ReadPolled reads the reply to a poll.
func ReadPolled(r *wire.Reply) Polled {
	if r.Code() != wire.Done {
		return Polled{Code: r.Code(), Kind: r.Text(1)}
	}
	return Polled{
		Code: wire.Done, Left: microseconds(r.Int(1)), Granted: Granted{PollAtOnce: r.Int(2) == 1, Grants: r.Text(3)},
		States: r.Text(4), Now: r.Stamp(5), Stamp: r.Stamp(6), Unlisted: r.Text(6),
	}
}

// LockHeartbeat is the call of lock/heartbeat.
type LockHeartbeat struct{ Session, HeartbeatUS, Number, Stamps string }

// AppendTo appends the arguments in the order of the header.
func (c LockHeartbeat) AppendTo(args []string) []string {
	return append(args, c.Session, c.HeartbeatUS, c.Number, c.Stamps)
}

// ReadUnchanged reads what lock/heartbeat replied of the n-th lock: whether nothing has changed, and the server's time.
func ReadUnchanged(r *wire.Reply, n int) (now wire.Stamp, isUnchanged bool) {
	return r.Stamp(0), r.Int(n+1) == 1
}

// QueueHeartbeat is the call of queue/heartbeat.
type QueueHeartbeat struct{ Session, HeartbeatUS, Number, Label string }

// AppendTo appends the arguments in the order of the header.
func (c QueueHeartbeat) AppendTo(args []string) []string {
	return append(args, c.Session, c.HeartbeatUS, c.Number, c.Label)
}

// Waiters is the call of lock/waiters.
type Waiters struct{ After, Count, Size string }

// AppendTo appends the arguments in the order of the header.
func (c Waiters) AppendTo(args []string) []string { return append(args, c.After, c.Count, c.Size) }

// ListedTicket is a ticket of the reply to lock/waiters, or to the script of a layout of others that lists waiters.
type ListedTicket struct {
	Ticket  string // "" if it is of another kind
	Arrival string // a stamp, or another text that says where the next page begins
	IsAlive bool   // its session is alive
	Label   string
}

// Since returns when the ticket arrived, or 0 if Arrival does not say it.
func (t *ListedTicket) Since() wire.Stamp { return wire.ParseStamp(t.Arrival) }

// ReadWaiters reads the reply to lock/waiters.
func ReadWaiters(r *wire.Reply) []ListedTicket {
	tickets := make([]ListedTicket, 0, r.Len()/4)
	for i := 0; i+3 < r.Len(); i += 4 {
		tickets = append(tickets, ListedTicket{r.Text(i), r.Text(i + 1), r.Int(i+2) == 1, r.Text(i + 3)})
	}
	return tickets
}
