// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// junk fills the server with keys that expire, so that it has more keys to check than the lock's.
const junk = `for i = 1, ARGV[1] do redis.call('SET', 'junk:' .. i, '', 'PX', 600000 + i) end`

// P6: a waiter gets the lock of a dead process when its key has expired, however many other keys the server has to expire.
// How long after is in test/virtual: TestCrashedHoldersLockIsTakenOverAsItsKeyEnds, and those of the other kinds.
func TestWaiterGetsTheLockOfADeadProcessAmongManyKeys(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the lease of a process that was killed has to expire on the server")
	locktest.Each(t, waitForTheDead)
}

func waitForTheDead(t *testing.T, kind locktest.Primitive) {
	t.Helper()
	const life = 3 * time.Second
	f := newFixture(t)
	f.server.MustDo(t, "EVAL", junk, 0, 100_000)
	before := time.Now()
	holder := start(t, "holder", f.server, kind.Name, "dead", life)
	says(t, holder, "held")
	got := make(chan error, 1)
	go func() {
		lease, err := kind.New(f.session, "dead").Lock(locktest.Context(t))
		if err == nil {
			err = lease.Unlock()
		}
		got <- err
	}()
	redistest.Await(t, "the waiter listens", func() bool { return locktest.Channels(f.session) > 0 })
	holder.Kill()
	killed := time.Now()
	require.NoError(t, <-got)
	t.Logf("the waiter had the lock %v after the holder was killed", time.Since(killed))
	require.GreaterOrEqual(t, time.Since(before), life, "it had the lock before")
}

// P2, P6: a process that is killed as soon as it has the lock delays the others by 3 s, though its lease is longer.
func TestAProcessThatDiesYoungDelaysTheOthersByThreeSeconds(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the first lease of a process that was killed has to expire on the server")
	locktest.Each(t, func(t *testing.T, kind locktest.Primitive) {
		const life, first = time.Hour, 3 * time.Second
		f := newFixture(t)
		before := time.Now()
		holder := start(t, "young", f.server, kind.Name, "young", life)
		require.NotZero(t, holder.Wait(limit), holder.Stderr())
		killed := time.Now()
		ends := f.view.MustHold(t, "young").Ends // the zero time if it has ended already
		require.False(t, ends.After(killed.Add(first)), "it ends at %v", ends)
		lease, err := kind.New(f.session, "young").Lock(locktest.Context(t))
		require.NoError(t, err)
		t.Logf("the next process had the lock %v after the holder was killed, %v after that was started", time.Since(killed), time.Since(before))
		require.NoError(t, lease.Unlock())
	})
}

// P4: processes that are killed at any moment leave no key that never expires.
func TestKilledProcessesLeaveNoKeyWithoutAnEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.killSome(t, len(kinds()))
	require.NotEmpty(t, f.server.Keys("*"))
	f.view.NoImmortals(t)
}

// P4: processes that are killed at any moment leave no key that outlives its lease, except floors, which
// expire as well.
func TestKilledProcessesLeaveNothing(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the leases of processes that were killed have to expire on the server")
	f := newFixture(t)
	f.killSome(t, 24)
	f.nothingLeft(t, 24)
}

func TestSoakKilledProcessesLeaveNothing(t *testing.T) { //nolint:paralleltest // has the machine to itself
	f, kills := newFixture(t), 0
	for more := locktest.Soak(t); more(); {
		f.killSome(t, 24)
		f.nothingLeft(t, 24)
		kills += 24
	}
	t.Logf("%d processes were killed", kills)
}

// workLife is the lease of the workers.
const workLife = 500 * time.Millisecond

// work returns the kind of lock that a worker uses, and the prefix of the names of its locks. Two workers
// have them in common.
func work(i int) (kind, prefix string) {
	all := slices.Sorted(maps.Keys(kinds()))
	kind = all[i%len(all)]
	return kind, fmt.Sprint(kind, "/", i/len(all)/2, "/")
}

// killSome runs n workers and kills each after some steps, one just after it was granted a lock, another on
// its way to one.
func (f *fixture) killSome(t *testing.T, n int) {
	t.Helper()
	locktest.Together(t, n, func(i int) error {
		kind, prefix := work(i)
		p := start(t, "worker", f.server, kind, prefix, workLife)
		for range 1 + rand.N(40) {
			if _, err := p.ReadLine(limit); err != nil {
				return fmt.Errorf("%w; it said %s", err, p.Stderr())
			}
		}
		p.Kill()
		return nil
	})
}

// nothingLeft waits until the locks of n workers have no holder, and fails the test if anything is left that
// keeps a new caller from the lock. A dead worker that was seen recently may still be in the queue, and
// be granted the lock before the new caller, which therefore waits.
func (f *fixture) nothingLeft(t *testing.T, n int) {
	t.Helper()
	locks := map[string]locktest.Primitive{}
	for i := range n * names {
		kind, prefix := work(i / names)
		locks[prefix+strconv.Itoa(i%names)] = locktest.PrimitiveNamed(kind)
	}
	for name := range locks {
		redistest.Await(t, "every hold has ended", func() bool { return f.view.MustHold(t, name).ID == "" })
	}
	f.view.NoImmortals(t)
	redistest.Await(t, "no subscribers", func() bool {
		channels, ok := f.server.MustDo(t, "PUBSUB", "CHANNELS").([]any)
		return ok && len(channels) == 0
	})
	for name, kind := range locks {
		lease, err := kind.New(f.session, name).Lock(locktest.Context(t))
		require.NoError(t, err, name)
		require.NoError(t, lease.Unlock(), name)
	}
}
