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
func (m *stressServer) Admit(int) error { return nil }

// NewTicket implements TicketSource.
func (m *stressServer) NewTicket() (Ticket, error) {
	return &stressTicket{server: m, granted: make(chan struct{})}, nil
}

// stressTicket is a ticket in that queue.
type stressTicket struct {
	server  *stressServer
	joined  bool
	granted chan struct{} // closed when the ticket is granted
}

func (p *stressTicket) isGranted() bool {
	select {
	case <-p.granted:
		return true
	default:
		return false
	}
}

func (p *stressTicket) Join(ctx context.Context) (bool, error) {
	runtime.Gosched()
	if ctx.Err() != nil {
		return false, errs.Ended(ctx)
	}
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	if !p.joined {
		p.joined = true
		if p.server.mu.free > 0 {
			p.server.mu.free--
			close(p.granted)
		} else {
			p.server.mu.waiting = append(p.server.mu.waiting, p)
		}
	}
	return p.isGranted(), nil
}

func (p *stressTicket) Wait(ctx context.Context) error {
	select {
	case <-p.granted:
		return nil
	case <-ctx.Done():
		return errs.Ended(ctx)
	}
}

// Leave ends the ticket as a server's queue does: off the caller's path.
func (p *stressTicket) Leave() {
	p.server.leaving.Go(func() {
		if lease, err := p.BeginHold(context.Background(), context.Canceled); err == nil {
			_ = lease.Unlock()
		}
	})
}

func (p *stressTicket) Ended(ctx context.Context) error { return errs.Ended(ctx) }

func (p *stressTicket) BeginHold(_ context.Context, err error) (hold.Lease, error) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	if p.isGranted() {
		h := &stressHold{server: p.server}
		lease := h.BeginComposite(h, nil, nil, 1)
		h.Refill(2, 1<<40)
		return lease, nil
	}
	p.server.mu.waiting = slices.DeleteFunc(p.server.mu.waiting, func(other *stressTicket) bool { return other == p })
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
	m := h.server
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.waiting) == 0 {
		m.mu.free++
		return nil
	}
	close(m.mu.waiting[0].granted)
	m.mu.waiting = m.mu.waiting[1:]
	return nil
}

// P1, P4, P6: goroutines come, wait, give up and are served. Never are more permits used than there are, no
// waiter is forgotten, and in the end all permits are free.
func TestNoPermitIsLostAndNoWaiterForgotten(t *testing.T) {
	t.Parallel()
	const permits, callers, rounds = 3, 24, 400
	table := newTable(t)
	m := &stressServer{table: table, queue: table.Use("a"), maxHolds: permits}
	m.mu.free = permits
	var all sync.WaitGroup
	var served, gone atomic.Int64
	for range callers {
		all.Go(func() {
			for range rounds {
				if err := m.useOnce(t); err == nil {
					served.Add(1)
				} else {
					gone.Add(1)
				}
			}
		})
	}
	all.Wait()
	m.leaving.Wait()
	require.Positive(t, served.Load())
	require.Positive(t, gone.Load())
	require.Equal(t, permits, m.mu.free, "all came back")
	require.Empty(t, m.mu.waiting)
	require.True(t, m.queue.mu.first.isUnused())
	require.Zero(t, m.queue.mu.first.fetchers)
	table.Done(m.queue)
	require.Zero(t, table.Len())
}

// useOnce uses a permit for a moment, and may give up.
func (m *stressServer) useOnce(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if rand.N(4) == 0 {
		impatient := time.AfterFunc(rand.N(200*time.Microsecond), cancel) //nolint:forbidigo // a goroutine gives up
		defer impatient.Stop()
	}
	lease, err := m.table.Acquire(ctx, m.queue, permitKey, m)
	if err != nil {
		if !errors.Is(err, context.Canceled) || ctx.Err() == nil {
			t.Errorf("%v, while its context says %v", err, ctx.Err())
		}
		return err
	}
	if n := m.used.Add(1); n > m.maxHolds {
		t.Errorf("%d of %d are used", n, m.maxHolds)
	}
	for range rand.N(3) {
		runtime.Gosched()
	}
	m.used.Add(-1)
	return lease.Unlock()
}
