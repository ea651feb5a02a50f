// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
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

type closing struct {
	session *Session
	begun   atomic.Bool   // set under the session's mu; no work is begun after it
	evicted atomic.Bool   // set before Close evicts; a hold that begins after that evicts itself
	done    chan struct{} // closed when Close is done
}

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
	c := &s.closing
	drained, first := c.begin()
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
		return c.await(ctx)
	}
	defer close(c.done)

	// A caller that is counted in and reaches a queue or the dispatcher after this finds closing
	// set.
	for _, p := range s.registries.all() {
		p.Refuse(errs.ErrClosed)
	}
	s.Dispatch.Refuse()
	s.Handshakes.cancel()
	s.Runner.Refuse()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		select {
		case <-drained: // in the same instant: nothing is left
		default:
			err = fmt.Errorf("signalbox: close: holders were left: %w", whyEnded(ctx))
			c.evict()
		}
	}
	c.awaitReleases(ctx, drained)
	return err
}

// begin refuses calls from here on. It returns a channel that is closed once all calls that
// were admitted before have ended, and reports whether this is the first Close.
func (c *closing) begin() (drained chan struct{}, first bool) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.begun.Swap(true) {
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

// await waits until the first Close is done.
func (c *closing) await(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	select {
	case <-c.done:
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
func (c *closing) evict() {
	c.evicted.Store(true)
	s := c.session
	for _, h := range s.registries.localHolds("", false) {
		h.Evict(s.EvictionError())
	}
	s.Logs.leftMore()
}

// awaitReleases waits for the releases, and for the calls that are under way, until ctx ends, or for
// ownTime if it has ended. A server that is away does not delay it: what is left then ends by
// itself, a lease on the server and a call here.
func (c *closing) awaitReleases(ctx context.Context, drained <-chan struct{}) {
	s := c.session
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
		for _, p := range s.registries.all() {
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
			functions.Go(func() { c.callOnClose(f) })
		}
		functions.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	s.Settings.Observer.Await(ctx) // after the releases: a slow hook delays none of them
	s.Logs.writer.await(ctx)
}

// callOnClose calls a function of the service.
func (c *closing) callOnClose(f func()) {
	defer func() {
		if p := recover(); p != nil {
			c.session.Logs.Warn("signalbox: a function of WithOnClose panicked", "panic", p)
		}
	}()
	f()
}
