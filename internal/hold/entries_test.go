// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
)

func again(t *testing.T, l Lease) Lease {
	t.Helper()
	l, err := l.Reenter()
	require.NoError(t, err)
	return l
}

func TestHoldEndsWithItsLastEntryInAnyOrder(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 3*inlineEntries; n++ {
		for range 20 {
			b, first := begin(t, "key")
			leases := []Lease{first}
			for len(leases) < n {
				leases = append(leases, again(t, leases[rand.IntN(len(leases))]))
			}
			rand.Shuffle(n, func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
			for i, l := range leases {
				released, _ := b.owner.counts()
				require.Zero(t, released, "after %d of %d", i, n)
				require.NoError(t, l.Err())
				require.NoError(t, l.Unlock())
				require.ErrorIs(t, l.Err(), errs.ErrReleased)
			}
			released, lost := b.owner.counts()
			require.Equal(t, 1, released)
			require.Zero(t, lost)
		}
	}
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
	_, ok = b.HandOver(clock.Now())
	require.False(t, ok)
	require.Equal(t, token, b.Token())
}

func TestEntryNumberIsNeverUsedTwice(t *testing.T) {
	t.Parallel()
	_, first := begin(t, "key")
	seen := map[uint64]bool{first.entry: true}
	live := []Lease{first}
	for range 2_000 {
		if len(live) > 1 && rand.IntN(2) == 0 {
			out := 1 + rand.IntN(len(live)-1)
			require.NoError(t, live[out].Unlock())
			live = append(live[:out], live[out+1:]...)
			continue
		}
		l := again(t, first)
		require.False(t, seen[l.entry], "number %d was used before", l.entry)
		seen[l.entry] = true
		live = append(live, l)
	}
}

func TestSlotsOfEndedEntriesAreUsedAgain(t *testing.T) {
	t.Parallel()
	b, first := begin(t, "key")
	for range 1_000 {
		l, m, n := again(t, first), again(t, first), again(t, first)
		require.NoError(t, l.Unlock())
		require.NoError(t, m.Unlock())
		require.NoError(t, n.Unlock())
	}
	require.LessOrEqual(t, cap(b.Hold.mu.rare.slots), 4, "a hold grows with its entries")
}

func TestUnlockReturnsTheResultOfTheRelease(t *testing.T) {
	t.Parallel()
	b, first := begin(t, "key")
	b.owner.released = errors.New("not confirmed")
	second := again(t, first)
	require.NoError(t, second.Unlock(), "another entry is left")
	require.Equal(t, b.owner.released, first.Unlock())
}

func TestHandOverBeginsATenureWithTheNextToken(t *testing.T) {
	t.Parallel()
	b, l := begin(t, "key")
	for token := firstToken; token < lastToken; token++ {
		require.Equal(t, token, b.Token())
		require.NoError(t, l.Unlock())
		next, ok := b.HandOver(clock.Now())
		require.True(t, ok)
		require.Equal(t, token+1, next.Token())
		require.NoError(t, next.Err())
		require.ErrorIs(t, l.Err(), errs.ErrReleased)
		require.Equal(t, errs.ErrNotHeld, l.Unlock())
		l = next
	}
	require.NoError(t, l.Unlock())
	_, ok := b.HandOver(clock.Now())
	require.False(t, ok, "no token is left")
	require.Equal(t, lastToken, b.Token())
	b.Refill(5000, 5001)
	for _, token := range []uint64{5000, 5001} {
		l, ok = b.HandOver(clock.Now())
		require.True(t, ok)
		require.Equal(t, token, l.Token())
		require.NoError(t, l.Unlock())
	}
	_, ok = b.HandOver(clock.Now())
	require.False(t, ok)
}

func TestHoldWithLittleLifeIsNotHandedOver(t *testing.T) {
	t.Parallel()
	b, l := begin(t, "key")
	require.NoError(t, l.Unlock())
	half := b.Term.Deadline().Add(-life / 2)
	_, ok := b.HandOver(half.Add(1))
	require.False(t, ok)
	_, ok = b.HandOver(half)
	require.True(t, ok)
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
