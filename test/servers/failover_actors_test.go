// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// follow reports what happens to a lease of life after a fault that has come: nothing if a renewal that is sent from
// now on has a reply, or the end. Before the fault a renewal may have the reply of the server that is lost.
func follow(lease signalbox.Lease, life time.Duration) <-chan error {
	from := time.Now()
	results := make(chan error, 1)
	go func() {
		// A renewal gives life from its sending, less what is allowed for clocks.
		first := from.Add(life - timers.Allowance(life))
		var lost error
		if !redistest.PollUntil(life+redistest.Patience, func() bool {
			lost = lease.Err()
			return lost != nil || lease.Deadline().After(first)
		}) {
			lost = errors.New("neither renewed nor lost")
		}
		results <- lost
	}()
	return results
}

// followAll is follow for many.
func followAll(leases []signalbox.Lease, life time.Duration) (results []<-chan error) {
	for _, lease := range leases {
		results = append(results, follow(lease, life))
	}
	return results
}

// mustEnd gives a lease back after a failover, if that did not end it. In time, both are right, and so is an end after the first
// renewal, on a machine that is suspended for as long as a lease.
func (f *failoverFixture) mustEnd(lease signalbox.Lease, lost error, now *redistest.Server) {
	f.Helper()
	defer f.holders.leave(lease)
	if lost == nil && !f.held(now) {
		lost = lease.Err()
		require.Error(f, lost, "%s: the lease is live without a hold", f.kind.Name)
	}
	if lost != nil {
		require.ErrorIs(f, lost, signalbox.ErrLost)
		return
	}
	_, err := f.lock(locktest.SteadySession(f.T, f.topology)).TryLock(locktest.Context(f)) // which no busy machine keeps from the server
	require.ErrorIs(f, err, signalbox.ErrHeld, f.kind.Name)
	f.mustRelease(lease)
}

// lockCall is one Lock call.
type lockCall struct {
	fixture *failoverFixture
	done    chan struct{}
	over    chan error // the error of handOff

	// Written before done is closed.
	lease signalbox.Lease
	err   error
	at    time.Time
}

// wait begins to wait for the lock, in a session of its own, and returns when the server knows of it.
func (f *failoverFixture) wait(ctx context.Context) *lockCall {
	f.Helper()
	s := f.session()
	f.subscriber = s
	l := &lockCall{fixture: f, done: make(chan struct{}), over: make(chan error, 1)}
	go func() {
		defer close(l.done)
		before := f.holders.last()
		l.lease, l.err = f.lock(s, signalbox.WithRenewedLease(failoverLease)).Lock(ctx)
		l.at = time.Now()
		if l.err == nil {
			f.holders.enter(l.lease, before)
		}
	}()
	redistest.Await(f, f.kind.Name+": a waiter", func() bool {
		return locktest.Channels(s) > 0 && (!f.kind.Ordered() || f.knows(s))
	})
	return l
}

// mustGet waits until the waiter has the lock.
func (l *lockCall) mustGet() {
	l.fixture.Helper()
	redistest.ReceiveFor(l.fixture, 2*redistest.Patience, l.fixture.kind.Name+": a grant", l.done)
	require.NoError(l.fixture, l.err, l.fixture.kind.Name)
}

// handOff releases the lock, and returns when the waiter has it.
func (l *lockCall) handOff() {
	go func() {
		<-l.done
		if l.err != nil {
			l.over <- l.err
			return
		}
		l.fixture.holders.leave(l.lease)
		err := locktest.IgnoreUnconfirmed(l.lease.Unlock())
		if errors.Is(err, signalbox.ErrLost) {
			err = nil // a grant lasts for three seconds, which a busy machine lets pass; the log compares
		}
		l.over <- err
	}()
}

// mustHandOn waits until handOff has done so.
func (l *lockCall) mustHandOn() {
	l.fixture.Helper()
	l.mustGet()
	require.NoError(l.fixture, <-l.over, l.fixture.kind.Name)
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
func (f *failoverFixture) load() *workload {
	f.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &workload{stop: stop}
	sessions, goroutines := 2, 2
	if !f.strict {
		sessions, goroutines = 4, 1
	}
	for range sessions {
		s := f.session()
		f.subscriber = s
		for range goroutines {
			w.running.Go(func() {
				for ctx.Err() == nil {
					f.turn(ctx, f.lock(s, signalbox.WithRenewedLease(turnLife)))
				}
			})
		}
	}
	f.Cleanup(w.end)
	redistest.Await(f, f.kind.Name+": turns", func() bool { return f.holders.len() > 10 })
	return w
}

// end waits until the last turn is over.
func (w *workload) end() {
	w.stop()
	w.running.Wait()
}

// turn is one of them.
func (f *failoverFixture) turn(ctx context.Context, l locktest.Lock) {
	before := f.holders.last()
	lease, err := l.Lock(ctx)
	if err != nil {
		if ctx.Err() == nil {
			f.holders.violations("Lock gave up: %v", err)
		}
		return
	}
	f.holders.enter(lease, before)
	moment := time.NewTimer(3 * time.Millisecond)
	select {
	case <-moment.C:
	case <-lease.Done():
		moment.Stop()
	}
	f.holders.leave(lease)
	deadline := lease.Deadline()
	err = lease.Unlock()
	lost := errors.Is(err, signalbox.ErrLost)
	early := time.Now().Before(deadline) // after that a lease is over, on a machine that was suspended for long
	if lost && f.strict && early || err != nil && !lost && !errors.Is(err, signalbox.ErrUnconfirmed) {
		f.holders.violations("Unlock failed: %v", err)
	}
}

// awaitTurns waits until many turns were taken after all that were taken by now.
func (f *failoverFixture) awaitTurns(n int) {
	f.Helper()
	begun := f.holders.len()
	redistest.AwaitFor(f, 2*redistest.Patience, f.kind.Name+": more turns", func() bool { return f.holders.len() >= begun+n })
}
