// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Redlock is a kind. The part of a server is in its holder key.
//
//nolint:gochecknoglobals // a constant table
var Redlock = Kind{
	Name:    "redlock",
	Options: optionsOfLeases | OptionFixedLease | OptionMaxHold | OptionFenced | OptionGreatestLease,
}

// The scripts of one server's part.
//
//nolint:gochecknoglobals // constants in all but name
var (
	RedlockAcquireScript = mustLoad("redlock/acquire", 1)
	RedlockReleaseScript = mustLoad("redlock/release", 1)
	RedlockPollScript    = mustLoad("redlock/poll", 1)
	RedlockFenceScript   = mustLoad("redlock/fence", 1)
	RedlockHealScript    = mustLoad("redlock/heal", 1)
)

// RedlockAcquire is the call of redlock/acquire.
type RedlockAcquire struct{ Hold, TTLMS, NotAfter, Waiter, GreatestUS string }

// AppendTo appends the arguments in the order of the header.
func (c RedlockAcquire) AppendTo(args []string) []string {
	return append(args, c.Hold, c.TTLMS, c.NotAfter, c.Waiter, c.GreatestUS)
}

// RedlockAcquired is the reply of redlock/acquire.
type RedlockAcquired struct {
	Code  wire.Code
	Stamp wire.Stamp    // that of the hold
	Now   wire.Stamp    // the server's time; 0 if the reply has none
	Left  time.Duration // until the key of the other hold ends, or the server grants
	Rival string        // the attempt of the other hold
	Kind  string        // that of the name, of Foreign
}

// ReadRedlockAcquired reads the reply of redlock/acquire.
func ReadRedlockAcquired(r *wire.Reply) RedlockAcquired {
	if now := r.Stamp(0); now != 0 {
		return RedlockAcquired{Code: wire.Done, Stamp: now, Now: now}
	}
	a := RedlockAcquired{Code: r.Code()}
	switch a.Code {
	case wire.Done:
		a.Stamp, a.Now = r.Stamp(1), r.Stamp(2)
	case wire.NotDone:
		a.Left, a.Now, a.Rival = milliseconds(r.Int(1)), r.Stamp(2), r.Text(3)
	case wire.Late:
		a.Now = r.Stamp(1)
	case wire.TooYoung:
		a.Left, a.Now = microseconds(r.Int(1)), r.Stamp(2)
	case wire.Foreign:
		a.Kind = r.Text(1)
	default: // it cannot be read
	}
	return a
}

// RedlockRelease is the call of redlock/release; ReadUndone reads its reply.
type RedlockRelease struct{ ID, Floor, Verb, Channel, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c RedlockRelease) AppendTo(args []string) []string {
	return append(args, c.ID, c.Floor, c.Verb, c.Channel, c.KeepMS)
}

// RedlockFence is the call of redlock/fence.
type RedlockFence struct{ ID, Stamp string }

// AppendTo appends the arguments in the order of the header.
func (c RedlockFence) AppendTo(args []string) []string { return append(args, c.ID, c.Stamp) }

// RedlockHeal is how the call of redlock/heal begins. A RedlockHealHold follows for each hold.
type RedlockHeal struct{ NotAfter string }

// AppendTo appends the arguments in the order of the header.
func (c RedlockHeal) AppendTo(args []string) []string { return append(args, c.NotAfter) }

// RedlockHealHold is the part of one hold in the call of redlock/heal.
type RedlockHealHold struct{ Hold, Stamp, TTLMS, GreatestUS, Granted, Reported, Fenced string }

// AppendTo appends the arguments in the order of the header.
func (c RedlockHealHold) AppendTo(args []string) []string {
	return append(args, c.Hold, c.Stamp, c.TTLMS, c.GreatestUS, c.Granted, c.Reported, c.Fenced)
}

// RedlockHealed is the reply of redlock/heal.
type RedlockHealed struct {
	Code       wire.Code   // Done, or that of a call that did nothing, for all holds
	Now, Since wire.Stamp  // the server's time, and since when it has its data; 0 if the reply does not say so
	Codes      []wire.Code // by hold; nil if the reply cannot be read
}

// ReadRedlockHealed reads the reply of redlock/heal for so many holds.
func ReadRedlockHealed(r *wire.Reply, holds int) RedlockHealed {
	switch code := r.Code(); code {
	case wire.Late:
		return RedlockHealed{Code: code, Now: r.Stamp(1)}
	case wire.Foreign:
		return RedlockHealed{Code: code}
	default:
	}
	h := RedlockHealed{Code: wire.Done, Now: r.Stamp(0), Since: r.Stamp(1)}
	if h.Now != 0 && h.Since != 0 {
		h.Codes = make([]wire.Code, holds)
		for n := range h.Codes {
			h.Codes[n] = wire.Code(r.Int(n + 2))
		}
	}
	return h
}
