// SPDX-License-Identifier: Apache-2.0

package handoff

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

// like is the request of these tests, and now when they are made.
var like = Request{Beside: true, Permits: 1}

var now = clock.At(time.Hour, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))

// fake is a hold that is never given back.
type fake struct{ hold.Hold }

func (f *fake) Vacated(clock.Instant) error { return nil }
func (f *fake) Lost(renewal.End)            {}

// leased returns the lease of a hold with that token.
func leased(token uint64) hold.Lease {
	f := &fake{}
	return f.BeginOf(f, nil, nil, token)
}

// gives is a hold that is passed on with that token; 0 is one that refuses.
type gives uint64

func (g gives) Give(clock.Instant) (hold.Lease, bool) {
	if g == 0 {
		return hold.Lease{}, false
	}
	return leased(uint64(g)), true
}

// place is one at a server that does what a test says.
type place struct {
	entering, waiting atomic.Int32 // callers
	entered           chan error   // what Enter answers: errWaits is that it stands in line, nil that it was granted
	inLine            atomic.Bool  // once Enter said so
	granted           chan error   // what Wait answers
	token             uint64       // of what was granted; 0 is nothing
	opens             *room        // where that is shared; nil if it is not
	began             chan error   // how Begin was called, or errServed for Leave
}

var (
	errWaits = errors.New("it waits")
	errFalls = errors.New("the sky falls")
	errMany  = errors.New("too many wait")
	errEnded = errors.New("ended, and it was held")

	// errServed is what a place is left with whose owner was served otherwise.
	errServed = errors.New("it was served otherwise")
)

func (p *place) Enter(ctx context.Context) (bool, error) {
	p.entering.Add(1)
	defer p.entering.Add(-1)
	if p.inLine.Load() && len(p.entered) == 0 {
		return false, ctx.Err()
	}
	select {
	case err := <-p.entered:
		if errors.Is(err, errWaits) {
			p.inLine.Store(true)
			return false, nil
		}
		return err == nil, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (p *place) Wait(ctx context.Context) error {
	if p.waiting.Add(1) > 1 {
		panic("two wait in one place")
	}
	defer p.waiting.Add(-1)
	select {
	case err := <-p.granted:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *place) Begin(_ context.Context, err error) (hold.Lease, error) {
	p.began <- err
	if p.token == 0 {
		return hold.Lease{}, err
	}
	lease := leased(p.token)
	if p.opens != nil {
		p.opens.Began(shared)
		p.opens.Open(shared, lease)
	}
	return lease, nil
}

func (p *place) Leave() { p.began <- errServed }

func (p *place) Ended(context.Context) error { return errEnded }

// grant says that the place was granted something with that token.
func (p *place) grant(token uint64) {
	p.token = token
	p.granted <- nil
	synctest.Wait()
}

// requireLeft checks that nobody has the place any more, and with what it was left.
func (p *place) requireLeft(t *testing.T, cause error) {
	t.Helper()
	select {
	case err := <-p.began:
		require.ErrorIs(t, err, cause)
	default:
		t.Error("the place was not left")
	}
}

// requireKept checks that somebody waits in the place.
func (p *place) requireKept(t *testing.T) {
	t.Helper()
	require.Equal(t, int32(1), p.waiting.Load(), "nobody waits in it")
	require.Empty(t, p.began)
}

// room is a queue, and the places that were asked for by it.
type room struct {
	*testing.T
	*Queue

	table *Table

	asks   sync.Mutex // before places: a goroutine may ask while the test sleeps
	places []*place
	errs   []error // what places are refused with, in that order
	closed error   // why nobody is to wait
	most   int     // waiters; 0 is any number

	shares bool       // what is granted is shared
	asked  int        // how often the server was asked whether it may be shared further
	may    chan bool  // its reply; nil if it may not
	beside hold.Lease // with which that was asked
}

// inRoom runs a test in which nothing happens by itself.
func inRoom(t *testing.T, test func(m *room)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t)
		m := &room{T: t, Queue: table.Use("a"), table: table}
		test(m)
		synctest.Wait()
		for q := &m.mu.class; q != nil; q = q.more {
			require.Nil(t, q.head, "somebody waits still")
			require.Nil(t, q.tail)
			require.Zero(t, q.seeking, "somebody has a part still")
			require.Zero(t, q.asking)
			require.Zero(t, q.held)
		}
		require.Zero(t, m.mu.waiters)
		table.Done(m.Queue)
		require.Zero(t, table.Len())
	})
}

// Ready implements Source.
func (m *room) Ready(waiters int) error {
	if m.most > 0 && waiters >= m.most {
		return errMany
	}
	return m.closed
}

// Ticket implements Source.
func (m *room) Ticket() (Ticket, error) {
	m.asks.Lock()
	defer m.asks.Unlock()
	if len(m.errs) > 0 {
		err := m.errs[0]
		m.errs = m.errs[1:]
		return nil, err
	}
	p := newPlace()
	if m.shares {
		p.opens = m
	}
	m.places = append(m.places, p)
	return p, nil
}

func newPlace() *place {
	return &place{entered: make(chan error, 1), granted: make(chan error, 1), began: make(chan error, 1)}
}

// guest is one call of Take.
type guest struct {
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

// takes begins a call of Take.
func (m *room) takes() *guest {
	m.Helper()
	return m.takesThe(like)
}

// takesThe begins one that wants another sort.
func (m *room) takesThe(like Request) *guest {
	m.Helper()
	ctx, cancel := context.WithCancel(m.Context())
	g := &guest{T: m.T, cancel: cancel}
	go func() {
		g.lease, g.err = m.table.Take(ctx, m.Queue, like, m)
		cancel()
		g.over.Store(true)
	}()
	synctest.Wait()
	return g
}

// queued begins n calls, of which the first stands in line.
func (m *room) queued(n int) []*guest {
	m.Helper()
	var guests []*guest
	for i := range n {
		guests = append(guests, m.takes())
		if i == 0 {
			m.answers(errWaits)
		}
	}
	require.Len(m, m.places, 1, "others have places as well")
	m.places[0].requireKept(m.T)
	return guests
}

// answers tells the newest Enter its answer.
func (m *room) answers(err error) {
	m.Helper()
	p := m.places[len(m.places)-1]
	require.Equal(m, int32(1), p.entering.Load(), "nobody enters")
	p.entered <- err
	synctest.Wait()
}

// passes gives on a hold with that token.
func (m *room) passes(token uint64) Verdict {
	verdict := m.Pass(now, like, gives(token))
	synctest.Wait()
	return verdict
}

func (g *guest) requireWaits() {
	g.Helper()
	require.False(g, g.over.Load(), "its wait is over: %v, token %d", g.err, g.lease.Token())
}

func (g *guest) requireHas(token uint64) {
	g.Helper()
	require.True(g, g.over.Load(), "it waits")
	require.NoError(g, g.err)
	require.Equal(g, token, g.lease.Token())
}

func (g *guest) requireFailed(err error) {
	g.Helper()
	require.True(g, g.over.Load(), "it waits")
	require.ErrorIs(g, g.err, err)
}

// requireAll checks that each waits, but for those.
func requireAllWait(guests []*guest, but ...*guest) {
	for _, g := range guests {
		if !slices.Contains(but, g) {
			g.requireWaits()
		}
	}
}
