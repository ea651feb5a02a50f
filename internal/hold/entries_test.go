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

// wantedOwner is a primitive that learns of waiters.
type wantedOwner struct{ ownerRecorder }

// LearnsOfWaiters implements WantedOwner.
func (*wantedOwner) LearnsOfWaiters() bool { return true }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// P2: what a hold has learned stays so in its later turns, whether the channel was asked for before or after.
func TestWantedStaysInLaterTurns(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		f, lease := begin(t, "a")
		f.Hold.owner = &wantedOwner{}
		if before {
			require.False(t, closed(lease.Wanted()))
		}
		f.SetWanted()
		f.SetWanted()
		require.True(t, closed(lease.Wanted()))
		require.NoError(t, lease.Unlock())
		next, ok := f.HandOver(timers.Now())
		require.True(t, ok)
		require.Equal(t, lease.Wanted(), next.Wanted())
		require.True(t, closed(next.Wanted()))
	}
}

// P2: a hold whose owner does not learn of waiters has no channel; nor has the zero Lease.
func TestWantedIsNilWithoutTheOption(t *testing.T) {
	t.Parallel()
	_, lease := begin(t, "a")
	require.Nil(t, lease.Wanted())
	require.Nil(t, Lease{}.Wanted())
}

// P4: an outer hold forgets the composite holds that were made of it when they have ended.
func TestOuterHoldForgetsCompositeHolds(t *testing.T) {
	t.Parallel()
	f, outer := begin(t, "a")
	f.Hold.owner = &wantedOwner{}
	for range 10 {
		inner, err := outer.Reenter()
		require.NoError(t, err)
		whole := new(fixture)
		lease := whole.BeginComposite(&whole.owner, f.keeper, []Lease{inner}, lastToken)
		require.False(t, closed(lease.Wanted()))
		require.NoError(t, whole.Term.Stop(timers.Now()))
	}
	require.LessOrEqual(t, len(f.mu.rare.wanted.composites), 1)
}
