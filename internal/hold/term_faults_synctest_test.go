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

// A process that was stopped finds the reply and the deadline at the same time. The clock wins.
func TestAReplyFoundAfterAPauseRevivesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		f.server.extend(o, 2*life) // it was executed late
		f.timers.Close()           // nothing fires
		time.Sleep(life)
		require.False(f, o.Extended(life, timers.Now().Add(-life/2)))
		require.Empty(f, o.causes(), "the next check reports it")
		require.Equal(f, errs.ErrLost, o.Alive(timers.Now()))
		require.Equal(f, []error{errs.ErrLost}, o.causes())
	})
}

// A change of the wall clock, forward and back again, must not shorten a key under its holder: a renewal that
// one clock trims is not sent if the other clock knows better.
func TestARenewalNeverShortensALife(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		terms := renewed(life)
		start := timers.Now()
		terms.Until = start.Add(35 * time.Second)
		o := f.start(terms)
		o.mu.state = renewing
		now := timers.At(start.Mono()+10*time.Second, start.Time().Add(20*time.Second))
		if r, wanted := o.nextRequest(now); wanted {
			ends := start.Mono() + 10*time.Second + r.life
			require.GreaterOrEqual(f, ends, o.Deadline().Mono(), "the key would end before the term")
		}
	})
}

// A grant gives less than the lease, which the first renewal gives then. It has to come before what
// was given is over, not within what is requested.
func TestATermWithAShortLeaseOutlivesLostReplies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		times int
		fault
	}{
		"Refused": {6, fault{refusal: "LOADING the data"}},
		"Lost":    {1, fault{lost: true}}, // which lasts as long as a reply is waited for
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const given = 2 * time.Second
			for range 20 { // the first renewal comes at random
				bubble(t, func(f *termFixture) {
					o := f.startGiven(renewed(life), given)
					f.server.set(func(request int) fault {
						if request > c.times {
							return fault{}
						}
						return c.fault
					})
					time.Sleep(3 * life)
					synctest.Wait()
					require.NoError(f, o.Alive(timers.Now()))
				})
			}
		})
	}
}

// startedBefore begins a term just before the wall clock is set by step.
func (f *termFixture) startedBefore(step time.Duration, terms Config) *ownedTerm {
	now := timers.Now()
	before := timers.At(now.Mono(), now.Time().Add(-step))
	if !terms.Until.IsZero() {
		terms.Until = before.Add(terms.Until.Mono() - now.Mono())
	}
	o := f.makeWith(terms, terms.Life)
	o.Init(o, o.Config(), terms.Life, before)
	o.Start(before)
	return o
}

// P2: a term that has an end keeps it, whatever the wall clock says.
func TestAnEndIsKeptWhenTheWallClockIsSetBack(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{life / 2, 10 * life} {
		bubble(t, func(f *termFixture) {
			terms := renewed(life)
			terms.Until = timers.Now().Add(3 * life)
			o := f.startedBefore(-back, terms)
			time.Sleep(3*life - 2*timers.Allowance(life))
			require.NoError(f, o.Alive(timers.Now()))
			time.Sleep(2 * timers.Allowance(life))
			require.ErrorIs(f, o.Alive(timers.Now()), errs.ErrMaxHold)
		})
	}
}

// P2: a term ends early by a wall clock that was set forward, and is renewed if it was not set by a
// life.
func TestATermEndsByAWallClockSetForward(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.startedBefore(life, renewed(life))
		require.ErrorIs(f, o.Alive(timers.Now()), errs.ErrLost)
		o = f.startedBefore(life/2, renewed(life))
		time.Sleep(10 * life)
		require.NoError(f, o.Alive(timers.Now()))
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

// A renewal that is refused is tried again while anything is left: also if the pause between two tries is longer than that.
func TestAServerThatReturnsInTheLastTwelfthFindsTheTerm(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		time.Sleep(2 * life)
		f.server.set(func(int) fault { return fault{refusal: "LOADING the data"} })
		time.Sleep(o.Deadline().Until(timers.Now()) - life/60)
		refused := f.server.requests()
		f.server.set(nil)
		time.Sleep(2 * life)
		synctest.Wait()
		require.NoError(f, o.Alive(timers.Now()))
		require.Less(f, refused, 20, "the tries come too often")
	})
}
