// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// The scripts of queues, and of the reentrant and the fair lock.
//
//nolint:gochecknoglobals // constants in all but name
var (
	QueueHeartbeatScript = mustLoad("queue/heartbeat", 1)

	LockEnterScript       = mustLoad("lock/enter", 1)
	LockPollScript        = mustLoad("lock/poll", 1)
	LockHeartbeatScript   = mustLoad("lock/heartbeat", 1)
	LockKeepScript        = mustLoad("lock/keep", 1)
	LockLeaveScript       = mustLoad("lock/leave", 1)
	LockFreeScript        = mustLoad("lock/free", 1)
	LockRequeueScript     = mustLoad("lock/requeue", 1)
	LockForceScript       = mustLoad("lock/force", 1)
	LockWaitersScript     = mustLoad("lock/waiters", 1)
	LockAcquireManyScript = mustLoad("lock/acquire-many", 1)
	LockReleaseManyScript = mustLoad("lock/release-many", 1)
)

// Enter is the call of lock/enter. Waiting is a Waiting as a text. If it is "", it is left out.
type Enter struct{ Unmarked, LifeMS, NotAfter, Label, Waiting string }

// AppendTo appends the arguments in the order of the header.
func (c Enter) AppendTo(args []string) []string {
	if args = append(args, c.Unmarked, c.LifeMS, c.NotAfter, c.Label); c.Waiting == "" {
		return args
	}
	return append(args, c.Waiting)
}

// Waiting is what an enter needs only if the lock is not free. Number is "" for no heartbeat.
type Waiting struct{ Queues, HeartbeatUS, Number, KeepMS, Verb, Channel string }

// Text returns what lock/enter takes apart.
func (w Waiting) Text() string {
	return strings.Join([]string{w.Queues, w.HeartbeatUS, w.Number, w.KeepMS, w.Verb, w.Channel}, " ")
}

// EnterShared is the call of rwlock/enter and semaphore/enter. Terms are an RWTerms or a PermitTerms.
type EnterShared struct {
	Ticket, LifeUS, NotAfter string
	Waiting
	Label string
	Terms []string
	Again string
}

// AppendTo appends the arguments in the order of the header.
func (c EnterShared) AppendTo(args []string) []string {
	args = append(args, c.Ticket, c.LifeUS, c.NotAfter, c.Queues, c.HeartbeatUS, c.Number, c.Label, c.Verb, c.Channel, c.KeepMS)
	return append(append(args, c.Terms...), c.Again)
}

// RWTerms are what a request for a read-write lock has beside those of all kinds.
type RWTerms struct{ Mode string }

// AppendTo appends them in the order of the header.
func (c RWTerms) AppendTo(args []string) []string { return append(args, c.Mode) }

// PermitTerms are what a request for permits has beside those of all kinds.
type PermitTerms struct{ Permits, Exact string }

// AppendTo appends them in the order of the header.
func (c PermitTerms) AppendTo(args []string) []string { return append(args, c.Permits, c.Exact) }

// Entered is the reply to an enter.
type Entered struct {
	Code       wire.Code
	Stamp      wire.Stamp    // of the hold, if the code is wire.Done
	Unmarked   bool          // the key has no mark: no queue can exist
	Left       time.Duration // how long the hold of another lasts at the most, if the code is wire.NotDone
	PollAtOnce bool          // a poll is due at once
	Now        wire.Stamp    // 0 if the reply cannot be read, or has no time
	Kind       string        // the kind that has the name, if the code is wire.Foreign
	Capacity   int64         // how many permits there are, if the code is wire.TooFew or wire.OtherCapacity
}

// ReadEntered reads the reply to an enter.
func ReadEntered(r *wire.Reply) Entered {
	e := Entered{Code: r.Code()}
	switch e.Code {
	case wire.Done:
		e.Unmarked = r.IsOnlyStamp()
		if e.Stamp = r.Stamp(1); e.Stamp != 0 {
			e.Now = r.Stamp(2)
		}
	case wire.NotDone:
		e.Left, e.PollAtOnce, e.Now = microseconds(r.Int(1)), r.Int(2) == 1, r.Stamp(3)
	case wire.Foreign:
		e.Kind = r.Text(1)
	case wire.TooFew, wire.OtherCapacity:
		e.Capacity = r.Int(1)
	default:
		e.Now = r.Stamp(1)
	}
	return e
}

