// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// nonceSize is the length of a start's nonce: 64 random bits. It distinguishes a start that is sent again
// from another one, and a message of the server's from a forged one.
const nonceSize = 11

func newNonce() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(random[:])
}

func (l *Latch) start(ctx context.Context, n int) (r Round, err error) {
	if err := l.root().Ready(ctx); err != nil {
		return Round{}, err
	}
	if n < 1 || n > MaxCount {
		return Round{}, fmt.Errorf("%w: a round of %d: it must be from 1 to %d", errs.ErrBadOption, n, MaxCount)
	}
	s := l.base.Session
	if err := s.Begin(); err != nil { // Close waits, so that a call of unknown outcome can be undone
		return Round{}, err
	}
	defer s.End()
	request := &startRequest{latch: l, nonce: newNonce(), n: n}
	var reply proto.CountdownStarted
	err = l.repeatUntilReply(ctx, func() (err error) {
		reply, err = request.send(ctx)
		return err
	})
	switch {
	case err != nil:
	case reply.Code == wire.Done:
		return Round{latch: l, stamp: reply.Stamp}, nil
	case reply.Code == wire.NotDone:
		err = errs.ErrRunning
	case reply.Code == wire.Forgotten:
		err = fmt.Errorf("%w: the round may have begun, and is over: more than 32 other rounds have begun since", errs.ErrUnconfirmed)
	default:
		err = foreign()
	}
	if request.uncertain && !l.registry.scripts.StepsOnce {
		request.undo()
	}
	return Round{}, err
}

// startRequest is a start that is under way.
type startRequest struct {
	latch     *Latch
	nonce     string
	n         int
	notAfter  wire.Stamp // the not-after of the call that was sent last
	uncertain bool       // a call that was sent has no known outcome
	first     string     // the server's time before the first call of unknown outcome; "" before such a call
}

// errLate says that the server executed a start after its not-after, and began nothing. The time of the
// server is known then.
var errLate = errors.New("the server took too long")

// send sends the start once.
func (r *startRequest) send(ctx context.Context) (started proto.CountdownStarted, err error) {
	l, s := r.latch, r.latch.base.Session
	if err := s.Handshake(ctx, l.keys.latch); err != nil {
		return started, err
	}
	r.notAfter = s.NotAfter(l.keys.slot, timers.Now(), session.MaxPatience)
	args := l.registry.scripts.StartArgs(proto.CountdownStart{
		Begun: r.nonce, Total: fmt.Sprintf("%08d", r.n), KeepMS: fmt.Sprintf("%010d", l.keep.Milliseconds()), NotAfter: r.notAfter.Text(), First: r.first,
		Publish: l.registry.publish(l.keys),
	}, nil)
	reply, err := s.Runner.Run(ctx, wire.Call{Script: l.registry.scripts.Start, Keys: []string{l.keys.latch}, Args: args})
	if err != nil {
		if !r.uncertain && wire.Judge(err) == wire.Unknown {
			r.uncertain, r.first = true, (r.notAfter - wire.Stamp(session.MaxPatience.Microseconds())).Text()
		}
		return started, l.unconfirmed(err)
	}
	if started = proto.ReadCountdownStarted(&reply); started.Now != 0 {
		s.Clock.Observe(l.keys.slot, started.Now, timers.Now())
	}
	if started.Code == wire.Late {
		err = errLate
	}
	return started, err
}

// undo resets the round that the start may have begun, in the background: at once, and, if a call may still be under
// way, once more after its not-after.
func (r *startRequest) undo() {
	f := session.Footprint{Unknown: true, NotAfter: r.notAfter}
	u := f.Undo(r.latch.resetCall(r.nonce), r.latch.keep, r.latch.keep)
	u.OnReply = func(reply wire.Reply) time.Duration {
		reset := proto.ReadUndone(&reply)
		if reset.Code != wire.NotDone {
			return 0 // reset, or the round of another start
		}
		return u.AfterCopies(reset.Now)
	}
	r.latch.base.Session.Undoer.Start(u)
}

