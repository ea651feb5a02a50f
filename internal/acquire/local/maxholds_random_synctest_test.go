// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	using   atomic.Int64 // counts the goroutines of the session that have a hold
	served  atomic.Int64
	leaving sync.WaitGroup

	mu struct {
		sync.Mutex
		free    int
		waiting []*walkTicket
	}
}

// sleepUpTo lasts as long as a call, or a use, does: in virtual time.
func (d *walkServer) sleepUpTo(limit time.Duration) { time.Sleep(d.below(limit)) }

func (d *walkServer) below(limit time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.random.Int64N(int64(limit)))
}

func (d *walkServer) oneIn(n int64) bool { return d.below(time.Duration(n)) == 0 }

// Admit implements TicketSource.
func (d *walkServer) Admit(int) error { return nil }

// MayShare implements SharedSource.
func (d *walkServer) MayShare(context.Context, hold.Lease) bool {
	d.sleepUpTo(time.Millisecond)
	return !d.oneIn(3)
}

// NewTicket implements TicketSource.
func (d *walkServer) NewTicket() (Ticket, error) {
	if d.oneIn(50) {
		return nil, errFalls
	}
	return d.newTicket(), nil
}

func (d *walkServer) newTicket() *walkTicket {
	return &walkTicket{server: d, granted: make(chan struct{})}
}

// walkTicket is a ticket in the queue of a walkServer.
type walkTicket struct {
	server  *walkServer
	joined  bool
	granted chan struct{} // closed when the ticket is granted
}

func (p *walkTicket) isGranted() bool {
	select {
	case <-p.granted:
		return true
	default:
		return false
	}
}

func (p *walkTicket) joinLocked() {
	d := p.server
	switch {
	case p.joined:
	case d.mu.free > 0:
		d.mu.free--
		close(p.granted)
	default:
		d.mu.waiting = append(d.mu.waiting, p)
	}
	p.joined = true
}

// release grants one hold to the first in the queue.
func (d *walkServer) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releaseLocked()
}

func (d *walkServer) releaseLocked() {
	if len(d.mu.waiting) == 0 {
		d.mu.free++
		return
	}
	close(d.mu.waiting[0].granted)
	d.mu.waiting = d.mu.waiting[1:]
}

func (p *walkTicket) Join(ctx context.Context) (bool, error) {
	p.server.sleepUpTo(time.Millisecond)
	if ctx.Err() != nil {
		return false, errs.Ended(ctx)
	}
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.joinLocked()
	return p.isGranted(), nil
}

func (p *walkTicket) Wait(ctx context.Context) error {
	select {
	case <-p.granted:
		return nil
	case <-ctx.Done():
		return errs.Ended(ctx)
	}
}

// end ends the ticket, and reports whether it was granted a hold.
func (p *walkTicket) end() bool {
	d := p.server
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.waiting = slices.DeleteFunc(d.mu.waiting, func(other *walkTicket) bool { return other == p })
	p.joined = true
	return p.isGranted()
}

func (p *walkTicket) Leave() {
	p.server.leaving.Go(func() {
		p.server.sleepUpTo(time.Millisecond)
		if p.end() {
			p.server.release()
		}
	})
}

func (p *walkTicket) Ended(ctx context.Context) error { return errs.Ended(ctx) }

func (p *walkTicket) BeginHold(_ context.Context, err error) (hold.Lease, error) {
	if !p.end() {
		return hold.Lease{}, err
	}
	p.server.queue.HoldBegan(p.server.key)
	h := &walkHold{server: p.server}
	lease := h.BeginComposite(h, nil, nil, 1)
	h.Refill(2, 1<<40)
	p.server.queue.ShareHold(p.server.key, lease)
	return lease, nil
}

// walkHold is a hold that is handed over a few times, and requeued then, or released.
type walkHold struct {
	hold.Hold

	server *walkServer
}

func (h *walkHold) OnLost(renewal.End) {}

func (h *walkHold) NextLease(now clock.Instant) (hold.Lease, bool) {
	if h.server.oneIn(4) {
		return hold.Lease{}, false
	}
	return h.HandOver(now)
}

