// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
)

func join(t *testing.T, l Lease) Lease {
	t.Helper()
	l, ok := l.Join()
	require.True(t, ok)
	return l
}

func TestJoinReturnsALeaseOfItsOwn(t *testing.T) {
	t.Parallel()
	b, first := begin(t, "key")
	second := join(t, first)
	require.Equal(t, first.Token(), second.Token())
	require.NoError(t, first.Unlock())
	third := join(t, first) // the hold counts, not the lease that names it
	require.NoError(t, second.Unlock())
	require.ErrorIs(t, second.Err(), errs.ErrReleased)
	require.NoError(t, third.Err())
	released, _ := b.owner.counts()
	require.Zero(t, released)
	require.NoError(t, third.Unlock())
	released, _ = b.owner.counts()
	require.Equal(t, 1, released)
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

// A goroutine that joins while the last one leaves is in, or the hold is over: never both, never neither.
func TestJoinDuringTheLastUnlockIsAtomic(t *testing.T) {
	t.Parallel()
	for range 300 {
		b, first := begin(t, "key")
		var both sync.WaitGroup
		var joined Lease
		var ok bool
		both.Go(func() { joined, ok = first.Join() })
		both.Go(func() { _ = first.Unlock() })
		both.Wait()
		released, _ := b.owner.counts()
		require.Equal(t, ok, released == 0)
		if ok {
			require.NoError(t, joined.Err())
			require.NoError(t, joined.Unlock())
		}
		released, _ = b.owner.counts()
		require.Equal(t, 1, released)
	}
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

// A hold finds its entries by their slots, however many there are and in whatever order they end, and ends with each
// what hangs on that one alone.
func TestEntriesEndSeparately(t *testing.T) {
	t.Parallel()
	b, first := begin(t, "key")
	type entry struct {
		lease Lease
		done  <-chan struct{}
	}
	live := []entry{{first, first.Done()}}
	var ended []Lease
	for range 3000 {
		if len(live) == 1 || rand.IntN(5) < 3 {
			l := join(t, first)
			live = append(live, entry{l, l.Done()})
			continue
		}
		out := 1 + rand.IntN(len(live)-1)
		gone := live[out]
		live = append(live[:out], live[out+1:]...)
		ended = append(ended, gone.lease)
		require.NoError(t, gone.lease.Unlock())
		require.True(t, isClosed(gone.done))
	}
	require.Equal(t, len(live), b.watchers())
	for _, l := range ended {
		require.ErrorIs(t, l.Err(), errs.ErrReleased)
		require.Equal(t, errs.ErrNotHeld, l.Unlock(), "its place is another's")
		require.True(t, isClosed(l.Done()))
	}
	for _, e := range live {
		require.False(t, isClosed(e.done))
		require.NoError(t, e.lease.Err())
	}
	b.Term.Break(errs.ErrLost, true)
	for _, e := range live {
		require.True(t, isClosed(e.done))
		require.ErrorIs(t, e.lease.Err(), errs.ErrLost)
	}
	require.Zero(t, b.watchers())
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
