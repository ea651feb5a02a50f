// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// panics reports what a function panics with, nil if it does not.
func panics(do func()) (what any) {
	defer func() { what = recover() }()
	do()
	return nil
}

// Parts of one piece are released from many goroutines at once, and the sums match.
func TestWeightedPartsAreReleasedAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 64)
	w := sem.Weighted(t.Context())
	w.OnLost(func(err error) { t.Error(err) })
	require.NoError(t, w.Acquire(t.Context(), 40))
	require.NoError(t, w.Acquire(t.Context(), 24))
	var users sync.WaitGroup
	for range 32 {
		users.Go(func() { w.Release(2) })
	}
	users.Wait()
	require.Zero(t, out(t, server))
	require.Equal(t, 64, available(t, sem))
	require.NotNil(t, panics(func() { w.Release(1) }))
}

// A part that is given back goes to who waits for it, in the same step.
func TestAPartThatIsGivenBackGoesToWhoWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 4)
	w := sem.Weighted(t.Context())
	require.NoError(t, w.Acquire(t.Context(), 4))
	here := queue(t.Context(), t, server, sem, 1, 1)
	elsewhere := queue(t.Context(), t, server, semaphore.New(newSession(t, server), "a", 4), 1, 2)
	w.Release(2)
	require.Equal(t, 4, out(t, server))
	require.NoError(t, mustHave(t, here).Unlock())
	require.NoError(t, mustHave(t, elsewhere).Unlock())
	require.Equal(t, 2, out(t, server))
	w.Release(2)
	require.Zero(t, out(t, server))
}

// P5: a split whose answer is lost is repeated, and counts once.
func TestASplitWhoseAnswerIsLostCountsOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.CutAfterRequest, redistest.CutBeforeRequest} {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		sem := semaphore.New(newSession(t, proxy), "a", 5)
		w := sem.Weighted(t.Context())
		w.OnLost(func(err error) { t.Error(err) })
		require.NoError(t, w.Acquire(t.Context(), 5))
		requests(proxy, scripts.SemaphoreSplit)
		struck := proxy.Arm(redistest.Fault{Kind: kind})
		w.Release(3)
		within(t, "the fault", struck.Fired())
		require.Equal(t, 2, out(t, server))
		w.Release(2)
		require.Zero(t, out(t, server))
	}
}

// P2: what was lost is told when it is released, by parts too, and the sums match.
func TestWeightedTellsOfALoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := semaphore.New(newSession(t, server), "a", 5).Weighted(t.Context())
	var told []error
	w.OnLost(func(err error) { told = append(told, err) })
	require.NoError(t, w.Acquire(t.Context(), 5))
	server.MustDo(t, "DEL", permitsKey)
	w.Release(2)
	w.Release(3)
	require.Len(t, told, 2)
	for _, err := range told {
		require.ErrorIs(t, err, signalbox.ErrLost)
	}
	require.NotNil(t, panics(func() { w.Release(1) }))
	require.NoError(t, w.Acquire(t.Context(), 5))
	w.Release(5)
	require.Len(t, told, 2)
}

// P6: Close sends those away that wait for more than there are.
func TestWeightedWaitForMoreThanThereAreEndsWithTheSession(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	w := semaphore.New(s, "a", 2).Weighted(t.Context())
	doomed := make(chan error, 1)
	go func() { doomed <- w.Acquire(t.Context(), 3) }()
	require.NoError(t, w.Acquire(t.Context(), 2))
	w.Release(2)
	require.NoError(t, s.Close(t.Context()))
	require.ErrorIs(t, within(t, "the end of the wait", doomed), signalbox.ErrClosed)
}

// P2: what is kept of a piece does not last longer for having been divided, where its lease is fixed or has a greatest
// length.
func TestAPartThatIsKeptLastsNoLonger(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]signalbox.LockOption{
		"FixedLease": signalbox.FixedLease(time.Hour), "MaxHold": signalbox.MaxHold(10 * time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			sem := semaphore.New(newSession(t, server), "a", 2, option)
			w := sem.Weighted(t.Context())
			ends := func() (until time.Time) {
				for h, err := range sem.Holders(t.Context()) {
					require.NoError(t, err)
					until = h.Until
				}
				return until
			}
			began := time.Now()
			require.NoError(t, w.Acquire(t.Context(), 2))
			took, before := time.Since(began), ends()
			await(t, "a while that is longer than the calls take", func() bool { return time.Since(began) > 2*took+time.Second })
			began = time.Now()
			w.Release(1)
			took += time.Since(began)
			if after := ends(); !after.IsZero() { // on a machine that stood still for long
				require.LessOrEqual(t, after.Sub(before), took+100*time.Millisecond)
			}
			w.Release(1)
		})
	}
}
