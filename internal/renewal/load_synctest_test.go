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

func TestTenHoursLoseNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		const hours = 10 * time.Hour
		var terms []*ownedTerm
		renewals, requests := 0, 0 // at most
		for life, n := range map[time.Duration]int{
			life: 2, 2 * time.Minute: 8, 10 * time.Minute: 90, time.Hour: 150, 24 * time.Hour: 50,
		} {
			for range n {
				terms = append(terms, b.start(renewed(life)))
			}
			third := life/3 - life/3/50 - time.Millisecond // rounded down
			renewals += n * int(hours/third+1)
			requests += min(n, 51) * int(hours/third+1)
		}
		require.Len(b, terms, 300)
		time.Sleep(hours)
		synctest.Wait()
		for _, o := range terms {
			require.NoError(b, o.Alive(clock.Now()))
			require.Empty(b, o.causes())
			require.Less(b, time.Until(o.Deadline().Time()), time.Until(b.server.ends(o)))
		}
		require.LessOrEqual(b, b.server.mu.renewed, renewals)
		require.LessOrEqual(b, b.server.mu.requests, requests)
	})
}

// A thousand locks are renewed by some forty requests a third of their life.
func TestLocksOfOneLifeAreRenewedTogether(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		for range 1_000 {
			b.start(renewed(life))
			time.Sleep(7 * time.Millisecond)
		}
		time.Sleep(life)
		synctest.Wait()
		before := b.server.requests()
		time.Sleep(life / 3)
		synctest.Wait()
		require.LessOrEqual(b, b.server.requests()-before, 55)
	})
}

func TestLocksTakenAtOnceAreNotRenewedAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		const n, share = 10_000, 20 // no tick renews more than one in so many
		for range n {
			b.start(renewed(life))
		}
		time.Sleep(3 * life / 3)
		synctest.Wait()
		require.Greater(b, b.server.mu.renewed, 2*n)
		for tick, renewals := range b.server.mu.ticks {
			require.LessOrEqual(b, renewals, n/share, "in the millisecond %v", tick)
		}
		require.LessOrEqual(b, b.server.mu.largest, maxKeys)
	})
}

func TestABatchTakesAsManyScriptsAsItNeeds(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		const n = 2*maxKeys + 1
		terms := make([]*Term, n)
		for i := range terms {
			terms[i] = &b.start(renewed(life)).Term
		}
		time.Sleep(life / 15) // before the first is due
		for _, term := range terms {
			term.mu.state = renewing
		}
		b.renewAll(terms)
		synctest.Wait()
		require.Equal(b, 3, b.server.mu.requests)
		require.Equal(b, n, b.server.mu.renewed)
		require.Equal(b, maxKeys, b.server.mu.largest)
		for _, term := range terms {
			require.Equal(b, idle, term.mu.state)
		}
	})
}

func TestOneBadKeySpoilsNoBatch(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		var terms []*ownedTerm
		for range 100 {
			terms = append(terms, b.start(renewed(life)))
		}
		for i, o := range terms {
			switch i % 10 {
			case 3:
				b.server.steal(o, "") // of the wrong type
			case 7:
				b.server.extend(o, 0)
			}
		}
		time.Sleep(10 * life)
		synctest.Wait()
		for i, o := range terms {
			if i%10 == 3 || i%10 == 7 {
				require.Equal(b, []error{errs.ErrLost}, o.causes())
				require.True(b, o.ended.gone)
				continue
			}
			require.Empty(b, o.causes())
			require.NoError(b, o.Alive(clock.Now()))
		}
	})
}

// Young holds are renewed in batches, too, between a sixth and a third of what they were given, and spread anew by that.
func TestYoungLocksAreRenewedTogetherAndSpread(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		const n, share, first = 10_000, 20, 3 * time.Second
		for range n {
			b.startGiven(renewed(life), first)
		}
		time.Sleep(first/6 - first/150 - time.Millisecond) // rounded down
		require.Zero(b, b.server.renewals())
		time.Sleep(first/6 + first/150 + 4*time.Millisecond)
		synctest.Wait()
		require.Equal(b, n, b.server.renewals(), "once each")
		require.LessOrEqual(b, b.server.requests(), 2*n/maxKeys)
		time.Sleep(life / 3)
		synctest.Wait()
		require.Equal(b, 2*n, b.server.renewals(), "and once more in a third of the lease")
		require.LessOrEqual(b, b.server.requests(), 4*n/maxKeys)
		for tick, renewals := range b.server.mu.ticks {
			require.LessOrEqual(b, renewals, n/share, "in the millisecond %v", tick)
		}
	})
}

// P7: a term that was given less than its life can be renewed at once; one that has its life is not.
func TestHastenRenewsAShortTermAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		short, whole := b.startGiven(renewed(life), life/10), b.start(renewed(life))
		short.Hasten(life)
		whole.Hasten(life)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(b, 1, b.server.requests())
		left, given := short.Life(clock.Now())
		require.Equal(b, life, given)
		require.Greater(b, left, life-clock.Allowance(life)-20*time.Millisecond)
		short.Hasten(life)
		require.NoError(b, short.Stop(clock.Now()))
		short.Hasten(2 * life)
		time.Sleep(10 * time.Millisecond)
		require.Equal(b, 1, b.server.requests())
	})
}
