// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// RetryAcquire is the call of Retry.Acquire. Terms are those of the layout, and then those of the request.
type RetryAcquire struct {
	Hold, TTLMS, NotAfter, Verb, Channel, Waits string
	Terms                                       []string
}

// AppendTo appends the arguments in the order of the header.
func (c RetryAcquire) AppendTo(args []string) []string {
	return append(append(args, c.Hold, c.TTLMS, c.NotAfter, c.Verb, c.Channel, c.Waits), c.Terms...)
}

// RetrySwap is the call of Retry.Swap. Terms are those of the request.
type RetrySwap struct {
	Hold, TTLMS, NotAfter, Old, Verb, Channel string
	Terms                                     []string
}

// AppendTo appends the arguments in the order of the header.
func (c RetrySwap) AppendTo(args []string) []string {
	return append(append(args, c.Hold, c.TTLMS, c.NotAfter, c.Old, c.Verb, c.Channel), c.Terms...)
}

// RetryRelease is the call of Retry.Release. Terms are those of the layout.
type RetryRelease struct {
	Hold, Verb, Channel string
	Terms               []string
}

// AppendTo appends the arguments in the order of the header.
func (c RetryRelease) AppendTo(args []string) []string {
	return append(append(args, c.Hold, c.Verb, c.Channel), c.Terms...)
}

// Tried is the reply to Retry.Acquire and Retry.Swap.
type Tried struct {
	Code     wire.Code
	Now      wire.Stamp    // 0 if the reply cannot be read, or has no time; the stamp of the hold, if the code is wire.Done
	Token    int64         // that of the hold, in a layout that counts its tokens; else 0
	Counts   bool          // the layout counts its tokens
	Left     time.Duration // for how long a poll is useless, if the code is wire.NotDone; negative if that is not known
	Kind     string        // the kind that has the name, if the code is wire.Foreign
	Capacity int64         // how many permits there are, if the code is wire.TooFew or wire.OtherCapacity
}

// ReadTried reads the reply to a try.
func ReadTried(r *wire.Reply) Tried {
	t := Tried{Code: r.Code()}
	switch t.Code {
	case wire.Done:
		t.Now, t.Token, t.Counts = r.Stamp(1), r.Int(2), r.Len() > 2
	case wire.NotDone:
		t.Left, t.Now = milliseconds(r.Int(1)), r.Stamp(2)
	case wire.Late:
		t.Now = r.Stamp(1)
	case wire.Foreign:
		t.Kind = r.Text(1)
	case wire.TooFew, wire.OtherCapacity:
		t.Capacity = r.Int(1)
	default:
	}
	return t
}

// RetryReleased is the reply to Retry.Release.
type RetryReleased struct {
	WasHeld bool
	Now     wire.Stamp
	IsHeard bool // a session listens to the message
}

// ReadRetryReleased reads the reply to a release.
func ReadRetryReleased(r *wire.Reply) RetryReleased {
	return RetryReleased{r.Code() != wire.NotDone, r.Stamp(1), r.Int(2) == 1}
}
