// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/renewal"
)

// walkServer is a server with a few holds, and a queue. Other sessions use it as well.
type walkServer struct {
	*testing.T

	table   *Table
	queue   *Queue
	key     ShareKey
	random  *rand.Rand
	most    int64        // the greatest number of goroutines of the session that may have a hold
	using   atomic.Int64 // counts the goroutines of the session that have a hold
	served  atomic.Int64
	reused  atomic.Int64 // counts the uses of idle holds
	leaving sync.WaitGroup
	keepFor time.Duration // how long a hold is kept while no goroutine uses it; 0 is not at all
	hasty   bool          // nothing takes time, and the walk is no part of a bubble

	mu struct {
		sync.Mutex
		newest  *walkHold
		free    int
		waiting []*walkTicket
	}
}

// sleepUpTo lasts as long as a call, or a use, does: in virtual time. In real time it lets another goroutine run.
func (s *walkServer) sleepUpTo(limit time.Duration) {
	if s.hasty {
		runtime.Gosched()
		return
	}
	time.Sleep(s.below(limit))
}

func (s *walkServer) below(limit time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.random.Int64N(int64(limit)))
}

func (s *walkServer) oneIn(n int64) bool { return s.below(time.Duration(n)) == 0 }

// Admit implements TicketSource.
func (s *walkServer) Admit(int) error { return nil }

// MayShare implements TicketSource.
func (s *walkServer) MayShare(context.Context, hold.Lease) bool {
	s.sleepUpTo(time.Millisecond)
	return !s.oneIn(3)
}

// NewTicket implements TicketSource.
func (s *walkServer) NewTicket(any) (Ticket, error) {
	if s.oneIn(50) {
		return nil, errFalls
	}
	return s.newTicket(), nil
}

func (s *walkServer) newTicket() *walkTicket {
	return &walkTicket{server: s, granted: make(chan struct{})}
}

// walkTicket is a ticket in the queue of a walkServer.
type walkTicket struct {
	server  *walkServer
	joined  bool
	granted chan struct{} // closed when the ticket is granted
}

func (t *walkTicket) isGranted() bool {
	select {
	case <-t.granted:
		return true
	default:
		return false
	}
}

func (t *walkTicket) joinLocked() {
	s := t.server
	switch {
	case t.joined:
	case s.mu.free > 0:
		s.mu.free--
		close(t.granted)
	default:
		s.mu.waiting = append(s.mu.waiting, t)
	}
	t.joined = true
}

// release grants one hold to the first in the queue.
func (s *walkServer) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked()
}

func (s *walkServer) releaseLocked() {
	if len(s.mu.waiting) == 0 {
		s.mu.free++
		return
	}
	close(s.mu.waiting[0].granted)
	s.mu.waiting = s.mu.waiting[1:]
}

func (t *walkTicket) Join(ctx context.Context) (bool, error) {
	t.server.sleepUpTo(time.Millisecond)
	if ctx.Err() != nil {
		return false, errs.Ended(ctx)
	}
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.joinLocked()
	return t.isGranted(), nil
}

func (t *walkTicket) Wait(ctx context.Context) error {
	select {
	case <-t.granted:
		return nil
	case <-ctx.Done():
		return errs.Ended(ctx)
	}
}

// end ends the ticket, and reports whether it was granted a hold.
func (t *walkTicket) end() bool {
	s := t.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.waiting = slices.DeleteFunc(s.mu.waiting, func(other *walkTicket) bool { return other == t })
	t.joined = true
	return t.isGranted()
}

func (t *walkTicket) Leave() {
	t.server.leaving.Go(func() {
		t.server.sleepUpTo(time.Millisecond)
		if t.end() {
			t.server.release()
		}
	})
}

func (t *walkTicket) Ended(ctx context.Context) error { return errs.Ended(ctx) }

