// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/observe"
)

const (
	// ownTime is how long Close waits for the releases after its context has ended.
	ownTime = time.Second
	// maxLogged bounds the lines that one Close logs about holds that it ended.
	maxLogged = 20
)

// errGrace is the reason why Close ended leases if the close grace ended before its context. It is not
// context.DeadlineExceeded, because the caller's context did not end.
var errGrace = errors.New("the close grace is over")

// Close ends the session: it refuses new work, wakes waiters, and waits for holders until ctx ends,
// or the close grace if that is shorter. Then it ends their leases and releases them. Each
// of its waits is bounded by that, and by ownTime after it. Another call waits until the first is
// done.
func (s *Session) Close(ctx context.Context) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("signalbox: close: %w: the context is nil", errs.ErrBadOption)
	case s == nil || s.Timers == nil:
		return nil
	}
	drained, first := s.beginClose()
	grace := s.Settings.CloseGrace
	if _, dated := ctx.Deadline(); !dated {
		grace = cmp.Or(grace, DefaultCloseGrace)
	}
	if grace > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, grace, errGrace)
		defer cancel()
	}
	if !first {
		return s.awaitClosed(ctx)
	}
	defer close(s.closed)

	// A caller that is counted in and reaches a queue or the dispatcher after this finds closing
	// set.
	for _, p := range s.allRegistries() {
		p.Refuse(errs.ErrClosed)
	}
	s.Dispatch.Refuse()
	s.handshakes.cancel()
	s.Runner.Refuse()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		select {
		case <-drained: // in the same instant: nothing is left
		default:
			err = fmt.Errorf("signalbox: close: holders were left: %w", whyEnded(ctx))
			s.evict()
		}
	}
	s.awaitReleases(ctx, drained)
	return err
}

// beginClose refuses calls from here on. It returns a channel that is closed once all calls that
// were admitted before have ended, and reports whether this is the first Close.
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
		return fmt.Errorf("signalbox: close: another call of Close is still running: %w", whyEnded(ctx))
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
	for _, h := range s.localHolds("", false) {
		h.Evict(s.EvictionError())
	}
	if more := s.leftHolds.Load() - maxLogged; more > 0 {
		s.log((*slog.Logger).Warn, "signalbox: Close ended further leases", "leases", more)
	}
}

// LogLeft logs a hold that Close ended.
func (s *Session) LogLeft(labels observe.Labels, held time.Duration) {
	if s.leftHolds.Add(1) <= maxLogged {
		s.log((*slog.Logger).Warn, "signalbox: Close ended a lease that was not unlocked yet", append(attributesFor(labels), "held", held)...)
	}
}

// awaitReleases waits for the releases, and for the calls that are under way, until ctx ends, or for
// ownTime if it has ended. A server that is away does not delay it: what is left then ends by
// itself, a lease on the server and a call here.
func (s *Session) awaitReleases(ctx context.Context, drained <-chan struct{}) {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), ownTime)
		defer cancel()
	}
	// First the calls that were under way: what they acquired is released too, or withdrawn.
	select {
	case <-drained:
	case <-ctx.Done():
	}
	s.Undoer.Close(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Undoer.Stop() // first: until then it tries again, and each try on a dead wire makes a connection
		s.Keeper.Close()
		for _, p := range s.allRegistries() {
			p.Close()
		}
		s.sleepRecovery.silent.Close()
		s.Dispatch.Close() // needs a second on a dead connection
		s.Runner.Close()   // lasts as long as the client connects
		s.Timers.Close()
		s.Logs.flush()
		if s.owned {
			s.client.Close()
		}
		var functions sync.WaitGroup // of guests, of which none waits for another
		for _, f := range s.Settings.OnClose {
			functions.Go(func() { s.callOnClose(f) })
		}
		functions.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	s.Settings.Observer.Await(ctx) // after the releases: a slow hook delays none of them
	s.logWriter.await(ctx)
}

// callOnClose calls a function of the service.
func (s *Session) callOnClose(f func()) {
	defer func() {
		if p := recover(); p != nil {
			s.log((*slog.Logger).Warn, "signalbox: a function of WithOnClose panicked", "panic", p)
		}
	}()
	f()
}
