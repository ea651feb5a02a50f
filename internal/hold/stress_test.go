// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// user enters again, binds and unlocks until its lease ends, and checks what was bound.
func user(t *testing.T, r *rand.Rand, l Lease) {
	for range 200 {
		bound, done := l.Enter(t.Context()), l.Done()
		request, cancel := context.WithCancel(bound)
		own := l.Bind(request)
		inner, err := l.Reenter()
		if err != nil {
			cancel()
			break
		}
		if r.IntN(2) == 0 {
			cancel()
		}
		end := inner.Unlock()
		if end == nil {
			if err := inner.Err(); err == nil || inner.Unlock() == nil {
				t.Errorf("an entry that was unlocked is live: %v", err)
			}
		}
		cancel()
		if own.Err() == nil {
			t.Error("a child of an ended context lives")
		}
		if r.IntN(100) > 0 {
			continue
		}
		if l.Unlock() == nil && (!isClosed(done) || bound.Err() == nil) {
			t.Error("what is bound outlives its lease")
		}
		return
	}
	_ = l.Unlock()
}

func TestTenureEndsExactlyOnceInACrowd(t *testing.T) {
	t.Parallel()
	for round := range uint64(30) {
		synctest.Test(t, func(t *testing.T) { crowd(t, round) })
	}
}

func crowd(t *testing.T, round uint64) {
	t.Helper()
	b, first := begin(t, "key")
	var users sync.WaitGroup
	for u := range uint64(6) {
		l, err := first.Reenter()
		require.NoError(t, err)
		users.Go(func() { user(t, rand.New(rand.NewPCG(round, u)), l) })
	}
	if round%3 == 0 {
		users.Go(func() { b.Term.Break(errs.ErrLost, true) })
	}
	bound, done := first.Bind(t.Context()), first.Done()
	_ = first.Unlock()
	users.Wait()
	synctest.Wait() // contexts that were lost end on a goroutine of their own
	released, lost := b.owner.counts()
	require.LessOrEqual(t, released, 1)
	if round%3 != 0 {
		require.Equal(t, 1, released)
		require.Zero(t, lost)
	}
	require.Positive(t, released+lost)
	require.True(t, isClosed(done))
	require.Error(t, bound.Err())
	require.Zero(t, b.watchers())
}

// P2: the returned deadline is never later than the lease's, wherever the calling goroutine is held up: there
// are more goroutines than processors, so that each is now and then.
func TestDeadlineIsNeverReturnedTooLate(t *testing.T) {
	t.Parallel()
	_, l := begin(t, "key")
	latest := time.Now().Add(life - timers.Allowance(life))
	var users sync.WaitGroup
	for range 8 * runtime.GOMAXPROCS(0) {
		users.Go(func() {
			for range 10_000 {
				if deadline := l.Deadline(); deadline.After(latest) {
					t.Errorf("%v too late", deadline.Sub(latest))
					return
				}
			}
		})
	}
	users.Wait()
}
