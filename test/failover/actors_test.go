// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// outcome is what became of a held lease after a fault.
type outcome struct {
	lost error         // nil: it was renewed
	took time.Duration // the time from the call of follow
}

// follow reports what happens to a lease of life after a fault that has come: the first renewal that is sent from
// now on and has a reply, or the end. Before the fault a renewal may have the reply of the server that is lost.
func follow(lease signalbox.Lease, life time.Duration) <-chan outcome {
	from := time.Now()
	results := make(chan outcome, 1)
	go func() {
		var o outcome
		// A renewal gives life from its sending, less what is allowed for clocks.
		first := from.Add(life - clock.Allowance(life))
		if !redistest.PollUntil(life+redistest.Patience, func() bool {
			o = outcome{lease.Err(), time.Since(from)}
			return o.lost != nil || lease.Deadline().After(first)
		}) {
			o.lost = errors.New("neither renewed nor lost")
		}
		results <- o
	}()
	return results
}

// followAll is follow for many.
func followAll(leases []signalbox.Lease, life time.Duration) (results []<-chan outcome) {
	for _, lease := range leases {
		results = append(results, follow(lease, life))
	}
	return results
}

// mustEnd gives a lease back after a failover, if that did not end it. In time, both are right, and so is an end after the first
// renewal, on a machine that is suspended for as long as a lease.
func (w *fixture) mustEnd(lease signalbox.Lease, o outcome, now *redistest.Server) {
	w.Helper()
	defer w.holders.leave(lease)
	if o.lost == nil && !w.held(now) {
		o.lost = lease.Err()
		require.Error(w, o.lost, "%s: the lease is live without a hold", w.kind.Name)
	}
	if o.lost != nil {
		require.ErrorIs(w, o.lost, signalbox.ErrLost)
		return
	}
	_, err := w.lock(locktest.SteadySession(w.T, w.topology)).TryLock(locktest.Context(w)) // which no busy machine keeps from the server
	require.ErrorIs(w, err, signalbox.ErrHeld, w.kind.Name)
	w.mustRelease(lease)
}

// lockCall is one Lock call.
type lockCall struct {
	w    *fixture
	done chan struct{}
	over chan error // the error of handOff

	// Written before done is closed.
	lease signalbox.Lease
	err   error
	at    time.Time
}

// wait begins to wait for the lock, in a session of its own, and returns when the server knows of it.
func (w *fixture) wait(ctx context.Context) *lockCall {
	w.Helper()
	s := w.session()
	w.subscriber = s
	q := &lockCall{w: w, done: make(chan struct{}), over: make(chan error, 1)}
	go func() {
		defer close(q.done)
		before := w.holders.last()
		q.lease, q.err = w.lock(s, signalbox.WithRenewedLease(life)).Lock(ctx)
		q.at = time.Now()
		if q.err == nil {
			w.holders.enter(q.lease, before)
		}
	}()
	redistest.Await(w, w.kind.Name+": a waiter", func() bool {
		return locktest.Channels(s) > 0 && (!w.kind.Ordered() || w.knows(s))
	})
	return q
}

// mustGet waits until the waiter has the lock.
func (q *lockCall) mustGet() {
	q.w.Helper()
	redistest.ReceiveFor(q.w, 2*redistest.Patience, q.w.kind.Name+": a grant", q.done)
	require.NoError(q.w, q.err, q.w.kind.Name)
}

// handOff releases the lock, and returns when the waiter has it.
func (q *lockCall) handOff() {
	go func() {
		<-q.done
		if q.err != nil {
			q.over <- q.err
			return
		}
		q.w.holders.leave(q.lease)
		err := locktest.IgnoreUnconfirmed(q.lease.Unlock())
		if errors.Is(err, signalbox.ErrLost) {
			err = nil // a grant lasts for three seconds, which a busy machine lets pass; the log compares
		}
		q.over <- err
	}()
}

// mustHandOn waits until handOff has done so.
func (q *lockCall) mustHandOn() {
	q.w.Helper()
	q.mustGet()
	require.NoError(q.w, <-q.over, q.w.kind.Name)
}

// turnLife is that of the leases of a crowd. If a failover loses a release, the lock is unavailable for as
// long.
const turnLife = 3 * time.Second

// workload is goroutines that take the lock in turn, for some milliseconds each.
type workload struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

// load starts two sessions whose goroutines take turns and hand the lock over. If two servers may grant at
// one time, each turn is requested from the server: a hold that is handed over has tokens from before the
// other server's grants.
func (w *fixture) load() *workload {
	w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := &workload{stop: stop}
	sessions, goroutines := 2, 2
	if !w.strict {
		sessions, goroutines = 4, 1
	}
	for range sessions {
		s := w.session()
		w.subscriber = s
		for range goroutines {
			c.running.Go(func() {
				for ctx.Err() == nil {
					w.turn(ctx, w.lock(s, signalbox.WithRenewedLease(turnLife)))
				}
			})
		}
	}
	w.Cleanup(c.end)
	redistest.Await(w, w.kind.Name+": turns", func() bool { return w.holders.len() > 10 })
	return c
}

// end waits until the last turn is over.
func (c *workload) end() {
	c.stop()
	c.running.Wait()
}

// turn is one of them.
func (w *fixture) turn(ctx context.Context, l locktest.Lock) {
	before := w.holders.last()
	lease, err := l.Lock(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.holders.violations("Lock gave up: %v", err)
		}
		return
	}
	w.holders.enter(lease, before)
	moment := time.NewTimer(3 * time.Millisecond)
	select {
	case <-moment.C:
	case <-lease.Done():
		moment.Stop()
	}
	w.holders.leave(lease)
	deadline := lease.Deadline()
	err = lease.Unlock()
	lost := errors.Is(err, signalbox.ErrLost)
	early := time.Now().Before(deadline) // after that a lease is over, on a machine that was suspended for long
	if lost && w.strict && early || err != nil && !lost && !errors.Is(err, signalbox.ErrUnconfirmed) {
		w.holders.violations("Unlock failed: %v", err)
	}
}

// awaitTurns waits until many turns were taken after all that were taken by now.
func (w *fixture) awaitTurns(n int) {
	w.Helper()
	begun := w.holders.len()
	redistest.AwaitFor(w, 2*redistest.Patience, w.kind.Name+": more turns", func() bool { return w.holders.len() >= begun+n })
}

// takeOver lets a replica take over as its operators ask. One that does not get there within some seconds gives up, or says that it
// cannot do it for now, and has to be asked again.
func takeOver(t *testing.T, replica *redistest.Server) {
	t.Helper()
	isPrimary := func() bool {
		role, err := replica.Do("ROLE")
		return err == nil && strings.HasPrefix(fmt.Sprint(role), "[master")
	}
	for range 4 {
		_, _ = replica.Do("CLUSTER", "FAILOVER") // refused if it is the primary already
		if redistest.PollUntil(redistest.Patience/2, isPrimary) {
			return
		}
	}
	require.FailNow(t, "the replica does not take over", replica.Log())
}

// switchOver makes the sentinels switch to another primary, as operators do, and returns that. A sentinel
// refuses while it knows no fit replica, or switches already.
func switchOver(t *testing.T, s *redistest.Sentinel, old *redistest.Server) *redistest.Server {
	t.Helper()
	redistest.Await(t, "a sentinel that switches", func() bool {
		_, err := s.Sentinels()[0].Do("SENTINEL", "FAILOVER", redistest.MasterSet)
		return err == nil || strings.HasPrefix(err.Error(), "INPROG")
	})
	return s.AwaitFailover(t, old)
}
