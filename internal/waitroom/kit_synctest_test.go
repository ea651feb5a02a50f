// SPDX-License-Identifier: Apache-2.0

package waitroom

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

	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// permitKey is the share key of these tests, and testTime the time at which they run.
var permitKey = ShareKey{Concurrent: true, Permits: 1}

var testTime = timers.At(time.Hour, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))

// fake is a hold that is never released.
type fake struct{ hold.Hold }

func (f *fake) OnRelease(timers.Instant) error { return nil }
func (f *fake) OnLost(hold.End)                {}
func (f *fake) Key() string                    { return "" }
func (f *fake) ID() string                     { return "" }

// leased returns the lease of a hold with that token.
func leased(token uint64) hold.Lease {
	f := &fake{}
	return f.BeginComposite(f, nil, nil, token)
}

// handOver is a hold that is handed over with that token; 0 is one that refuses.
type handOver uint64

func (h handOver) NextLease(timers.Instant) (hold.Lease, bool) {
	if h == 0 {
		return hold.Lease{}, false
	}
	return leased(uint64(h)), true
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

func (f *fakeTicket) Join(ctx context.Context) (bool, error) {
	f.joining.Add(1)
	defer f.joining.Add(-1)
	if f.queued.Load() && len(f.joinResult) == 0 {
		return false, ctx.Err()
	}
	select {
	case err := <-f.joinResult:
		if errors.Is(err, errWaits) {
			f.queued.Store(true)
			return false, nil
		}
		return err == nil, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (f *fakeTicket) Wait(ctx context.Context) error {
	if f.waiting.Add(1) > 1 {
		panic("two wait with one ticket")
	}
	defer f.waiting.Add(-1)
	select {
	case err := <-f.granted:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeTicket) BeginHold(_ context.Context, err error) (hold.Lease, error) {
	f.begun <- err
	if f.token == 0 {
		return hold.Lease{}, err
	}
	lease := leased(f.token)
	if f.sharesWith != nil {
		f.sharesWith.HoldBegan(sharedKey)
		f.sharesWith.ShareHold(sharedKey, lease)
	}
	return lease, nil
}

func (f *fakeTicket) Leave() { f.begun <- errServed }

func (f *fakeTicket) Ended(context.Context) error { return errEnded }

// grant grants the ticket a hold with that token.
func (f *fakeTicket) grant(token uint64) {
	f.token = token
	f.granted <- nil
	synctest.Wait()
}

// requireLeft checks that no goroutine has the ticket any more, and why it was left.
func (f *fakeTicket) requireLeft(t *testing.T, cause error) {
	t.Helper()
	select {
	case err := <-f.begun:
		require.ErrorIs(t, err, cause)
	default:
		t.Error("the ticket was not left")
	}
}

// requireKept checks that a goroutine waits with the ticket.
func (f *fakeTicket) requireKept(t *testing.T) {
	t.Helper()
	require.Equal(t, int32(1), f.waiting.Load(), "no goroutine waits with it")
	require.Empty(t, f.begun)
}

// rig is a queue, its source, and the tickets that the source made.
type rig struct {
	*testing.T
	*Room

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
func inRig(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t)
		r := &rig{T: t, Room: table.Use("a"), table: table}
		test(r)
		synctest.Wait()
		for list := range r.listsLocked() {
			require.Nil(t, list.first(), "a goroutine still waits")
			require.Nil(t, list.known().tail)
			require.Zero(t, list.waiterRequests, "a goroutine still asks")
			require.Zero(t, list.directRequests)
			require.Zero(t, list.holds)
		}
		require.Zero(t, r.mu.waiters)
		r.Room.Done("a")
		require.Zero(t, table.Len())
	})
}

// Admit implements TicketSource.
func (r *rig) Admit(waiters int) error {
	if r.maxWaiters > 0 && waiters >= r.maxWaiters {
		return errMany
	}
	return r.closed
}

// NewTicket implements TicketSource.
func (r *rig) NewTicket(any) (Ticket, error) {
	r.ticketsMu.Lock()
	defer r.ticketsMu.Unlock()
	if len(r.errs) > 0 {
		err := r.errs[0]
		r.errs = r.errs[1:]
		return nil, err
	}
	ticket := newTicket()
	if r.sharing {
		ticket.sharesWith = r
	}
	r.tickets = append(r.tickets, ticket)
	return ticket, nil
}

func newTicket() *fakeTicket {
	return &fakeTicket{joinResult: make(chan error, 1), granted: make(chan error, 1), begun: make(chan error, 1)}
}

// holdTicket is a ticket that makes the lease of the hold that it was granted, or returns why there is no hold.
type holdTicket interface {
	Ticket
	BeginHold(ctx context.Context, err error) (hold.Lease, error)
}

// acquire drives an Acquisition as its callers do.
func acquire(ctx context.Context, q *Room, key ShareKey, source TicketSource) (hold.Lease, error) {
	return drive(ctx, &Acquisition{Room: q, Key: key, Source: source})
}

func drive(ctx context.Context, a *Acquisition) (hold.Lease, error) {
	defer a.End()
	for {
		t, lease, err := a.Await(ctx)
		if t == nil {
			return lease, err
		}
		lease, err = t.(holdTicket).BeginHold(ctx, err) //nolint:forcetypeassert // all tickets of these tests are
		if !a.Deliver(lease, err) {
			return lease, err
		}
	}
}

// caller is one call of acquire.
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

// acquires begins a call of acquire with permitKey.
func (r *rig) acquires() *caller {
	r.Helper()
	return r.acquiresWith(permitKey)
}

// acquiresWith begins a call of acquire with another key.
func (r *rig) acquiresWith(key ShareKey) *caller {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	c := &caller{T: r.T, cancel: cancel}
	go func() {
		c.lease, c.err = acquire(ctx, r.Room, key, r)
		cancel()
		c.over.Store(true)
	}()
	synctest.Wait()
	return c
}

// queued begins n calls, of which the first gets a ticket in the server's queue.
func (r *rig) queued(n int) []*caller {
	r.Helper()
	var callers []*caller
	for i := range n {
		callers = append(callers, r.acquires())
		if i == 0 {
			r.joinReturns(errWaits)
		}
	}
	require.Len(r, r.tickets, 1, "others have tickets as well")
	r.tickets[0].requireKept(r.T)
	return callers
}

// joinReturns makes the newest Join return.
func (r *rig) joinReturns(err error) {
	r.Helper()
	ticket := r.tickets[len(r.tickets)-1]
	require.Equal(r, int32(1), ticket.joining.Load(), "no Join is under way")
	ticket.joinResult <- err
	synctest.Wait()
}

// handsOver hands a hold with that token over.
func (r *rig) handsOver(token uint64) HandOverResult {
	verdict := r.HandOver(testTime, permitKey, handOver(token))
	synctest.Wait()
	return verdict
}

func (c *caller) requireWaits() {
	c.Helper()
	require.False(c, c.over.Load(), "its wait is over: %v, token %d", c.err, c.lease.Token())
}

func (c *caller) requireHas(token uint64) {
	c.Helper()
	require.True(c, c.over.Load(), "it waits")
	require.NoError(c, c.err)
	require.Equal(c, token, c.lease.Token())
}

func (c *caller) requireFailed(err error) {
	c.Helper()
	require.True(c, c.over.Load(), "it waits")
	require.ErrorIs(c, c.err, err)
}

// requireAllWait checks that each caller waits, except those in but.
func requireAllWait(callers []*caller, but ...*caller) {
	for _, c := range callers {
		if !slices.Contains(but, c) {
			c.requireWaits()
		}
	}
}
