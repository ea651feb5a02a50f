// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
)

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