func (t *walkTicket) BeginHold(_ context.Context, err error) (hold.Lease, error) {
	if !t.end() {
		return hold.Lease{}, err
	}
	t.server.queue.HoldBegan(t.server.key)
	h := &walkHold{server: t.server}
	t.server.mu.Lock()
	t.server.mu.newest = h
	t.server.mu.Unlock()
	lease := h.BeginComposite(h, nil, nil, 1)
	h.Refill(2, 1<<40)
	t.server.queue.ShareHold(t.server.key, lease)
	return lease, nil
}

// walkHold is a hold that is handed over a few times, and requeued then, or released.
type walkHold struct {
	hold.Hold

	server *walkServer
}

func (h *walkHold) OnLost(renewal.End) {}

func (*walkHold) Key() string { return "" }
func (*walkHold) ID() string  { return "" }

func (h *walkHold) NextLease(now clock.Instant) (hold.Lease, bool) {
	if h.server.oneIn(4) {
		return hold.Lease{}, false
	}
	return h.HandOver(now)
}

func (h *walkHold) OnRelease(now clock.Instant) error {
	s := h.server
	switch verdict := h.handOver(now); {
	case verdict == HandedOver || verdict == Kept:
		return nil
	case verdict == Refused && !s.oneIn(4):
		h.requeue()
	default: // it may also have been lost, which is the same here
		s.sleepUpTo(time.Millisecond)
		s.release()
	}
	s.queue.Forget(h)
	s.queue.HoldEnded(s.key)
	return nil
}

func (h *walkHold) handOver(now clock.Instant) HandOverResult {
	if h.server.keepFor > 0 {
		return h.server.queue.HandOverOrKeep(now, h.server.key, h, h.server.keepFor)
	}
	return h.server.queue.HandOver(now, h.server.key, h)
}

func (h *walkHold) MayKeep() bool { return !h.server.oneIn(4) }

func (h *walkHold) Use() { h.server.reused.Add(1) }

func (h *walkHold) Confirm(context.Context) bool {
	h.server.sleepUpTo(time.Millisecond)
	return h.server.oneIn(2)
}

// End also stands for the loss of an idle hold.
func (h *walkHold) End() {
	h.server.sleepUpTo(time.Millisecond)
	h.server.release()
	h.server.queue.Forget(h)
	h.server.queue.HoldEnded(h.server.key)
}

// recalls ends idle holds, as other sessions do by recalls, and as Close and losses do.
func (s *walkServer) recalls() {
	for range 100 {
		s.sleepUpTo(5 * time.Millisecond)
		s.mu.Lock()
		newest := s.mu.newest
		s.mu.Unlock()
		switch {
		case s.oneIn(4):
			for _, idle := range s.table.TakeIdle() {
				idle.End()
			}
		case newest != nil && s.queue.Recall(newest):
			newest.End()
		}
	}
}

func (h *walkHold) requeue() {
	s, t := h.server, h.server.newTicket()
	s.sleepUpTo(time.Millisecond)
	s.mu.Lock()
	s.releaseLocked()
	t.joinLocked()
	s.mu.Unlock()
	s.sleepUpTo(time.Millisecond)
	if !s.queue.AssignTicket(s.key, t) {
		t.Leave()
	}
	s.sleepUpTo(time.Millisecond)
}

// P1, P4, P6: a session has no more holds than it can have, every waiter is served or gives up, and all that is counted is
// zero in the end.
func TestMaxHolds_RandomWalk_IsKept(t *testing.T) {
	t.Parallel()
	for _, r := range []ShareKey{{}, {MaxHolds: 1}, {MaxHolds: 2}, {Policy: Own}, {Policy: Own, MaxHolds: 1}, {Policy: Shared}} {
		for seed := range uint64(40) {
			t.Run(fmt.Sprintf("%d/%d/%d", r.Policy, r.MaxHolds, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { walk(t, &walkServer{key: r}, seed, 40) })
			})
		}
	}
}

// P1, P6: the same, while the session keeps holds that no goroutine uses. Some end by themselves, and some by a recall.
func TestIdleHolds_RandomWalk_AreUsedOrEnded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { walk(t, &walkServer{key: exclusiveKey, keepFor: 4 * time.Millisecond}, 3*seed, 40) })
		})
	}
}

