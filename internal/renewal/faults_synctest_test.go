// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
)

// The server comes back at 7/8 of the life, and that is soon enough.
func TestARefusedRenewalIsRepeatedWellBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		var terms []*ownedTerm
		for range 300 {
			terms = append(terms, f.start(renewed(life)))
		}
		back := time.Now().Add(life * 7 / 8)
		f.server.set(func(int) fault {
			if time.Now().Before(back) {
				return fault{refusal: "LOADING the data"}
			}
			return fault{}
		})
		time.Sleep(2 * life)
		synctest.Wait()
		for _, o := range terms {
			require.Empty(f, o.causes())
		}
	})
}

func TestTheTriesOfOneRenewalAreAsManyAsTheyShouldBe(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		f.server.set(func(int) fault { return fault{refusal: "LOADING the data"} })
		o := f.start(renewed(life))
		time.Sleep(life)
		synctest.Wait()
		require.Equal(f, []error{errs.ErrLost}, o.causes())
		require.GreaterOrEqual(f, f.server.requests(), 7)
		require.LessOrEqual(f, f.server.requests(), 12)
	})
}

// P2, in every case: OnTermEnd itself compares the key's end with the time.
func TestAFrozenServerEndsEveryTermBeforeItsKey(t *testing.T) {
	t.Parallel()
	for name, frozen := range map[string]fault{
		"NothingArrives":   {lost: true},
		"NothingHasAReply": {silent: true},
		"Refused":          {refusal: "BUSY somebody's script"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				var terms []*ownedTerm
				for _, life := range []time.Duration{
					100 * time.Millisecond, 101 * time.Millisecond, 333 * time.Millisecond, time.Second, 7 * time.Second, life, time.Hour, 24 * time.Hour,
				} {
					for range 25 {
						terms = append(terms, f.start(renewed(life)))
						time.Sleep(rand.N(3 * time.Millisecond))
					}
				}
				time.Sleep(2 * time.Second)
				f.server.set(func(int) fault { return frozen })
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				for _, o := range terms {
					require.Len(f, o.causes(), 1)
					require.Equal(f, errs.ErrLost, o.Alive(clock.Now()))
				}
			})
		})
	}
}

// The same, of a server that is slow beyond all patience and now and then in time.
func TestALateServerEndsNoKeyBeforeItsTerm(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
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

func TestAReplyAfterTheDeadlineRevivesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		f.server.set(func(int) fault { return fault{after: life, stuck: true} })
		o := f.start(renewed(life))
		f.server.extend(o, 2*life) // so that the reply is "alive"
		deadline := o.Deadline()
		time.Sleep(3 * life)
		synctest.Wait()
		require.Equal(f, []error{errs.ErrLost}, o.causes())
		require.Equal(f, deadline, o.Deadline())
		require.Equal(f, errs.ErrLost, o.Alive(clock.Now()))
		require.Equal(f, 1, f.server.requests())
	})
}

// A process that was stopped finds the reply and the deadline at the same time. The clock wins.
func TestAReplyFoundAfterAPauseRevivesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		o := f.start(renewed(life))
		f.server.extend(o, 2*life) // it was executed late
		f.timers.Close()           // nothing fires
		time.Sleep(life)
		require.False(f, o.Extended(life, clock.Now().Add(-life/2)))
		require.Empty(f, o.causes(), "the next check reports it")
		require.Equal(f, errs.ErrLost, o.Alive(clock.Now()))
		require.Equal(f, []error{errs.ErrLost}, o.causes())
	})
}

func TestTheFirstCheckAfterAPauseReportsTheLoss(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(o *ownedTerm, now clock.Instant) error{
		"Alive": func(o *ownedTerm, now clock.Instant) error { return o.Alive(now) },
		"Stop":  func(o *ownedTerm, now clock.Instant) error { return o.Stop(now) },
	} {
		for clocks, jump := range map[string]struct{ mono, wall time.Duration }{
			"ProcessStopped": {life, life},
			"HostSuspended":  {time.Second, life},
			"WallSetBack":    {life, -time.Hour},
		} {
			t.Run(name+"/"+clocks, func(t *testing.T) {
				t.Parallel()
				bubble(t, func(f *fixture) {
					o := f.start(renewed(life))
					now := clock.Now()
					require.NoError(f, o.Alive(clock.At(now.Mono()+time.Second, now.Time().Add(time.Second))))
					later := clock.At(now.Mono()+jump.mono, now.Time().Add(jump.wall))
					require.True(f, o.Overdue(later))
					require.Equal(f, errs.ErrLost, check(o, later))
					require.Equal(f, []error{errs.ErrLost}, o.causes())
				})
			})
		}
	}
}

// A change of the wall clock, forward and back again, must not shorten a key under its holder: a renewal that
// one clock trims is not sent if the other clock knows better.
func TestARenewalNeverShortensALife(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		terms := renewed(life)
		start := clock.Now()
		terms.Until = start.Add(35 * time.Second)
		o := f.start(terms)
		o.mu.state = renewing
		now := clock.At(start.Mono()+10*time.Second, start.Time().Add(20*time.Second))
		if r, wanted := o.nextRequest(now); wanted {
			ends := start.Mono() + 10*time.Second + r.life
			require.GreaterOrEqual(f, ends, o.Deadline().Mono(), "the key would end before the term")
		}
	})
}
