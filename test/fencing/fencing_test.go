// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// fixture is a server for the lock and one for what it protects.
type fixture struct {
	kind          locktest.Primitive
	locks, stores *redistest.Server
	store         *store
}

func newFixture(t *testing.T, kind locktest.Primitive) *fixture {
	t.Helper()
	f := &fixture{kind: kind, locks: redistest.Start(t), stores: redistest.Start(t)}
	f.store = &store{f.stores.Client(t, func(o *rueidis.ClientOption) { o.DisableCache = true })}
	return f
}

func (f *fixture) lock(t *testing.T) locktest.Lock {
	t.Helper()
	return f.kind.New(locktest.Session(t, f.locks, signalbox.WithDefaults(signalbox.WithRenewedLease(life))), lockName)
}

// P1, P3: with tokens no update is lost, while processes are stopped past their lease and
// killed.
func TestNoUpdateIsLostThoughProcessesStopAndDie(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "processes are stopped for longer than their leases last")
	locktest.Each(t, func(t *testing.T, p locktest.Primitive) {
		// The next holder of a lock with a queue waits for three seconds if a waiter is stopped that was
		// just granted it.
		rounds := 3
		if !p.Ordered() {
			rounds = 12
		}
		left := rounds
		stale := newFixture(t, p).underFire(t, func() bool { left--; return left >= 0 })
		require.Equal(t, rounds, stale)
	})
}

func TestSoakNoUpdateIsLostThoughProcessesStopAndDie(t *testing.T) { //nolint:paralleltest // has the machine to itself
	for _, p := range locktest.Primitives() { //nolint:paralleltest // one after the other
		t.Run(p.Name, func(t *testing.T) {
			more := locktest.Soak(t)
			newFixture(t, p).underFire(t, more)
		})
	}
}

// underFire lets clients add, here and in children. In each round it stops a child that has read and not
// yet written, and stops or kills another one wherever it is. It returns how often the store refused the
// first.
func (f *fixture) underFire(t *testing.T, more func() bool) (stale int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var adders sync.WaitGroup
	for range 2 {
		lock := f.lock(t)
		for range 2 {
			adders.Go(func() {
				for ctx.Err() == nil {
					if err := add(ctx, lock, f.store, func() {}); err != nil && ctx.Err() == nil && !errors.Is(err, errStale) {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	paced, free := f.adder(t, "1"), f.adder(t, "")
	for more() {
		awaitRead(t, paced)
		paced.Freeze()
		f.continues(t)
		free.Freeze()
		f.continues(t)
		if free.Thaw(); rand.N(3) == 0 {
			free.Kill()
			free = f.adder(t, "")
		}
		readSome(t, free)
		paced.Send("write")
		paced.Thaw()
		says(t, paced, "stale")
		stale++
	}
	paced.Kill() // it may hold the lock by now, and would for ever
	cancel()
	adders.Wait()
	lost, err := f.store.lost()
	t.Logf("%d updates, %d refused, %d lost", f.store.size(), stale, lost)
	require.NoError(t, err)
	require.Zero(t, lost)
	return stale
}

func (f *fixture) adder(t *testing.T, paced string) *redistest.Process {
	t.Helper()
	p := redistest.Child(t, "adder", lockEnv+"="+f.locks.URL(), kindEnv+"="+f.kind.Name, storeEnv+"="+f.stores.URL(), pacedEnv+"="+paced)
	says(t, p, "began") // who is stopped in the midst of a Dial fails
	return p
}

func says(t *testing.T, p *redistest.Process, want string) {
	t.Helper()
	line, err := p.ReadLine(redistest.WaitLimit)
	require.NoError(t, err, p.Stderr())
	require.Equal(t, want, line)
}

// awaitRead waits until a paced child has read. Its lease is short: if it has ended before, the store has
// refused the read, and the child tries again.
func awaitRead(t *testing.T, p *redistest.Process) {
	t.Helper()
	for {
		line, err := p.ReadLine(redistest.WaitLimit)
		require.NoError(t, err, p.Stderr())
		if line != "stale" {
			require.Equal(t, "read", line)
			return
		}
	}
}

// readSome reads some output of the child, so that it can continue to write.
func readSome(t *testing.T, p *redistest.Process) {
	t.Helper()
	for range 1 + rand.N(20) {
		_, err := p.ReadLine(redistest.WaitLimit)
		require.NoError(t, err, p.Stderr())
	}
}

// continues waits until others have added something. They do so at once, or when the lease of the stopped
// child has ended.
func (f *fixture) continues(t *testing.T) {
	t.Helper()
	before := f.store.size()
	redistest.Await(t, "others add", func() bool { return f.store.size() >= before+20 })
}