// Requeue is the call of lock/requeue.
type Requeue struct {
	Old, New, LifeUS, NotAfter, HeartbeatUS, Number, Label, Verb, Channel, KeepMS, Used, Certain string
}

// AppendTo appends the arguments in the order of the header.
func (c Requeue) AppendTo(args []string) []string {
	return append(args, c.Old, c.New, c.LifeUS, c.NotAfter, c.HeartbeatUS, c.Number, c.Label, c.Verb, c.Channel, c.KeepMS, c.Used, c.Certain)
}

// Requeued is the reply to a requeue: that to an enter for the new ticket, and what became of the old one. If the call had the holder
// key alone, and another hold has the lock, it says of the old one that nothing is known.
type Requeued struct {
	Entered

	Grants  string // to other attempts of the session
	OldGone bool   // the server has nothing of the old attempt any more
	WasHeld bool   // the old attempt had the lock
}

// ReadRequeued reads the reply to a requeue.
func ReadRequeued(r *wire.Reply) Requeued {
	q := Requeued{Entered: ReadEntered(r)}
	if q.Code == wire.NotDone {
		q.Grants = r.Text(4)
	}
	if n := r.Len(); n >= 4 {
		q.OldGone, q.WasHeld = r.Int(n-2) == 1, r.Int(n-1) == 1
	}
	return q
}

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

// FirstUsed is the argument used if no token behind the first one was used. It is less than every stamp: a script takes a text that
// is no stamp for "not known".
const FirstUsed = "0000000000000000"

// Free is the call of lock/free.
type Free struct{ Unmarked, KeepMS, Used string }

// AppendTo appends the arguments in the order of the header.
func (c Free) AppendTo(args []string) []string {
	if args = append(args, c.Unmarked, c.KeepMS); c.Used == FirstUsed {
		return args
	}
	return append(args, c.Used)
}

// Leave is the call of lock/leave.
type Leave struct{ Ticket, Session, Verb, Channel, KeepMS, Used, Certain string }

// AppendTo appends the arguments in the order of the header.
func (c Leave) AppendTo(args []string) []string {
	return append(args, c.Ticket, c.Session, c.Verb, c.Channel, c.KeepMS, c.Used, c.Certain)
}

// LeaveShared is the call of rwlock/leave and semaphore/leave.
type LeaveShared struct{ Hold, Session, Verb, Channel, KeepMS, Certain string }

// AppendTo appends the arguments in the order of the header.
func (c LeaveShared) AppendTo(args []string) []string {
	return append(args, c.Hold, c.Session, c.Verb, c.Channel, c.KeepMS, c.Certain)
}

// Granted is what a script replies that may have granted the lock to attempts of the session: the grants, and whether a poll is due
// at once.
type Granted struct {
	Grants     string
	PollAtOnce bool
}

func readGranted(r *wire.Reply) Granted { return Granted{r.Text(2), r.Int(3) == 1} }

// Left is the reply to a leave.
type Left struct {
	Granted

	Code    wire.Code
	Now     wire.Stamp // 0 if the script did not need the time
	NoQueue bool       // no queue can exist
}

// ReadLeft reads the reply to a leave.
func ReadLeft(r *wire.Reply) Left {
	return Left{Granted: readGranted(r), Code: r.Code(), Now: r.Stamp(1), NoQueue: r.Code() == wire.Done && r.Len() == 1}
}

// WasHeld reports whether the attempt had the lock.
func (l *Left) WasHeld() bool { return l.Code == wire.Done || l.Code == wire.MayQueue }

// MayHaveTicket reports whether only the holder key was sent, so that the attempt may still have a ticket.
func (l *Left) MayHaveTicket() bool { return l.Code == wire.MayQueue || l.Code == wire.NeedsQueue }

// Force is the call of lock/force and of holder/force.
type Force struct{ ID, Verb, Channel, Forced, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c Force) AppendTo(args []string) []string {
	return append(args, c.ID, c.Verb, c.Channel, c.Forced, c.KeepMS)
}
