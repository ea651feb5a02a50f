// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/renewal"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// permitKey is the share key of these tests, and testTime the time at which they run.
var permitKey = ShareKey{Concurrent: true, Permits: 1}

var testTime = clock.At(time.Hour, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))

// fake is a hold that is never released.
type fake struct{ hold.Hold }

func (f *fake) OnRelease(clock.Instant) error { return nil }
func (f *fake) OnLost(renewal.End)            {}

// leased returns the lease of a hold with that token.
func leased(token uint64) hold.Lease {
	f := &fake{}
	return f.BeginComposite(f, nil, nil, token)
}

// handOver is a hold that is handed over with that token; 0 is one that refuses.
type handOver uint64

func (g handOver) NextLease(clock.Instant) (hold.Lease, bool) {
	if g == 0 {
		return hold.Lease{}, false
	}
	return leased(uint64(g)), true
}

// fakeTicket is a ticket at a server that does what a test says.
type fakeTicket struct {
	joining, waiting atomic.Int32 // count callers
	joinResult       chan error   // what Join returns: errWaits says that the ticket is queued, nil that it was granted
	queued           atomic.Bool  // set when Join has returned errWaits
	granted          chan error   // what Wait returns
	token            uint64       // the token of the hold; 0 without a hold
	sharesWith       *rig         // the rig whose holds are shared; else nil
	begun            chan error   // the error that BeginHold was called with, or errServed for Leave
}

var (
	errWaits = errors.New("it waits")
	errFalls = errors.New("the sky falls")
	errMany  = errors.New("too many wait")
	errEnded = errors.New("ended, and it was held")

	// errServed is how a ticket is left whose goroutine was served otherwise.
	errServed = errors.New("it was served otherwise")
)

