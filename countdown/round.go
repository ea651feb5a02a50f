// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"context"
	"fmt"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// maxStamp is the greatest stamp that has 16 digits.
const maxStamp = 9_999_999_999_999_999

// namelessStamp is that of all rounds where they are nameless; see layout.Latch.
const namelessStamp = 1

// Round is one count of a latch, from its Start until it opens or is reset. It is a small value, free to
// copy, and safe for concurrent use; the zero Round is none, and its calls answer ErrNoRound.
type Round struct {
	latch *Latch
	stamp wire.Stamp
}

// ID names the round among those of its latch, for other processes: see Latch.RoundOf. A later round has a
// greater one. It is the server's time at the start in microseconds, and below 2^53, so that it is exact in
// JSON; 0 for the zero Round.
func (r Round) ID() uint64 {
	return uint64(r.stamp) //nolint:gosec // not negative
}

// CountDown counts id, and returns how many others open the round still: 0 says that it is open. An id counts
// once, however often it is sent, and by which process: a worker that is started again repeats its
// own, and nobody can open the round early. It has from 1 to MaxID bytes. When the round is open, CountDown answers 0
// whatever the id.
//
// ErrRoundOver says that the round has opened and another one was started since, and ErrReset that it was reset:
// this work came too late. ErrRoundLost: see there.
//
// A server that is away, or refuses for now, is waited for as long as ctx lets it. When ctx ends first the id may be
// counted or not; it is safe to repeat.
func (r Round) CountDown(ctx context.Context, id string) (left int, err error) {
	if err = r.valid(); err == nil {
		left, err = r.latch.countDown(ctx, r.stamp, id)
	}
	return left, r.explain("count down", err)
}

// Wait waits until the round is open, and answers nil then, also when it has been open for long. It answers
// ErrReset when the round was reset, ErrRoundLost when the server does not know it any more, ErrClosed
// when the session is closed, the context's error when ctx ends first, joined with what the server said last if that
// was a refusal, and ErrWrongKind, ErrDenied or the server's own words where waiting cannot help. A server that is away
// is waited for.
func (r Round) Wait(ctx context.Context) error {
	err := r.valid()
	if err == nil {
		err = r.latch.wait(ctx, r.stamp)
	}
	return r.explain("wait", err)
}

// Count returns how many ids open the round still: 0 says that it is open. One round trip, without a second
// try. The errors are those of Wait.
func (r Round) Count(ctx context.Context) (left int, err error) {
	if err = r.valid(); err == nil {
		left, err = r.latch.count(ctx, r.stamp)
	}
	return left, r.explain("count", err)
}

func (r Round) valid() error {
	if r.latch == nil {
		return errs.ErrNoRound
	}
	if err := r.latch.base.Made(); err != nil {
		return err
	}
	switch {
	case r.stamp <= 0 || r.stamp > maxStamp:
		return fmt.Errorf("%w: %d is the ID of no round", errs.ErrBadOption, r.stamp)
	case r.latch.realm.scripts.Nameless && r.stamp != namelessStamp:
		return fmt.Errorf("%w: %d is the ID of no round: in Redisson's layout all have %d", errs.ErrBadOption, r.stamp, namelessStamp)
	}
	return nil
}

func (r Round) explain(op string, err error) error {
	if err == nil || r.latch == nil {
		return err
	}
	return r.latch.base.Explain(op, err)
}
