// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// composite is a hold made of two others, and its owner.
type composite struct {
	Hold

	owner ownerRecorder
	parts [2]*fixture
	lease Lease
}

func beginComposite(tb testing.TB) *composite {
	tb.Helper()
	w := new(composite)
	leases := make([]Lease, len(w.parts))
	for i := range w.parts {
		w.parts[i], leases[i] = begin(tb, string(rune('a'+i)))
	}
	w.lease = w.BeginComposite(&w.owner, w.parts[0].keeper, leases, lastToken)
	for _, l := range leases {
		l.OnEnd(func(cause error) { w.Term.Break(cause, false) })
	}
	return w
}

// P2: the clock check reaches the parts, though no timer has reported yet that one is over.
func TestCompositeChecksTheClocksOfItsParts(t *testing.T) {
	t.Parallel()
	w := beginComposite(t)
	w.parts[1].Term.Init(&w.parts[1].Hold, &Config{Keeper: w.parts[1].keeper, Life: life}, life, timers.Now().Add(-life))
	require.False(t, w.lease.Deadline().After(time.Now()))
	require.ErrorIs(t, w.lease.Err(), errs.ErrLost)
	_, lost := w.owner.counts()
	require.Equal(t, 1, lost)
}

func TestContextCarriesThePartsOfAHold(t *testing.T) {
	t.Parallel()
	w := beginComposite(t)
	ctx := w.lease.Enter(t.Context())
	for i, key := range []string{"a", "b"} {
		part, carried := Carried(ctx, &testScope, key)
		require.True(t, carried)
		further := again(t, part)
		require.NoError(t, further.Unlock())
		require.Equal(t, &w.parts[i].owner, further.Owner())
	}
	_, carried := Carried(ctx, &testScope, "c")
	require.False(t, carried)
	require.NoError(t, w.lease.Unlock())
	ended, carried := Carried(ctx, &testScope, "a")
	require.True(t, carried, "what has ended is no reason to take it anew")
	_, err := ended.Reenter()
	require.ErrorIs(t, err, errs.ErrReleased, "though the part lives")
}

func TestLeaveReturnsTheOwnerToNotify(t *testing.T) {
	t.Parallel()
	b, first := begin(t, "key")
	second := again(t, first)
	causes := make(chan error, 1)
	first.OnEnd(func(cause error) { causes <- cause })
	left, err := first.Leave()
	require.NoError(t, err)
	require.Nil(t, left, "there is another")
	require.ErrorIs(t, <-causes, errs.ErrReleased)
	left, err = second.Leave()
	require.NoError(t, err)
	require.Equal(t, &b.owner, left)
	left, err = second.Leave()
	require.ErrorIs(t, err, errs.ErrNotHeld)
	require.Nil(t, left)
	released, lost := b.owner.counts()
	require.Zero(t, released+lost)
	second.OnEnd(func(cause error) { causes <- cause })
	require.ErrorIs(t, <-causes, errs.ErrReleased, "at once")
}

func TestCompositeEndsWithItsFirstPart(t *testing.T) {
	t.Parallel()
	for i := range 2 {
		w := beginComposite(t)
		require.NoError(t, w.lease.Err())
		require.Equal(t, lastToken, w.lease.Token())
		done, cause := w.lease.Done(), errors.New("a cause")
		require.False(t, isClosed(done))
		w.parts[i].Term.Break(cause, true)
		require.True(t, isClosed(done))
		require.ErrorIs(t, w.lease.Err(), cause)
		require.ErrorIs(t, w.lease.Unlock(), cause)
		released, lost := w.owner.counts()
		require.Zero(t, released)
		require.Equal(t, 1, lost)
		require.NoError(t, w.parts[1-i].owner.released)
	}
}
