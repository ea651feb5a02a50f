// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
)

const (
	// ownTime is what Close takes for the releases when its context leaves it nothing.
	ownTime = time.Second
	// maxLogged bounds the lines that one Close logs about holds that it ended.
	maxLogged = 20
)

// errGrace is why Close ended leases under a context without a deadline. It is not
// context.DeadlineExceeded: the caller set no deadline.
var errGrace = errors.New("the context has no deadline, and the close grace is over")

// Close ends the session: it refuses new work and wakes waiters, waits for holders until ctx ends, or
// for the close grace if ctx has no deadline, then ends their leases and releases them. Every wait in
// here is bounded by that, and by ownTime after it. Another call waits until the first is done.
func (s *Session) Close(ctx context.Context) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("signalbox: close: %w: the context is nil", errs.ErrBadOption)
	case s == nil || s.Timers == nil:
		return nil
	}
	drained, first := s.beginClose()
	if _, dated := ctx.Deadline(); !dated {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Settings.CloseGrace, errGrace)
		defer cancel()
	}
	if !first {
		return s.awaitClosed(ctx)
	}
	defer close(s.closed)

	// Who is counted in and comes to a gate or to the dispatcher after this finds closing set.
	for _, p := range s.allParts() {
		p.Refuse(errs.ErrClosed)
	}
	s.Dispatch.Refuse()
	s.meeting.cancel()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		err = fmt.Errorf("signalbox: close: holders were left: %w", whyEnded(ctx))
		s.evict()
	}
	s.giveBack(ctx, drained)
	return err
}

// beginClose lets nobody in from here on. It returns a channel that is closed once all who were in are
// out, and reports whether this is the first call.
func (s *Session) beginClose() (drained chan struct{}, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Swap(true) {
		return nil, false
	}
	drained = make(chan struct{})
	if s.mu.busy == 0 {
		close(drained)
	} else {
		s.mu.drained = drained
	}
	return drained, true
}

// awaitClosed waits until the first Close is done.
func (s *Session) awaitClosed(ctx context.Context) error {
	select {
	case <-s.closed:
		return nil
	default:
	}
	select {
	case <-s.closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("signalbox: close: another call of Close is not done yet: %w", whyEnded(ctx))
	}
}

// whyEnded returns what ended the wait of a Close: the grace, or the caller's context.
func whyEnded(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errGrace) {
		return cause
	}
	return errs.Ended(ctx)
}

// evict ends all holds.
func (s *Session) evict() {
	s.evicted.Store(true)
	for _, p := range s.allParts() {
		p.Evict(s.Evicted())
	}
	if more := s.left.Load() - maxLogged; more > 0 {
		s.complaints().Warn("signalbox: Close ended further leases", "leases", more)
	}
}

// LogLeft logs a hold that Close ended.
func (s *Session) LogLeft(kind, name string, held time.Duration) {
	if s.left.Add(1) <= maxLogged {
		s.complaints().Warn("signalbox: Close ended a lease that was never unlocked", "kind", kind, "name", name, "held", held)
	}
}

// complaints returns where holds are logged that were left: a program that forgets a lease has a bug,
// and should hear of it also if it set no logger.
func (s *Session) complaints() *slog.Logger { return cmp.Or(s.Settings.Logger, slog.Default()) }

// giveBack waits for the releases, and for the calls that are under way, until ctx ends, or for ownTime
// if it has ended. A server that is away does not hold it up: what is left then ends by itself, at the
// server with its lease and here with its call.
func (s *Session) giveBack(ctx context.Context, drained <-chan struct{}) {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), ownTime)
		defer cancel()
	}
	// First the calls that were under way: what they got is given back too, or taken back.
	select {
	case <-drained:
	case <-ctx.Done():
	}
	s.Settler.Close(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Settler.Stop() // first: until then it tries again, and each try on a dead wire makes a connection
		s.Keeper.Close()
		for _, p := range s.allParts() {
			p.Close()
		}
		s.Dispatch.Close() // takes a second on a wire that is dead
		s.Timers.Close()
		if s.owned {
			s.client.Close()
		}
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}