func (h *walkHold) OnRelease(now clock.Instant) error {
	d := h.server
	switch verdict := d.queue.HandOver(now, d.key, h); {
	case verdict == HandedOver:
		return nil
	case verdict == Refused && !d.oneIn(4):
		h.requeue()
	default: // it may also have been lost, which is the same here
		d.sleepUpTo(time.Millisecond)
		d.release()
	}
	d.queue.HoldEnded(d.key)
	return nil
}

func (h *walkHold) requeue() {
	d, p := h.server, h.server.newTicket()
	d.sleepUpTo(time.Millisecond)
	d.mu.Lock()
	d.releaseLocked()
	p.joinLocked()
	d.mu.Unlock()
	d.sleepUpTo(time.Millisecond)
	if !d.queue.AssignTicket(d.key, p) {
		p.Leave()
	}
	d.sleepUpTo(time.Millisecond)
}

// P1, P4, P6: a session has no more holds than it can have, every waiter is served or gives up, and all that is counted is
// zero in the end.
func TestMaxHolds_RandomWalk_IsKept(t *testing.T) {
	t.Parallel()
	for _, r := range []ShareKey{{}, {MaxHolds: 1}, {MaxHolds: 2}, {Policy: Own}, {Policy: Own, MaxHolds: 1}, {Policy: Shared}} {
		for seed := range uint64(40) {
			t.Run(fmt.Sprintf("%d/%d/%d", r.Policy, r.MaxHolds, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { walk(t, r, seed) })
			})
		}
	}
}

func walk(t *testing.T, r ShareKey, seed uint64) {
	t.Helper()
	table := newTable(t)
	d := &walkServer{
		T: t, table: table, queue: table.Use("a"), key: r,
		random: rand.New(rand.NewPCG(seed, uint64(r.MaxHolds))), //nolint:gosec // a walk that can be repeated
	}
	free := 1 + int(seed%3)
	d.mu.free = free
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for range 40 {
				d.useOnce()
			}
		})
	}
	all.Go(d.others)
	all.Wait() // a waiter that is forgotten blocks the bubble, and fails the test
	d.leaving.Wait()
	require.Positive(t, d.served.Load())
	require.Equal(t, free, d.mu.free, "all were released")
	require.Empty(t, d.mu.waiting)
	for c := &d.queue.mu.first; c != nil; c = c.next {
		require.Zero(t, c.holds)
		require.Zero(t, c.requesters)
		require.Zero(t, c.fetchers)
		require.True(t, c.isUnused())
	}
	table.Done(d.queue)
	require.Zero(t, table.Len())
}

// others are the other sessions.
func (d *walkServer) others() {
	for range 100 {
		p := d.newTicket()
		if _, err := p.Join(context.Background()); err == nil {
			_ = p.Wait(context.Background())
		}
		d.sleepUpTo(time.Millisecond)
		p.end()
		d.release()
		d.sleepUpTo(5 * time.Millisecond)
	}
}

// useOnce uses a hold, if the goroutine does not give up before.
func (d *walkServer) useOnce() {
	d.sleepUpTo(10 * time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	if d.oneIn(4) {
		ctx, cancel = context.WithTimeout(context.Background(), d.below(4*time.Millisecond))
	}
	defer cancel()
	acquire := func() (hold.Lease, error) { return d.table.Acquire(ctx, d.queue, d.key, d) }
	if d.oneIn(8) {
		acquire = func() (hold.Lease, error) { return d.tries(ctx) }
	}
	lease, err := acquire()
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errFalls) && !errors.Is(err, errs.ErrHeld) {
			d.Errorf("it gave up: %v", err)
		}
		return
	}
	if n := d.using.Add(1); d.key.MaxHolds > 0 && n > int64(d.key.MaxHolds) {
		d.Errorf("the session has %d holds", n)
	}
	d.served.Add(1)
	d.sleepUpTo(time.Millisecond)
	d.using.Add(-1)
	_ = lease.Unlock()
}

// tries acquires a hold if one is free.
func (d *walkServer) tries(ctx context.Context) (hold.Lease, error) {
	if !d.queue.BeginTry(d.key) {
		return hold.Lease{}, errs.ErrHeld
	}
	defer d.queue.EndTry(d.key)
	p := d.newTicket()
	if granted, err := p.Join(ctx); !granted {
		p.end()
		return hold.Lease{}, errors.Join(errs.ErrHeld, err)
	}
	return p.BeginHold(ctx, nil)
}