func (p *fakeTicket) Join(ctx context.Context) (bool, error) {
	p.joining.Add(1)
	defer p.joining.Add(-1)
	if p.queued.Load() && len(p.joinResult) == 0 {
		return false, ctx.Err()
	}
	select {
	case err := <-p.joinResult:
		if errors.Is(err, errWaits) {
			p.queued.Store(true)
			return false, nil
		}
		return err == nil, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (p *fakeTicket) Wait(ctx context.Context) error {
	if p.waiting.Add(1) > 1 {
		panic("two wait with one ticket")
	}
	defer p.waiting.Add(-1)
	select {
	case err := <-p.granted:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *fakeTicket) BeginHold(_ context.Context, err error) (hold.Lease, error) {
	p.begun <- err
	if p.token == 0 {
		return hold.Lease{}, err
	}
	lease := leased(p.token)
	if p.sharesWith != nil {
		p.sharesWith.HoldBegan(sharedKey)
		p.sharesWith.ShareHold(sharedKey, lease)
	}
	return lease, nil
}

func (p *fakeTicket) Leave() { p.begun <- errServed }

func (p *fakeTicket) Ended(context.Context) error { return errEnded }

// grant grants the ticket a hold with that token.
func (p *fakeTicket) grant(token uint64) {
	p.token = token
	p.granted <- nil
	synctest.Wait()
}

// requireLeft checks that no goroutine has the ticket any more, and why it was left.
func (p *fakeTicket) requireLeft(t *testing.T, cause error) {
	t.Helper()
	select {
	case err := <-p.begun:
		require.ErrorIs(t, err, cause)
	default:
		t.Error("the ticket was not left")
	}
}

// requireKept checks that a goroutine waits with the ticket.
func (p *fakeTicket) requireKept(t *testing.T) {
	t.Helper()
	require.Equal(t, int32(1), p.waiting.Load(), "no goroutine waits with it")
	require.Empty(t, p.begun)
}

// rig is a queue, its source, and the tickets that the source made.
type rig struct {
	*testing.T
	*Queue

	table *Table

	ticketsMu  sync.Mutex // guards tickets: a goroutine may ask while the test sleeps
	tickets    []*fakeTicket
	errs       []error // the errors with which tickets are refused, in that order
	closed     error   // the reason why waiting is refused
	maxWaiters int     // the limit of waiters; 0 is any number

	sharing        bool       // granted holds are shared
	questions      int        // counts the questions whether a hold may be shared further
	mayShare       chan bool  // the server's reply; nil if the hold may not be shared
	requestedLease hold.Lease // the lease of the last question
}

// inRig runs a test in which nothing happens by itself.
func inRig(t *testing.T, test func(m *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t)
		m := &rig{T: t, Queue: table.Use("a"), table: table}
		test(m)
		synctest.Wait()
		for list := &m.mu.first; list != nil; list = list.next {
			require.Nil(t, list.head, "a goroutine still waits")
			require.Nil(t, list.tail)
			require.Zero(t, list.fetchers, "a goroutine still asks")
			require.Zero(t, list.requesters)
			require.Zero(t, list.holds)
		}
		require.Zero(t, m.mu.waiters)
		table.Done(m.Queue)
		require.Zero(t, table.Len())
	})
}

// Admit implements TicketSource.
func (m *rig) Admit(waiters int) error {
	if m.maxWaiters > 0 && waiters >= m.maxWaiters {
		return errMany
	}
	return m.closed
}

// NewTicket implements TicketSource.
func (m *rig) NewTicket() (Ticket, error) {
	m.ticketsMu.Lock()
	defer m.ticketsMu.Unlock()
	if len(m.errs) > 0 {
		err := m.errs[0]
		m.errs = m.errs[1:]
		return nil, err
	}
	p := newTicket()
	if m.sharing {
		p.sharesWith = m
	}
	m.tickets = append(m.tickets, p)
	return p, nil
}

func newTicket() *fakeTicket {
	return &fakeTicket{joinResult: make(chan error, 1), granted: make(chan error, 1), begun: make(chan error, 1)}
}

// caller is one call of Acquire.
type caller struct {
	*testing.T

	cancel context.CancelFunc
	lease  hold.Lease
	err    error
	over   atomic.Bool
}

// newTable returns a table whose timers end with the test.
func newTable(t *testing.T) *Table {
	t.Helper()
	ts := timers.New()
	t.Cleanup(ts.Close)
	return NewTable(ts)
}

// acquires begins a call of Acquire with permitKey.
func (m *rig) acquires() *caller {
	m.Helper()
	return m.acquiresWith(permitKey)
}

// acquiresWith begins a call of Acquire with another key.
func (m *rig) acquiresWith(key ShareKey) *caller {
	m.Helper()
	ctx, cancel := context.WithCancel(m.Context())
	g := &caller{T: m.T, cancel: cancel}
	go func() {
		g.lease, g.err = m.table.Acquire(ctx, m.Queue, key, m)
		cancel()
		g.over.Store(true)
	}()
	synctest.Wait()
	return g
}

// queued begins n calls, of which the first gets a ticket in the server's queue.
func (m *rig) queued(n int) []*caller {
	m.Helper()
	var callers []*caller
	for i := range n {
		callers = append(callers, m.acquires())
		if i == 0 {
			m.joinReturns(errWaits)
		}
	}
	require.Len(m, m.tickets, 1, "others have tickets as well")
	m.tickets[0].requireKept(m.T)
	return callers
}

// joinReturns makes the newest Join return.
func (m *rig) joinReturns(err error) {
	m.Helper()
	p := m.tickets[len(m.tickets)-1]
	require.Equal(m, int32(1), p.joining.Load(), "no Join is under way")
	p.joinResult <- err
	synctest.Wait()
}

// handsOver hands a hold with that token over.
func (m *rig) handsOver(token uint64) HandOverResult {
	verdict := m.HandOver(testTime, permitKey, handOver(token))
	synctest.Wait()
	return verdict
}

func (g *caller) requireWaits() {
	g.Helper()
	require.False(g, g.over.Load(), "its wait is over: %v, token %d", g.err, g.lease.Token())
}

func (g *caller) requireHas(token uint64) {
	g.Helper()
	require.True(g, g.over.Load(), "it waits")
	require.NoError(g, g.err)
	require.Equal(g, token, g.lease.Token())
}

func (g *caller) requireFailed(err error) {
	g.Helper()
	require.True(g, g.over.Load(), "it waits")
	require.ErrorIs(g, g.err, err)
}

// requireAllWait checks that each caller waits, except those in but.
func requireAllWait(callers []*caller, but ...*caller) {
	for _, g := range callers {
		if !slices.Contains(but, g) {
			g.requireWaits()
		}
	}
}
