// SPDX-License-Identifier: Apache-2.0

package once_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
)

// P2, P3: a run whose claim was taken away stores nothing over the next one, and gets what that stored.
func TestALateRunGetsTheOutcomeOfTheNext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := session(t, server), session(t, server)
	late := newGate("late")
	running := later(t.Context(), once.New(s, "a"), late.run)
	lost := <-late.begun
	require.NoError(t, fair.New(other, "a").ForceUnlock(t.Context()))
	next := newGate("next")
	second := later(t.Context(), once.New(other, "a"), next.run)
	lease := <-next.begun
	require.Greater(t, lease.Token(), lost.Token())
	close(next.open)
	requireRan(t, "next", receive(t, second))
	close(late.open)
	r := receive(t, running)
	require.ErrorIs(t, r.err, signalbox.ErrStale)
	require.ErrorIs(t, r.err, signalbox.ErrLost)
	require.Equal(t, "next", r.value)
	require.True(t, r.ran)
	requireStored(t, "next", do(t.Context(), once.New(s, "a"), never(t)))
}

// P3: while the next run is under way, or has failed, a late run stores nothing either.
func TestALateRunStoresNothingUnderAnotherClaim(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := session(t, server), session(t, server)
	late := newGate("late")
	running := later(t.Context(), once.New(s, "a"), late.run)
	<-late.begun
	require.NoError(t, fair.New(other, "a").ForceUnlock(t.Context()))
	next := newGate("next")
	second := later(t.Context(), once.New(other, "a"), next.run)
	<-next.begun
	close(late.open)
	r := receive(t, running)
	require.ErrorIs(t, r.err, signalbox.ErrStale)
	require.True(t, r.isNil)
	close(next.open)
	requireRan(t, "next", receive(t, second))
}

// A caller that holds the lock of the key under another object keeps functions from running; the lease
// that its context carries is not entered.
func TestTheClaimIsTheFairLockOfTheName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := session(t, server)
	lease := locktest.Must(t, fair.New(s, "a").Lock)
	ctx, cancel := context.WithCancel(lease.Enter(t.Context()))
	entering := later(ctx, once.New(s, "a"), never(t))
	awaitTickets(t, server, 1)
	cancel()
	require.ErrorIs(t, receive(t, entering).err, context.Canceled)
	awaitTickets(t, server, 0)
	waiting := later(t.Context(), once.New(s, "a"), returns("x"))
	awaitTickets(t, server, 1)
	require.NoError(t, lease.Unlock())
	requireRan(t, "x", receive(t, waiting))
}

// A function that calls Do for its own key would wait for itself; for another key it may.
func TestDoInItsOwnFunctionIsHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := session(t, server)
	r := do(t.Context(), once.New(s, "a"), func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
		value, ran, err := once.New(s, "b").Do(ctx, func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
			for _, name := range []string{"a", "b"} {
				require.ErrorIs(t, do(ctx, once.New(s, name), never(t)).err, signalbox.ErrHeld)
			}
			return []byte("b"), nil
		})
		require.True(t, ran)
		return value, err
	})
	requireRan(t, "b", r)
}

// P8: a run that has released its claim stores nothing.
func TestARunWithoutAClaimStoresNothing(t *testing.T) {
	t.Parallel()
	o := once.New(session(t, redistest.Start(t)), "a")
	r := do(t.Context(), o, func(_ context.Context, lease signalbox.Lease) ([]byte, error) { return []byte("x"), lease.Unlock() })
	require.ErrorIs(t, r.err, signalbox.ErrStale)
	require.True(t, r.isNil)
	_, stored, err := o.Get(t.Context())
	require.NoError(t, err)
	require.False(t, stored)
}
