// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Remains is the most that the requests of an attempt left at the server, by the replies to them.
type Remains uint8

const (
	// NothingLeft says that they left nothing.
	NothingLeft Remains = iota
	// UnmarkedHoldLeft says that they left a hold, and no ticket, and that the holder key has no mark: no queue could exist then.
	UnmarkedHoldLeft
	// HoldLeft says that they left a hold, and no ticket.
	HoldLeft
	// TicketLeft says that they left a ticket, or the hold that it was granted, which has removed the ticket.
	TicketLeft
	// TicketBesideHold says that they left a ticket, and perhaps a hold beside it.
	TicketBesideHold
)

// Footprint is what the server may have of an attempt. Every request of the attempt has the same id and a not-after, so one
// call undoes them all. The Footprint of an attempt that is over does not change any more.
type Footprint struct {
	Sent     int32      // the number of requests that were sent
	Left     Remains    // what the requests left that had a reply, or a refusal
	Unknown  bool       // a request had no reply: a copy of it may still be executed, until NotAfter
	NotAfter wire.Stamp // the latest not-after of the requests; 0 if none was sent
}

// Send records that a request is about to be sent.
func (f *Footprint) Send(notAfter wire.Stamp) {
	f.Sent, f.NotAfter = f.Sent+1, max(f.NotAfter, notAfter)
}

// Leave records that a request may have left that.
func (f *Footprint) Leave(what Remains) { f.Left = max(f.Left, what) }

// IsEmpty reports whether the server has nothing of the attempt.
func (f *Footprint) IsEmpty() bool { return !f.Unknown && f.Left == NothingLeft }

// HasNoTicket reports whether it is certain that an attempt which has a hold has no ticket beside it. Its only request must
// have had a reply.
func (f *Footprint) HasNoTicket() bool {
	return f.Sent == 1 && !f.Unknown && (f.Left == UnmarkedHoldLeft || f.Left == HoldLeft || f.Left == TicketLeft)
}

// ExecutableFor returns for how long after server, the server's time, a copy of a request may still be executed. It returns 0
// if no copy can be.
func (f *Footprint) ExecutableFor(server wire.Stamp) time.Duration {
	if !f.Unknown || server > f.NotAfter {
		return 0
	}
	return time.Duration(f.NotAfter-server)*time.Microsecond + 2*time.Millisecond
}

// Undo returns the undo, by call, of an attempt that is over. What the server has of it lasts for lasts, and a hold that a
// copy of a request makes lasts for life. The undo ends with the first reply after which no copy can be executed any more.
func (f *Footprint) Undo(call wire.Call, lasts, life time.Duration) *Undo {
	now := timers.Now()
	u := &Undo{Call: call, Until: now.Add(lasts), footprint: *f, life: life}
	if f.Unknown {
		u.executableUntil = now.Add(MaxPatience)
	}
	u.OnReply = func(reply wire.Reply) time.Duration { return u.AfterCopies(proto.ReadUndone(&reply).Now) }
	return u
}
