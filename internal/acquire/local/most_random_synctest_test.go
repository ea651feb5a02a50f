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

// desk is a server with a few holds, and a queue. Other sessions use it as well.
type desk struct {
	*testing.T

	table   *Table
	queue   *Queue
	request ShareKey
	random  *rand.Rand
	using   atomic.Int64 // goroutines of the session that have a hold
	served  atomic.Int64
	leaving sync.WaitGroup

	mu struct {
		sync.Mutex
		free int
		line []*seat
	}
}

// takes lasts as long as a call, or a use, does: in virtual time.
func (d *desk) takes(most time.Duration) { time.Sleep(d.below(most)) }

func (d *desk) below(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.random.Int64N(int64(most)))
}

func (d *desk) oneIn(n int64) bool { return d.below(time.Duration(n)) == 0 }

// Ready implements Source.
func (d *desk) Admit(int) error { return nil }

// Share implements Sharer.
func (d *desk) MayShare(context.Context, hold.Lease) bool {
	d.takes(time.Millisecond)
	return !d.oneIn(3)
}

// Ticket implements Source.
func (d *desk) NewTicket() (Ticket, error) {
	if d.oneIn(50) {
		return nil, errFalls
	}
	return d.seat(), nil
}

func (d *desk) seat() *seat { return &seat{desk: d, granted: make(chan struct{})} }

// seat is a ticket in the queue of a desk.
type seat struct {
	desk    *desk
	entered bool
	granted chan struct{} // closed when it is
}

func (p *seat) isGranted() bool {
	select {
	case <-p.granted:
		return true
	default:
		return false
	}
}

func (p *seat) enterLocked() {
	d := p.desk
	switch {
	case p.entered:
	case d.mu.free > 0:
		d.mu.free--
		close(p.granted)
	default:
		d.mu.line = append(d.mu.line, p)
	}
	p.entered = true
}

// release grants one hold to the first in the queue.
func (d *desk) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releaseLocked()
}

func (d *desk) releaseLocked() {
	if len(d.mu.line) == 0 {
		d.mu.free++
		return
	}
	close(d.mu.line[0].granted)
	d.mu.line = d.mu.line[1:]
}

func (p *seat) Join(ctx context.Context) (bool, error) {
	p.desk.takes(time.Millisecond)
	if ctx.Err() != nil {
		return false, errs.Ended(ctx)
	}
	p.desk.mu.Lock()
	defer p.desk.mu.Unlock()
	p.enterLocked()
	return p.isGranted(), nil
}

func (p *seat) Wait(ctx context.Context) error {
	select {
	case <-p.granted:
		return nil
	case <-ctx.Done():
		return errs.Ended(ctx)
	}
}

// end ends the seat, and reports whether it was granted a hold.
func (p *seat) end() bool {
	d := p.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.line = slices.DeleteFunc(d.mu.line, func(other *seat) bool { return other == p })
	p.entered = true
	return p.isGranted()
}

func (p *seat) Leave() {
	p.desk.leaving.Go(func() {
		p.desk.takes(time.Millisecond)
		if p.end() {
			p.desk.release()
		}
	})
}

func (p *seat) Ended(ctx context.Context) error { return errs.Ended(ctx) }

func (p *seat) BeginHold(_ context.Context, err error) (hold.Lease, error) {
	if !p.end() {
		return hold.Lease{}, err
	}
	p.desk.queue.HoldBegan(p.desk.request)
	h := &turn{desk: p.desk}
	lease := h.BeginComposite(h, nil, nil, 1)
	h.Refill(2, 1<<40)
	p.desk.queue.ShareHold(p.desk.request, lease)
	return lease, nil
}

// turn is a hold that is handed over a few times, and requeued then, or released.
type turn struct {
	hold.Hold

	desk *desk
}

func (h *turn) OnLost(renewal.End) {}

