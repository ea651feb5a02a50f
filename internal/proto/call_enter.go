// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
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
