// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/renewal"
)

// stressServer is a server with some permits, and a queue of those that wait for one.
type stressServer struct {
	table    *Table
	queue    *Queue
	maxHolds int64
	used     atomic.Int64 // counts the goroutines that believe to have a permit

	leaving sync.WaitGroup

	mu struct {
		sync.Mutex
		free    int
		waiting []*stressTicket
	}
}

// Admit implements TicketSource.
func (s *stressServer) Admit(int) error { return nil }

// MayShare implements TicketSource.
func (s *stressServer) MayShare(context.Context, hold.Lease) bool { return false }

// NewTicket implements TicketSource.
func (s *stressServer) NewTicket(any) (Ticket, error) {
	return &stressTicket{server: s, granted: make(chan struct{})}, nil
}

// stressTicket is a ticket in that queue.
type stressTicket struct {
	server  *stressServer
	joined  bool
	granted chan struct{} // closed when the ticket is granted
}

func (t *stressTicket) isGranted() bool {
	select {
	case <-t.granted:
		return true
	default:
		return false
	}
}

func (t *stressTicket) Join(ctx context.Context) (bool, error) {
	runtime.Gosched()
	if ctx.Err() != nil {
		return false, errs.Ended(ctx)
	}
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	if !t.joined {
		t.joined = true
		if t.server.mu.free > 0 {
			t.server.mu.free--
			close(t.granted)
		} else {
			t.server.mu.waiting = append(t.server.mu.waiting, t)
		}
	}
	return t.isGranted(), nil
}

func (t *stressTicket) Wait(ctx context.Context) error {
	select {
	case <-t.granted:
		return nil
	case <-ctx.Done():
		return errs.Ended(ctx)
	}
}

// Leave ends the ticket as a server's queue does: off the caller's path.
func (t *stressTicket) Leave() {
	t.server.leaving.Go(func() {
		if lease, err := t.BeginHold(context.Background(), context.Canceled); err == nil {
			_ = lease.Unlock()
		}
	})
}

func (t *stressTicket) Ended(ctx context.Context) error { return errs.Ended(ctx) }

func (t *stressTicket) BeginHold(_ context.Context, err error) (hold.Lease, error) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	if t.isGranted() {
		h := &stressHold{server: t.server}
		lease := h.BeginComposite(h, nil, nil, 1)
		h.Refill(2, 1<<40)
		return lease, nil
	}
	t.server.mu.waiting = slices.DeleteFunc(t.server.mu.waiting, func(other *stressTicket) bool { return other == t })
	return hold.Lease{}, err
}

// stressHold is a hold that is mostly handed over.
type stressHold struct {
	hold.Hold

	server *stressServer
}

func (h *stressHold) OnLost(renewal.End) {}

func (h *stressHold) NextLease(now clock.Instant) (hold.Lease, bool) {
	if rand.N(8) == 0 {
		return hold.Lease{}, false
	}
	return h.HandOver(now)
}

func (h *stressHold) OnRelease(now clock.Instant) error {
	if h.server.queue.HandOver(now, permitKey, h) == HandedOver {
		return nil
	}
	s := h.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.waiting) == 0 {
		s.mu.free++
		return nil
	}
	close(s.mu.waiting[0].granted)
	s.mu.waiting = s.mu.waiting[1:]
	return nil
}

// P1, P4, P6: goroutines come, wait, give up and are served. Never are more permits used than there are, no
// waiter is forgotten, and in the end all permits are free.
func TestNoPermitIsLostAndNoWaiterForgotten(t *testing.T) {
	t.Parallel()
	const permits, callers, rounds = 3, 24, 400
	table := newTable(t)
	s := &stressServer{table: table, queue: table.Use("a"), maxHolds: permits}
	s.mu.free = permits
	var all sync.WaitGroup
	var served, gone atomic.Int64
	for range callers {
		all.Go(func() {
			for range rounds {
				if err := s.useOnce(t); err == nil {
					served.Add(1)
				} else {
					gone.Add(1)
				}
			}
		})
	}
	all.Wait()
	s.leaving.Wait()
	require.Positive(t, served.Load())
	require.Positive(t, gone.Load())
	require.Equal(t, permits, s.mu.free, "all came back")
	require.Empty(t, s.mu.waiting)
	require.True(t, s.queue.mu.first.isUnused())
	require.Zero(t, s.queue.mu.first.waiterRequests)
	s.queue.Done("a")
	require.Zero(t, table.Len())
}

// useOnce uses a permit for a moment, and may give up.
func (s *stressServer) useOnce(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if rand.N(4) == 0 {
		impatient := time.AfterFunc(rand.N(200*time.Microsecond), cancel) //nolint:forbidigo // a goroutine gives up
		defer impatient.Stop()
	}
	lease, err := acquire(ctx, s.queue, permitKey, s)
	if err != nil {
		if !errors.Is(err, context.Canceled) || ctx.Err() == nil {
			t.Errorf("%v, while its context says %v", err, ctx.Err())
		}
		return err
	}
	if n := s.used.Add(1); n > s.maxHolds {
		t.Errorf("%d of %d are used", n, s.maxHolds)
	}
	for range rand.N(3) {
		runtime.Gosched()
	}
	s.used.Add(-1)
	return lease.Unlock()
}
