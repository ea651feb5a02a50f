// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

func again(t *testing.T, l Lease) Lease {
	t.Helper()
	l, err := l.Reenter()
	require.NoError(t, err)
	return l
}

// No number is used twice: a hold that has used up all of them is no longer entered or handed over.
func TestHoldEnteredTooOftenIsReleased(t *testing.T) {
	t.Parallel()
	b, first := begin(t, "key")
	b.mu.serial = maxSerial - 1
	last := again(t, first)
	require.NoError(t, last.Err())
	_, err := last.Reenter()
	require.ErrorIs(t, err, errs.ErrHeld)
	_, ok := last.Join()
	require.False(t, ok)
	require.NoError(t, first.Unlock())
	require.NoError(t, last.Unlock())
	token := b.Token()
	_, ok = b.HandOver(timers.Now())
	require.False(t, ok)
	require.Equal(t, token, b.Token())
}

func TestHandOverBeginsATenureWithTheNextToken(t *testing.T) {
	t.Parallel()
	b, l := begin(t, "key")
	for token := firstToken; token < lastToken; token++ {
		require.Equal(t, token, b.Token())
		require.NoError(t, l.Unlock())
		next, ok := b.HandOver(timers.Now())
		require.True(t, ok)
		require.Equal(t, token+1, next.Token())
		require.NoError(t, next.Err())
		require.ErrorIs(t, l.Err(), errs.ErrReleased)
		require.Equal(t, errs.ErrNotHeld, l.Unlock())
		l = next
	}
	require.NoError(t, l.Unlock())
	_, ok := b.HandOver(timers.Now())
	require.False(t, ok, "no token is left")
	require.Equal(t, lastToken, b.Token())
	b.Refill(5000, 5001)
	for _, token := range []uint64{5000, 5001} {
		l, ok = b.HandOver(timers.Now())
		require.True(t, ok)
		require.Equal(t, token, l.Token())
		require.NoError(t, l.Unlock())
	}
	_, ok = b.HandOver(timers.Now())
	require.False(t, ok)
}

func TestEnteringAgainAllocatesNothing(t *testing.T) {
	_, first := begin(t, "key")
	second := again(t, first) // the inline slots are full now
	warm := again(t, first)
	require.NoError(t, warm.Unlock())
	require.Zero(t, testing.AllocsPerRun(1_000, func() {
		l, err := first.Reenter()
		if err != nil || l.Err() != nil || l.Unlock() != nil {
			t.Fail()
		}
	}))
	require.NoError(t, second.Unlock())
}

func join(t *testing.T, l Lease) Lease {
	t.Helper()
	l, ok := l.Join()
	require.True(t, ok)
	return l
}

func TestJoin_HoldOver_ReturnsFalse(t *testing.T) {
	t.Parallel()
	_, ok := Lease{}.Join()
	require.False(t, ok)

	b, released := begin(t, "key")
	b.owner.onEnd(func() {
		_, ok := released.Join()
		require.False(t, ok, "while it is given back")
	})
	require.NoError(t, released.Unlock())
	_, ok = released.Join()
	require.False(t, ok)

	b, lost := begin(t, "key")
	b.Term.Break(errs.ErrLost, true)
	_, ok = lost.Join()
	require.False(t, ok)
}

func TestMovedHoldCountsInItsNewScopeOnly(t *testing.T) {
	t.Parallel()
	other := Scope{Kind: "test"}
	b, first := begin(t, "key")
	again := again(t, first)
	ctx := first.Enter(t.Context())
	for _, l := range []Lease{first, again} {
		term, is := l.TermFor(&testScope, "key")
		require.True(t, is)
		require.Same(t, &b.Term, term)
		_, is = l.TermFor(&testScope, "another key")
		require.False(t, is)
		_, is = l.TermFor(&other, "key")
		require.False(t, is)
	}
	first.SetScope(&other)
	for _, l := range []Lease{first, again} {
		_, is := l.TermFor(&testScope, "key")
		require.False(t, is)
		_, is = l.TermFor(&other, "key")
		require.True(t, is)
	}
	_, carried := Carried(ctx, &testScope, "key")
	require.False(t, carried)
	_, carried = Carried(ctx, &other, "key")
	require.True(t, carried)
	_, is := Lease{}.TermFor(&testScope, "key")
	require.False(t, is)
}

// An entry whose slot the hold does not have is not live.
func TestEntryWithoutASlotIsNotLive(t *testing.T) {
	t.Parallel()
	b, first := begin(t, "key")
	for _, slot := range []uint64{inlineEntries - 1, inlineEntries, inlineEntries + 1, maxSlots - 1} {
		stray := Lease{hold: &b.Hold, entry: 1<<slotBits | slot}
		require.Equal(t, errs.ErrNotHeld, stray.Unlock())
	}
	for range 2 * inlineEntries {
		_ = join(t, first)
	}
	stray := Lease{hold: &b.Hold, entry: 1<<slotBits | (3*inlineEntries + 7)}
	require.ErrorIs(t, stray.Err(), errs.ErrReleased)
}
