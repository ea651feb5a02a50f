// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"context"
	"fmt"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// maxStamp is the greatest stamp that has 16 digits.
const maxStamp = 9_999_999_999_999_999

// Round is one count of a latch, from its Start until it opens, or until Latch.Reset ends it. It is a small value, free to
// copy, and safe for concurrent use. Calls of the zero Round return ErrNoRound.
type Round struct {
	latch *Latch
	stamp wire.Stamp
}

// ID returns the number by which other processes join the round; see Latch.RoundOf. A later round has
// a greater one. It is the server's time at the start in microseconds, and below 2^53, so that it is
// exact in JSON. The ID of the zero Round is 0.
func (r Round) ID() uint64 {
	return uint64(r.stamp) //nolint:gosec // not negative
}

// CountDown counts id and returns how many ids are still missing; 0 means the round is open. An id
// counts once, however often and by whichever process it is sent: a worker that is started again
// repeats its own, and no id opens the round early. It has from 1 to MaxID bytes. If the round is open,
// CountDown returns 0 for any id.
//
// It returns ErrRoundOver if the round has opened and another one was started since, and ErrReset if it
// was reset: the work came too late. It returns ErrRoundLost if the server does not know the round.
//
// While the server is away, or refuses for now, CountDown waits until ctx ends. After an error the id
// may be counted or not; the call is safe to repeat.
func (r Round) CountDown(ctx context.Context, id string) (left int, err error) {
	if err = r.valid(); err == nil {
		left, err = r.latch.countDown(ctx, r.stamp, id)
	}
	return left, r.explain("count down", err)
}

// Wait blocks until the round is open, and then returns nil, also if it opened long ago. It returns
// ErrReset if the round was reset, ErrRoundLost if the server does not know it any more, and ErrClosed
// if the session is closed. If ctx ends first, it returns the context's error, joined with the server's
// last refusal if there was one. If waiting cannot help, it returns ErrWrongKind, ErrDenied or the
// server's own words. While the server is away, Wait waits.
func (r Round) Wait(ctx context.Context) error {
	err := r.valid()
	if err == nil {
		err = r.latch.wait(ctx, r.stamp)
	}
	return r.explain("wait", err)
}

// Count returns how many ids are still missing; 0 means the round is open. One round trip, without a
// second try. The errors are those of Wait.
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
	if err := r.latch.base.CheckArgs(); err != nil {
		return err
	}
	sole := r.latch.registry.scripts.SoleRound
	switch {
	case r.stamp <= 0 || r.stamp > maxStamp:
		return fmt.Errorf("%w: %d is the ID of no round", errs.ErrBadOption, r.stamp)
	case sole != 0 && r.stamp != sole:
		return fmt.Errorf("%w: %d is the ID of no round: in this layout all have %d", errs.ErrBadOption, r.stamp, sole)
	}
	return nil
}

func (r Round) explain(op string, err error) error {
	if err == nil || r.latch == nil {
		return err
	}
	return r.latch.base.Explain(op, err)
}

// wait waits until a round is over.
func (l *Latch) wait(ctx context.Context, round wire.Stamp) error {
	if err := l.base.Await(ctx); err != nil {
		return err
	}
	l.base.Session.HandshakeInCluster(ctx, l.keys.latch)
	w, a, err := l.registry.join(l.keys, round)
	if err != nil {
		return err
	}
	defer l.registry.leave(w, a)
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
	}
	select {
	case <-a.done: // at the same time, and worth more
		return a.err
	default:
		return errs.Join(errs.Ended(ctx), w.subject.Refusal())
	}
}

// roundState is the state of a round, as the server reports it.
type roundState byte

const (
	counting roundState = 'c'
	opened   roundState = 'o'
	wasReset roundState = 'x'
	// passed: opened, and another round was started since. The server writes it for no round.
	passed roundState = 'p'
	// unknown: the server knows nothing of the round.
	unknown roundState = '?'
)

const (
	recordSize = 16 + 1 + nonceSize
	valueSize  = 3 + recordSize + 16 + 8 + 10
	pastSize   = 32 * recordSize // the longest past
)

// roundRecord is a round as keys and messages have it: its stamp, its state, and its nonce.
type roundRecord struct {
	stamp wire.Stamp
	state roundState
	nonce string
}

// parseRecord reads the record of a round. ok reports whether text is one.
func parseRecord(text string) (e roundRecord, ok bool) {
	if len(text) != recordSize {
		return roundRecord{}, false
	}
	e = roundRecord{stamp: wire.ParseStamp(text[:16]), state: roundState(text[16]), nonce: text[17:]}
	return e, e.stamp > 0 && (e.state == counting || e.state == opened || e.state == wasReset)
}

// roundHistory is what the server knows of the rounds of a latch. It is zero if the latch has no key.
type roundHistory struct {
	newest roundRecord
	since  wire.Stamp // the oldest round of which anything is known
	past   string     // the records of the rounds before the newest, the last ended first
	left   int        // the number of missing ids of the newest round, while it counts
}

// parseHistory reads both fields of the key, as scripts return them.
func parseHistory(s proto.CountdownState) (roundHistory, error) {
	value := s.Value
	if value == "" {
		return roundHistory{}, nil
	}
	if len(value) == valueSize {
		if newest, ok := parseRecord(value[3 : 3+recordSize]); ok {
			return roundHistory{newest, wire.ParseStamp(value[3+recordSize : 3+recordSize+16]), s.Past, s.Left}, nil
		}
	}
	return roundHistory{}, foreign()
}

func parsePollReply(reply *wire.Reply) (roundHistory, error) {
	s := proto.ReadCountdownState(reply)
	if s.Code < wire.NotDone {
		return roundHistory{}, foreign()
	}
	return parseHistory(s)
}

func foreign() error { return fmt.Errorf("%w: the key is not a latch's", errs.ErrWrongKind) }

// stateOf returns the state of a round. The server lists the rounds before the newest, as many as it remembers. A round that
// is missing among these was lost with the writes of a failover, and others were started since. One before all of these was
// followed by another round, so it was over. The resets among such rounds are before since: it has opened.
func (h *roundHistory) stateOf(round wire.Stamp) roundState {
	switch {
	case round == h.newest.stamp:
		return h.newest.state
	case round > h.newest.stamp || round < h.since:
		return unknown
	}
	for past := h.past; len(past) >= recordSize; past = past[recordSize:] {
		switch e, ok := parseRecord(past[:recordSize]); {
		case !ok || e.stamp > round:
		case e.stamp < round:
			return unknown
		case e.state == wasReset:
			return wasReset
		default:
			return passed
		}
	}
	if len(h.past) < pastSize {
		return unknown // the server has forgotten no round
	}
	return passed
}

// waitError returns what Wait returns for a round in this state: nil if it has opened.
func (s roundState) waitError() error {
	switch s {
	case wasReset:
		return errs.ErrReset
	case unknown:
		return errs.ErrRoundLost
	case counting, opened, passed:
	}
	return nil
}