func (l *Latch) countDown(ctx context.Context, round wire.Stamp, id string) (left int, err error) {
	if err := l.base.Await(ctx); err != nil {
		return 0, err
	}
	if id == "" || len(id) > MaxID {
		return 0, fmt.Errorf("%w: an id of %d bytes: it must have from 1 to %d", errs.ErrBadOption, len(id), MaxID)
	}
	l.base.Session.HandshakeInCluster(ctx, l.keys.latch)
	call := wire.Call{
		Script: l.registry.scripts.Count,
		Keys:   []string{l.keys.latch},
		Args:   proto.CountdownCount{Round: round.Text(), ID: id, Publish: l.registry.publish(l.keys)}.AppendTo(nil),
	}
	var counted proto.CountdownState
	uncertain := false
	err = l.repeatUntilReply(ctx, func() (err error) {
		reply, err := l.base.Session.Runner.Run(ctx, call)
		counted = proto.ReadCountdownCounted(&reply)
		uncertain = uncertain || err != nil && wire.Judge(err) == wire.Unknown
		return l.unconfirmed(err)
	})
	switch {
	case err != nil:
		return 0, err
	case counted.Code == wire.Done:
		return counted.Left, nil
	case counted.Code < wire.NotDone:
		return 0, foreign()
	}
	h, err := parseHistory(counted)
	if err != nil {
		return 0, err
	}
	state := h.stateOf(round)
	if state == passed && !uncertain { // the lost reply may have said that it is open
		return 0, errs.ErrRoundOver
	}
	return 0, state.waitError()
}

// count asks how many ids are missing until a round opens.
func (l *Latch) count(ctx context.Context, round wire.Stamp) (left int, err error) {
	h, err := l.fetchHistory(ctx)
	if err != nil {
		return 0, err
	}
	state := h.stateOf(round)
	if state == counting {
		return h.left, nil
	}
	return 0, state.waitError()
}

// reset ends the round that is running.
func (l *Latch) reset(ctx context.Context) error {
	var h roundHistory
	err := l.repeatUntilReply(ctx, func() (err error) {
		h, err = l.fetchHistory(ctx)
		return err
	})
	if err != nil || h.newest.state != counting {
		return err
	}
	if !session.IsForceTarget(ctx, proto.RoundID(h.newest.stamp.Time())) {
		return session.ErrOtherHold
	}
	l.base.Session.HandshakeInCluster(ctx, l.keys.latch)
	call := l.resetCall(h.newest.nonce)
	return l.repeatUntilReply(ctx, func() error {
		reply, err := l.base.Session.Runner.Run(ctx, call)
		if err == nil && reply.Code() < wire.NotDone {
			err = foreign()
		}
		return l.unconfirmed(err)
	})
}

func (l *Latch) resetCall(nonce string) wire.Call {
	return wire.Call{
		Script: l.registry.scripts.Reset,
		Keys:   []string{l.keys.latch},
		Args:   proto.CountdownReset{Begun: nonce, Publish: l.registry.publish(l.keys)}.AppendTo(nil),
	}
}

// fetchHistory asks once for the history of the latch.
func (l *Latch) fetchHistory(ctx context.Context) (roundHistory, error) {
	if err := l.root().Connect(ctx); err != nil {
		return roundHistory{}, err
	}
	reply, err := l.base.Session.Runner.Run(ctx, l.registry.pollCall(l.keys, ""))
	if err != nil {
		return roundHistory{}, acquire.CutShort(ctx, err)
	}
	return parsePollReply(&reply)
}

// unconfirmed returns the error of a step of unknown outcome, if the layout does not let it be sent again.
func (l *Latch) unconfirmed(err error) error {
	if err != nil && l.registry.scripts.StepsOnce && wire.Judge(err) == wire.Unknown {
		return fmt.Errorf("%w: it may be done or not: %w", errs.ErrUnconfirmed, err)
	}
	return err
}

// repeatUntilReply repeats a step until it has a reply, until waiting cannot help, or until ctx ends. The step must be
// repeatable, or its error ErrUnconfirmed.
func (l *Latch) repeatUntilReply(ctx context.Context, step func() error) error {
	if err := l.root().Await(ctx); err != nil {
		return err
	}
	return l.base.Session.RepeatUntilReply(ctx, l.registry.Refused(), step)
}