// P1, P4, P6: the same without a bubble, as quickly as can be.
func TestNoPermitIsLostAndNoWaiterForgotten(t *testing.T) {
	t.Parallel()
	for _, r := range []ShareKey{permitKey, exclusiveKey} {
		walk(t, &walkServer{key: r, hasty: true}, 2, 400)
	}
}

// walk lets goroutines of a session use what few can have, so many times each.
func walk(t *testing.T, s *walkServer, seed uint64, rounds int) {
	t.Helper()
	table := newTable(t)
	s.T, s.table, s.queue = t, table, table.Use("a")
	s.random = rand.New(rand.NewPCG(seed, uint64(s.key.MaxHolds))) //nolint:gosec // a walk that can be repeated
	free := 1 + int(seed%3)
	s.mu.free, s.most = free, int64(free)
	if s.key.Policy == Shared {
		s.most = math.MaxInt64
	}
	if s.key.MaxHolds > 0 {
		s.most = min(s.most, int64(s.key.MaxHolds))
	}
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for range rounds {
				s.useOnce()
			}
		})
	}
	all.Go(s.others)
	if s.keepFor > 0 {
		all.Go(s.recalls)
	}
	all.Wait() // a waiter that is forgotten blocks the bubble, and fails the test
	s.leaving.Wait()
	if !s.hasty {
		time.Sleep(s.keepFor + 2*time.Millisecond) // what is idle then ends
		synctest.Wait()
	}
	require.Zero(t, table.Idle())
	require.Positive(t, s.served.Load())
	require.Equal(t, s.keepFor > 0, s.reused.Load() > 0)
	require.Equal(t, free, s.mu.free, "all were released")
	require.Empty(t, s.mu.waiting)
	for c := range s.queue.listsLocked() {
		require.Zero(t, c.holds)
		require.Zero(t, c.directRequests)
		require.Zero(t, c.waiterRequests)
		require.True(t, c.isUnused())
	}
	s.queue.Done("a")
	require.Zero(t, table.Len())
}

// others are the other sessions.
func (s *walkServer) others() {
	for range 100 {
		t := s.newTicket()
		if _, err := t.Join(context.Background()); err == nil {
			_ = t.Wait(context.Background())
		}
		s.sleepUpTo(time.Millisecond)
		t.end()
		s.release()
		s.sleepUpTo(5 * time.Millisecond)
	}
}

// useOnce uses a hold, if the goroutine does not give up before.
func (s *walkServer) useOnce() {
	s.sleepUpTo(10 * time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	if s.oneIn(4) {
		limit := 4 * time.Millisecond
		if s.hasty {
			limit = 200 * time.Microsecond
		}
		ctx, cancel = context.WithTimeout(context.Background(), s.below(limit))
	}
	defer cancel()
	get := func() (hold.Lease, error) { return acquire(ctx, s.queue, s.key, s) }
	if s.oneIn(8) {
		get = func() (hold.Lease, error) { return s.tries(ctx) }
	}
	lease, err := get()
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errFalls) && !errors.Is(err, errs.ErrHeld) {
			s.Errorf("it gave up: %v", err)
		}
		return
	}
	if n := s.using.Add(1); n > s.most {
		s.Errorf("the session has %d holds of %d", n, s.most)
	}
	s.served.Add(1)
	s.sleepUpTo(time.Millisecond)
	s.using.Add(-1)
	_ = lease.Unlock()
}

// tries acquires a hold if one is free.
func (s *walkServer) tries(ctx context.Context) (hold.Lease, error) {
	lease, began := s.queue.UseOrTry(ctx, s.key)
	switch {
	case lease != hold.Lease{}:
		return lease, nil
	case !began:
		return hold.Lease{}, errs.ErrHeld
	}
	defer s.queue.EndTry(s.key)
	t := s.newTicket()
	if granted, err := t.Join(ctx); !granted {
		t.end()
		return hold.Lease{}, errors.Join(errs.ErrHeld, err)
	}
	return t.BeginHold(ctx, nil)
}
