// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// permits uses a semaphore in every way there is.
func (s *servers) permits(t *testing.T, user string) {
	t.Helper()
	const name = "permits"
	one, other := locktest.Session(t, s.as(user), whole()), locktest.Session(t, s.as(user))
	sem := semaphore.New(one, name, 3, signalbox.WithRenewedLease(6*time.Second))
	elsewhere := semaphore.New(other, name, 3)
	held, err := sem.TryAcquire(t.Context(), 2)
	require.NoError(t, err)
	first := held.Deadline()
	waits := make(chan error, 1)
	go func() {
		lease, err := elsewhere.Acquire(locktest.Context(t), 3)
		if err == nil {
			err = lease.Unlock()
		}
		waits <- err
	}()
	redistest.Await(t, "a renewal, with a waiter in the queue", func() bool {
		_, err := sem.TryAcquire(t.Context(), 2)
		require.ErrorIs(t, err, signalbox.ErrHeld)
		return held.Deadline().After(first.Add(time.Second))
	})
	n, err := sem.Available(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for _, err := range elsewhere.Holders(t.Context()) {
		require.NoError(t, err)
	}
	require.NoError(t, held.Unlock())
	require.NoError(t, <-waits)
	require.NoError(t, elsewhere.SetCapacity(t.Context(), 4))
	w := sem.Weighted(t.Context())
	w.OnLost(func(err error) { t.Error(err) })
	require.NoError(t, w.Acquire(t.Context(), 4))
	w.Release(1)
	w.Release(3)
}

// latch does all that a latch can.
func (s *servers) latch(t *testing.T, user string) {
	t.Helper()
	const name = "{a} latch"
	ctx, one, other := locktest.Context(t), locktest.Session(t, s.as(user)), locktest.Session(t, s.as(user))
	mine, theirs := countdown.New(one, name), countdown.New(other, name)
	round, err := mine.Start(ctx, 2)
	require.NoError(t, err)
	joined, err := theirs.Round(ctx)
	require.NoError(t, err)
	waited := locktest.Later(func() (countdown.Round, error) { return joined, joined.Wait(ctx) })
	redistest.Await(t, "a waiter", func() bool { return locktest.Channels(other) > 0 })
	_, err = joined.Count(ctx)
	require.NoError(t, err)
	for _, id := range []string{"x", "y"} {
		_, err = round.CountDown(ctx, id)
		require.NoError(t, err)
	}
	locktest.MustHave(t, waited)
	_, err = mine.Start(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, mine.Reset(ctx))
}
