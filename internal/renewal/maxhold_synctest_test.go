// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
)

func TestTheGreatestHoldEndsTermAndKey(t *testing.T) {
	t.Parallel()
	for _, hold := range []time.Duration{
		100 * time.Millisecond, time.Second, life - time.Millisecond, life, life + time.Millisecond, 31 * time.Second,
		40 * time.Second, 100 * time.Second, 10 * time.Minute, 24 * time.Hour,
	} {
		t.Run(hold.String(), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(b *fixture) {
				terms := renewed(life)
				terms.Until = clock.Now().Add(hold)
				until := time.Now().Add(hold)
				o := b.start(terms)
				time.Sleep(hold + time.Second)
				synctest.Wait()
				require.Equal(b, []error{errs.ErrMaxHold}, o.causes())
				require.Equal(b, errs.ErrMaxHold, o.Alive(clock.Now()))
				require.False(b, o.ended.at.After(until), "held for longer")
				require.WithinDuration(b, until, o.ended.at, clock.Allowance(life)+2*time.Millisecond)
				if !o.ended.gone {
					ends := b.server.ends(o)
					require.False(b, ends.Before(o.ended.at))
					require.WithinDuration(b, until, ends, clock.Allowance(life)+2*time.Millisecond, "the key ends just after")
				}
				require.LessOrEqual(b, b.server.requests(), int(hold/(life/3))+4)
			})
		})
	}
}

func TestALeaseThatIsLostBeforeItsGreatestHoldIsLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		terms := renewed(life)
		terms.Until = clock.Now().Add(10 * life)
		o := b.start(terms)
		b.server.set(never)
		time.Sleep(life)
		synctest.Wait()
		require.Equal(b, []error{errs.ErrLost}, o.causes())
	})
}

func TestAFixedLeaseIsNeverRenewed(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		for range 100 {
			b.start(Config{Life: life})
		}
		o := b.start(Config{Life: time.Hour})
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Zero(b, b.server.requests())
		require.Equal(b, []error{errs.ErrLost}, o.causes())
		require.Equal(b, time.Hour-clock.Allowance(time.Hour), o.ended.at.Sub(b.server.ends(o).Add(-time.Hour)).Truncate(2*time.Millisecond))
	})
}

func TestCloseEndsTheBatchesInFlight(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		b.server.set(never)
		o := b.start(renewed(life))
		o.untilRenewing()
		require.Equal(b, 1, b.server.requests())
		before := time.Now()
		b.Keeper.Close()
		require.Equal(b, before, time.Now(), "it waits for no answer")
		time.Sleep(2 * life)
		synctest.Wait()
		require.Equal(b, 1, b.server.requests(), "nothing is renewed after Close")
		require.Equal(b, []error{errs.ErrLost}, o.causes(), "a term ends at its deadline all the same")
	})
}

func TestAKeeperThatKeepsNothingRunsNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(renewed(life))
		require.NoError(b, o.Stop(clock.Now()))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(b, b.server.requests())
	})
}

// A term is fresh for the first half of what the server gave it last, which may be less than a renewal gives.
func TestATermIsFreshForHalfOfWhatItWasGiven(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(renewed(life))
		require.True(b, o.IsFresh(clock.Now()))
		require.True(b, o.IsFresh(clock.Now().Add(life/2-clock.Allowance(life))))
		require.False(b, o.IsFresh(clock.Now().Add(life/2+time.Millisecond)))
		require.True(b, o.Extended(life/10, clock.Now().Add(life)))
		require.True(b, o.IsFresh(clock.Now().Add(life)))
		require.False(b, o.IsFresh(clock.Now().Add(life+life/20+time.Millisecond)))
	})
}