func (h *turn) NextLease(now clock.Instant) (hold.Lease, bool) {
	if h.desk.oneIn(4) {
		return hold.Lease{}, false
	}
	return h.HandOver(now)
}

func (h *turn) OnRelease(now clock.Instant) error {
	d := h.desk
	switch verdict := d.queue.HandOver(now, d.request, h); {
	case verdict == HandedOver:
		return nil
	case verdict == Refused && !d.oneIn(4):
		h.requeue()
	default: // it may also have been lost, which is the same here
		d.takes(time.Millisecond)
		d.release()
	}
	d.queue.HoldEnded(d.request)
	return nil
}

func (h *turn) requeue() {
	d, p := h.desk, h.desk.seat()
	d.takes(time.Millisecond)
	d.mu.Lock()
	d.releaseLocked()
	p.enterLocked()
	d.mu.Unlock()
	d.takes(time.Millisecond)
	if !d.queue.AssignTicket(d.request, p) {
		p.Leave()
	}
	d.takes(time.Millisecond)
}

// P1, P4, P6: a session has no more holds than it can have, every waiter is served or gives up, and all that is counted is
// zero in the end.
func TestMost_RandomWalk_IsKept(t *testing.T) {
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
	d := &desk{
		T: t, table: table, queue: table.Use("a"), request: r,
		random: rand.New(rand.NewPCG(seed, uint64(r.MaxHolds))), //nolint:gosec // a walk that can be repeated
	}
	free := 1 + int(seed%3)
	d.mu.free = free
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for range 40 {
				d.visits()
			}
		})
	}
	all.Go(d.others)
	all.Wait() // a waiter that is forgotten blocks the bubble, and fails the test
	d.leaving.Wait()
	require.Positive(t, d.served.Load())
	require.Equal(t, free, d.mu.free, "all were released")
	require.Empty(t, d.mu.line)
	for c := &d.queue.mu.class; c != nil; c = c.more {
		require.Zero(t, c.held)
		require.Zero(t, c.asking)
		require.Zero(t, c.seeking)
		require.True(t, c.isUnused())
	}
	table.Done(d.queue)
	require.Zero(t, table.Len())
}

// others are the other sessions.
func (d *desk) others() {
	for range 100 {
		p := d.seat()
		if _, err := p.Join(context.Background()); err == nil {
			_ = p.Wait(context.Background())
		}
		d.takes(time.Millisecond)
		p.end()
		d.release()
		d.takes(5 * time.Millisecond)
	}
}

// visits uses a hold, if the goroutine does not give up before.
func (d *desk) visits() {
	d.takes(10 * time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	if d.oneIn(4) {
		ctx, cancel = context.WithTimeout(context.Background(), d.below(4*time.Millisecond))
	}
	defer cancel()
	take := func() (hold.Lease, error) { return d.table.Acquire(ctx, d.queue, d.request, d) }
	if d.oneIn(8) {
		take = func() (hold.Lease, error) { return d.tries(ctx) }
	}
	lease, err := take()
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errFalls) && !errors.Is(err, errs.ErrHeld) {
			d.Errorf("it gave up: %v", err)
		}
		return
	}
	if n := d.using.Add(1); d.request.MaxHolds > 0 && n > int64(d.request.MaxHolds) {
		d.Errorf("the session has %d holds", n)
	}
	d.served.Add(1)
	d.takes(time.Millisecond)
	d.using.Add(-1)
	_ = lease.Unlock()
}

// tries takes a hold if one is free.
func (d *desk) tries(ctx context.Context) (hold.Lease, error) {
	if !d.queue.BeginTry(d.request) {
		return hold.Lease{}, errs.ErrHeld
	}
	defer d.queue.EndTry(d.request)
	p := d.seat()
	if granted, err := p.Join(ctx); !granted {
		p.end()
		return hold.Lease{}, errors.Join(errs.ErrHeld, err)
	}
	return p.BeginHold(ctx, nil)
}
