// SPDX-License-Identifier: Apache-2.0

package proto

import "github.com/signalbox-go/signalbox/internal/wire"

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
