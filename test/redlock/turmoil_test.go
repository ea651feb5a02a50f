// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
)

const (
	servers   = 5
	processes = 5
	life      = time.Second
	// turmoil is how long processes work while servers fail, at the least, and longest how long they may take to have the lock
	// fewest times: a machine that stalls wins few votes, since a server is waited for a tenth of a lease.
	turmoil = 12 * time.Second
	longest = 3 * time.Minute
	fewest  = 20
)

// heldTime is a time in which a caller had the lock for certain.
type heldTime struct {
	who      int
	token    uint64
	from, to time.Duration
}

// heldTimes has the spans.
type heldTimes struct {
	begun time.Time

	mu struct {
		sync.Mutex
		spans []heldTime
	}
}

func (h *heldTimes) now() time.Duration { return time.Since(h.begun) }

func (h *heldTimes) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.mu.spans)
}

func (h *heldTimes) add(s heldTime) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.spans = append(h.mu.spans, s)
}

// judge fails the test where two had the lock at once, or a later one a smaller token.
func (h *heldTimes) judge(t *testing.T) {
	t.Helper()
	spans := slices.Clone(h.mu.spans)
	slices.SortFunc(spans, func(x, y heldTime) int { return int(x.from - y.from) })
	for i := 1; i < len(spans); i++ {
		require.GreaterOrEqual(t, spans[i].from, spans[i-1].to, "two at once: %+v and %+v", spans[i-1], spans[i])
		require.Greater(t, spans[i].token, spans[i-1].token, "an older token: %+v after %+v", spans[i], spans[i-1])
	}
	t.Logf("%d spans", len(spans))
}

// The judge finds what it is there for.
func TestPlantedMistakesAreFound(t *testing.T) {
	t.Parallel()
	for _, wrong := range []heldTime{{1, 30, 5, 15}, {1, 5, 20, 30}} {
		h := &heldTimes{}
		h.add(heldTime{0, 10, 0, 10})
		h.add(wrong)
		// A testing.T of its own, which may fail, on a goroutine of its own, which that ends.
		inner, ended := new(testing.T), make(chan struct{})
		go func() {
			defer close(ended)
			h.judge(inner)
		}()
		<-ended
		require.True(t, inner.Failed())
	}
	ht := &heldTimes{}
	ht.add(heldTime{0, 10, 0, 10})
	ht.add(heldTime{1, 11, 10, 20})
	ht.judge(t) // and nothing else
}

// P1, P3, H19: however servers are cut off, stopped, emptied and restarted, one after the other, and whatever the wires lose, at most one has the lock, and
// tokens rise.
func TestNoTwoHaveTheLockWhileServersFail(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "servers are stopped, restarted and emptied under load, one after the other")
	runFaults(t)
}

func TestSoakNoTwoHaveTheLockWhileServersFail(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	for n := 0; more(); n++ {
		t.Run(fmt.Sprint(n), runFaults)
	}
}

// runFaults lets processes work while servers fail, on servers of its own.
func runFaults(t *testing.T) {
	t.Helper()
	f := newFixture(t)
	h := &heldTimes{begun: time.Now()}
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	var group sync.WaitGroup
	for who := range processes {
		mu := redlock.New(f.process(), "a", signalbox.WithRenewedLease(life), redlock.Fenced())
		group.Go(func() {
			for ctx.Err() == nil {
				if err := h.turn(ctx, who, mu); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := 0; ctx.Err() == nil && (h.now() < turmoil || h.size() <= fewest); i++ {
		f.failServer(ctx, i)
	}
	cancel()
	group.Wait()
	h.judge(t)
	require.Greater(t, h.size(), fewest, "too few calls had the lock")
	for _, s := range f.servers {
		view := locktest.NewView(t, s)
		redistest.Await(t, "a server with nothing of the lock", func() bool { return view.Free("a") })
	}
}

// turn takes the lock once, and adds for how long that was certain.
func (h *heldTimes) turn(ctx context.Context, who int, mu *redlock.Lock) error {
	lease, err := mu.Lock(ctx)
	if err != nil {
		if ctx.Err() == nil {
			return fmt.Errorf("lock: %w", err)
		}
		return nil
	}
	s := heldTime{who: who, token: lease.Token(), from: h.now()}
	s.to = s.from
	for range rand.N(3) {
		pause(ctx, rand.N(100*time.Millisecond))
		now := h.now()
		if lease.Err() != nil {
			break
		}
		s.to = now
	}
	h.add(s)
	err = lease.Unlock()
	if err != nil && !errors.Is(err, signalbox.ErrLost) && !errors.Is(err, signalbox.ErrUnconfirmed) {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// fixture is the servers, and the wires of each process to each of them.
type fixture struct {
	*testing.T

	servers []*redistest.Server
	wires   [][]*redistest.Proxy // the proxies, by process and server
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t}
	for range servers {
		s := redistest.Start(t)
		require.NoError(t, locktest.Establish(s))
		f.servers = append(f.servers, s)
	}
	return f
}

// process returns the sessions of one.
func (f *fixture) process() (sessions []*signalbox.Session) {
	f.Helper()
	var wires []*redistest.Proxy
	for _, s := range f.servers {
		wire := redistest.NewProxy(f, s.Addr())
		wires = append(wires, wire)
		sessions = append(sessions, locktest.Session(f, wire))
	}
	f.wires = append(f.wires, wires)
	return sessions
}

// failServer lets one server fail, and all wires lose something, and returns when the server has its vote again.
func (f *fixture) failServer(ctx context.Context, i int) {
	server := f.servers[i%servers]
	for _, wires := range f.wires {
		for _, wire := range wires {
			if rand.N(3) == 0 {
				kinds := []redistest.FaultKind{redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.DelayRequest, redistest.DelayReply}
				wire.Arm(redistest.Fault{Kind: kinds[rand.N(len(kinds))], Delay: rand.N(200 * time.Millisecond)})
			}
		}
	}
	switch i % 4 {
	case 0:
		server.Restart()
	case 1:
		server.Freeze()
		pause(ctx, rand.N(2*life))
		server.Thaw()
	case 2:
		_, _ = server.Do("FLUSHALL")
	case 3:
		for _, wires := range f.wires {
			wires[i%servers].CutAll()
		}
	}
	// A server that lost its data has no vote for one lease, counted from the first that asks it.
	pause(ctx, life+life/2)
}
