// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// ownTime is what Close takes for giving back when its context leaves it nothing.
const ownTime = time.Second

// Close ends the session: no new work, waiters told, holders waited for until ctx ends, then
// their leases ended and given back. A second call answers nil at once.
func (s *Session) Close(ctx context.Context) error {
	if s == nil || s.Timers == nil {
		return nil
	}
	drained := make(chan struct{})
	s.mu.Lock()
	if s.closing.Swap(true) {
		s.mu.Unlock()
		return nil
	}
	if s.mu.busy == 0 {
		close(drained)
	} else {
		s.mu.drained = drained
	}
	s.mu.Unlock()

	// Who is counted in and comes to a gate or to the dispatcher after this finds closing set.
	for _, p := range s.allParts() {
		p.Refuse(errs.ErrClosed)
	}
	s.Dispatch.Refuse()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		err = fmt.Errorf("signalbox: close: holders were left: %w", errs.Ended(ctx))
		s.evicted.Store(true)
		for _, p := range s.allParts() {
			p.Evict(s.Evicted())
		}
	}
	s.giveBack(ctx, drained)
	return err
}

// giveBack waits for what is being given back, and for what is under way, as long as ctx
// lasts, or ownTime where it has ended. A server that answers nobody does not hold it up: what
// is left then ends by itself, there with its lease and here with its call.
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
