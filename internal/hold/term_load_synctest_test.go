// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// A thousand locks are renewed by some forty requests a third of their life.
func TestLocksOfOneLifeAreRenewedTogether(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		for range 1_000 {
			f.start(renewed(life))
			time.Sleep(7 * time.Millisecond)
		}
		time.Sleep(life)
		synctest.Wait()
		before := f.server.requests()
		time.Sleep(life / 3)
		synctest.Wait()
		require.LessOrEqual(f, f.server.requests()-before, 55)
	})
}

func TestABatchTakesAsManyScriptsAsItNeeds(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		const n = 2*maxKeys + 1
		terms := make([]*Term, n)
		for i := range terms {
			terms[i] = &f.start(renewed(life)).Term
		}
		time.Sleep(life / 15) // before the first is due
		for _, term := range terms {
			term.mu.state = renewing
		}
		f.renewAll(terms)
		synctest.Wait()
		require.Equal(f, 3, f.server.mu.requests)
		require.Equal(f, n, f.server.mu.renewed)
		require.Equal(f, maxKeys, f.server.mu.largest)
		for _, term := range terms {
			require.Equal(f, idle, term.mu.state)
		}
	})
}

func TestOneBadKeySpoilsNoBatch(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		var terms []*ownedTerm
		for range 100 {
			terms = append(terms, f.start(renewed(life)))
		}
		for i, o := range terms {
			switch i % 10 {
			case 3:
				f.server.steal(o, "") // of the wrong type
			case 7:
				f.server.extend(o, 0)
			}
		}
		time.Sleep(10 * life)
		synctest.Wait()
		for i, o := range terms {
			if i%10 == 3 || i%10 == 7 {
				require.Equal(f, []error{errs.ErrLost}, o.causes())
				require.True(f, o.ended.gone)
				continue
			}
			require.Empty(f, o.causes())
			require.NoError(f, o.Alive(timers.Now()))
		}
	})
}

// Young holds are renewed in batches, too, between a sixth and a third of what they were given, and spread anew by that.
func TestYoungLocksAreRenewedTogetherAndSpread(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		const n, share, first = 10_000, 20, 3 * time.Second
		for range n {
			f.startGiven(renewed(life), first)
		}
		time.Sleep(first/6 - first/150 - time.Millisecond) // rounded down
		require.Zero(f, f.server.renewals())
		time.Sleep(first/6 + first/150 + 4*time.Millisecond)
		synctest.Wait()
		require.Equal(f, n, f.server.renewals(), "once each")
		require.LessOrEqual(f, f.server.requests(), 2*n/maxKeys)
		time.Sleep(life / 3)
		synctest.Wait()
		require.Equal(f, 2*n, f.server.renewals(), "and once more in a third of the lease")
		require.LessOrEqual(f, f.server.requests(), 4*n/maxKeys)
		for tick, renewals := range f.server.mu.ticks {
			require.LessOrEqual(f, renewals, n/share, "in the millisecond %v", tick)
		}
	})
}

// P7: a term that was given less than its life can be renewed at once; one that has its life is not.
func TestHastenRenewsAShortTermAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		short, whole := f.startGiven(renewed(life), life/10), f.start(renewed(life))
		short.Hasten(life)
		whole.Hasten(life)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(f, 1, f.server.requests())
		left, given := short.Life(timers.Now())
		require.Equal(f, life, given)
		require.Greater(f, left, life-timers.Allowance(life)-20*time.Millisecond)
		short.Hasten(life)
		require.NoError(f, short.Stop(timers.Now()))
		short.Hasten(2 * life)
		time.Sleep(10 * time.Millisecond)
		require.Equal(f, 1, f.server.requests())
	})
}
