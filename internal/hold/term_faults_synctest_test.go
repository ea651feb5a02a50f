// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// The same, of a server that is slow beyond all patience and now and then in time.
func TestALateServerEndsNoKeyBeforeItsTerm(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		for _, life := range []time.Duration{100 * time.Millisecond, 333 * time.Millisecond, time.Second, 7 * time.Second} {
			for range 20 {
				f.start(renewed(life))
				time.Sleep(rand.N(3 * time.Millisecond))
			}
		}
		f.server.set(func(int) fault {
			late := fault{after: rand.N(time.Second)}
			switch rand.IntN(3) {
			case 0:
				late.stuck = true
			case 1:
				late.silent = true
			}
			return late
		})
		time.Sleep(time.Minute)
		synctest.Wait()
	})
}

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
