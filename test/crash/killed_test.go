// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/test/kit"
)

// junk fills the server with keys that end, so that it has others to look for than the lock's.
const junk = `for i = 1, ARGV[1] do redis.call('SET', 'junk:' .. i, '', 'PX', 600000 + i) end`

// P6: a waiter gets the lock of a dead process about a second after its key should have
// ended, however many other keys the server has to keep an eye on.
func TestWaiterGetsTheLockOfADeadProcessAmongManyKeys(t *testing.T) {
	t.Parallel()
	const life, late = 2 * time.Second, 2 * time.Second
	w := newWorld(t)
	w.server.MustDo(t, "EVAL", junk, 0, 100_000)
	holder := start(t, "holder", w.server, "dead", life)
	says(t, holder, "held")
	got := make(chan error, 1)
	go func() {
		lease, err := reentrant.New(w.session, "dead").Lock(kit.Context(t))
		if err == nil {
			err = lease.Unlock()
		}
		got <- err
	}()
	kit.Await(t, kit.Patience, "the waiter listens", func() bool { return kit.Channels(w.session) > 0 })
	holder.Kill()
	ends := w.view.MustHold(t, "dead").Ends
	require.NoError(t, <-got)
	t.Logf("the waiter had the lock %v after the end of the key", time.Since(ends))
	require.Less(t, time.Since(ends), late)
	require.Greater(t, time.Since(ends), -late)
}

// P4: processes that are killed anywhere in the middle leave no key that outlives its lease,
// but floors, and those end as well.
func TestKilledProcessesLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 5 {
		w.killSome(t, 10)
	}
	w.nothingLeft(t)
}

func TestSoakKilledProcessesLeaveNothing(t *testing.T) { //nolint:paralleltest // has the machine to itself
	w, kills := newWorld(t), 0
	for more := kit.Soak(t); more(); {
		w.killSome(t, 20)
		w.nothingLeft(t)
		kills += 20
	}
	t.Logf("%d processes were killed", kills)
}

// workLife is the lease of the workers.
const workLife = 500 * time.Millisecond

// killSome runs n workers on the same locks and kills each after some steps, one while it
// has just been told that it holds a lock, another on its way to one.
func (w *world) killSome(t *testing.T, n int) {
	t.Helper()
	kit.Together(t, n, func(i int) error {
		p := start(t, "worker", w.server, "work/", workLife)
		for range 1 + rand.N(40) {
			if _, err := p.ReadLine(kit.Patience); err != nil {
				return fmt.Errorf("%w; it said %s", err, p.Stderr())
			}
		}
		p.Kill()
		return nil
	})
}

// nothingLeft waits a lease and a second, and fails the test if anything is left by then.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	kit.Await(t, workLife+time.Second, "every hold has ended", func() bool {
		immortal, held, err := w.view.Leaks()
		require.NoError(t, err)
		require.Empty(t, immortal, "keys without an end")
		return len(held) == 0
	})
	kit.Await(t, kit.Patience, "nobody listens", func() bool {
		channels, ok := w.server.MustDo(t, "PUBSUB", "CHANNELS").([]any)
		return ok && len(channels) == 0
	})
	for i := range names {
		lease, err := reentrant.New(w.session, fmt.Sprint("work/", i)).TryLock(kit.Context(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock())
	}
}
