// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// never loses every request.
func never(int) fault { return fault{lost: true} }

// One test for each edge of the package doc.

// The timers may fire just as another goroutine schedules the term anew, or ends it.
func TestATermThatFiresTooEarlyOrTooLateDoesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		o.Fire()
		synctest.Wait()
		require.Equal(f, idle, o.currentState())
		require.Zero(f, f.server.requests())
		time.Sleep(life/2 - time.Second)
		synctest.Wait()
		require.Equal(f, 1, f.server.requests(), "it is renewed when that is due")
		require.NoError(f, o.Stop(timers.Now()))
		o.Fire()
		time.Sleep(life)
		synctest.Wait()
		require.Equal(f, 1, f.server.requests())
		require.Empty(f, o.causes())
	})
}

func TestARenewalThatFailedIsRepeatedAfterATwelfthOfTheLife(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first fault
		waits time.Duration // the time until the reply
	}{
		"Refused":   {fault{refusal: "LOADING the data"}, 0},
		"NotSaid":   {fault{mute: true}, 0},
		"Cut":       {fault{cut: true}, 0},
		"Lost":      {fault{lost: true}, maxPatience},
		"ReplyLost": {fault{silent: true}, maxPatience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *termFixture) {
				o := f.start(renewed(life))
				f.server.set(func(n int) fault {
					if n == 1 {
						return c.first
					}
					return fault{}
				})
				time.Sleep(life/3 + c.waits + life/12 + 10*time.Millisecond)
				synctest.Wait()
				require.Equal(f, 2, f.server.requests())
				between := f.server.mu.at[1].Sub(f.server.mu.at[0])
				require.InDelta(f, c.waits+life/12, between, float64(5*time.Millisecond))
				require.Equal(f, idle, o.currentState())
				require.Empty(f, o.causes())
			})
		})
	}
}

// A grant that was handed over was paid for by a request that was sent up to a second before.
func TestATermOfAnOldGrantIsRenewedAndEndsInTime(t *testing.T) {
	t.Parallel()
	const age = life / 3
	for name, config := range map[string]Config{"Renewed": renewed(life), "Fixed": {Life: life}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *termFixture) {
				o := f.make(config)
				sent := timers.Now()
				time.Sleep(age)
				o.Start(sent)
				if config.Renewed {
					time.Sleep(2 * time.Millisecond) // a tick, and the batch's
					synctest.Wait()
					require.Equal(f, 1, f.server.requests(), "it was due before it began")
					return
				}
				time.Sleep(life - timers.Allowance(life) - age + time.Millisecond)
				synctest.Wait()
				require.Equal(f, []error{errs.ErrLost}, o.causes())
			})
		})
	}
}

// Close of a session may come between the two.
func TestATermThatIsBrokenBeforeItsStartIsNotKept(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.make(renewed(life))
		o.Break(errs.ErrClosed, false)
		o.Start(timers.Now())
		require.Equal(f, []error{errs.ErrClosed}, o.causes())
		time.Sleep(time.Hour)
		require.Zero(f, f.server.requests())
		require.Len(f, o.causes(), 1)
	})
}

func TestATermThatIsDueButStoppedInTheSameTickIsNotSent(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		for o.currentState() != renewing { // put into the batch, which is not sent yet
			time.Sleep(100 * time.Microsecond)
		}
		if f.server.requests() == 0 {
			require.NoError(f, o.Stop(timers.Now()))
			time.Sleep(time.Hour)
			require.Zero(f, f.server.requests())
		}
	})
}

func TestABrokenTermEndsOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		o.Break(errs.ErrClosed, true)
		o.Break(errs.ErrLost, false)
		o.Gone()
		require.Equal(f, errs.ErrClosed, o.Stop(timers.Now()))
		require.Equal(f, errs.ErrClosed, o.Alive(timers.Now()))
		require.False(f, o.Extended(life, timers.Now()))
		time.Sleep(time.Hour)
		require.Equal(f, []error{errs.ErrClosed}, o.causes())
		require.True(f, o.ended.gone)
		require.Zero(f, f.server.requests())
	})
}

// A yield lengthens the life on its own.
func TestAnExtensionPutsOffTheNextRenewal(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		for range 20 {
			time.Sleep(2 * time.Second) // before the first renewal may be due
			f.server.extend(o, life)
			require.True(f, o.Extended(life, timers.Now()))
		}
		require.Zero(f, f.server.requests())
		require.Equal(f, timers.Now().Add(life-timers.Allowance(life)), o.Deadline())
		require.True(f, o.Extended(life, timers.Now().Add(-time.Second)), "a reply that was overtaken")
		require.Equal(f, timers.Now().Add(life-timers.Allowance(life)), o.Deadline())
	})
}

// An extension that gives less than the term has left, as the yield of a young hold may, changes nothing.
func TestAShorterExtensionChangesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		deadline := o.Deadline()
		time.Sleep(time.Second)
		require.True(f, o.Extended(3*time.Second, timers.Now()))
		require.Equal(f, deadline, o.Deadline())
		require.Equal(f, life, o.Given())
		time.Sleep(3 * time.Second)
		require.Zero(f, f.server.requests(), "the next renewal is that of the whole lease")
		time.Sleep(life)
		require.NoError(f, o.Alive(timers.Now()))
	})
}

// soon is longer than a question lasts without a fault.
const soon = 10 * time.Millisecond

// kinds are the terms that can be asked about, each of a length that no test waits for.
var kinds = map[string]Config{
	"Renewed": {Life: 24 * time.Hour, Renewed: true},
	"Fixed":   {Life: 24 * time.Hour},
}

// A hint has no authority: it changes nothing about an existing hold, whatever its source.
func TestAQuestionChangesNothingAboutAHoldThatIsThere(t *testing.T) {
	t.Parallel()
	for name, terms := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *termFixture) {
				o := f.start(terms)
				deadline, ends, due := o.Deadline(), f.server.ends(o), o.mu.due
				for range 3 {
					time.Sleep(time.Minute)
					o.Recheck()
					time.Sleep(soon)
					synctest.Wait()
				}
				require.Equal(f, 3, f.server.requests())
				require.Equal(f, []time.Duration{0, 0, 0}, f.server.mu.lifetimes)
				require.Equal(f, deadline, o.Deadline())
				require.Equal(f, ends, f.server.ends(o), "the key's life was changed")
				require.Equal(f, due, o.mu.due, "the next renewal was moved")
				require.Equal(f, idle, o.currentState())
				require.Empty(f, o.causes())
			})
		})
	}
}

func TestAHintBeforeAReplyIsHandledAfterIt(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(Config{Life: 24 * time.Hour, Renewed: true})
		f.server.set(func(int) fault { return fault{after: time.Second} })
		o.Recheck()
		time.Sleep(soon)
		o.Recheck() // while the first question is on its way
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(f, []time.Duration{0, 0}, f.server.mu.lifetimes)
	})
}

func TestAQuestionWithoutAReplyIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, terms := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *termFixture) {
				o := f.start(terms)
				f.server.set(func(n int) fault { return fault{cut: n < 5, refusal: map[bool]string{true: "LOADING"}[n == 3]} })
				f.server.steal(o, "another session's")
				o.Recheck()
				time.Sleep(4*recheckPause + soon)
				synctest.Wait()
				require.Equal(f, 5, f.server.requests())
				require.Equal(f, []error{errs.ErrLost}, o.causes())
			})
		})
	}
}

// A renewal can be brought forward, also one that follows one on its way; a term that ended, or is not renewed, stays as it is.
func TestRenewByBringsTheNextRenewalForward(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		time.Sleep(life / 2)
		synctest.Wait()
		before := f.server.renewals()
		o.RenewBy(timers.Now().Add(10 * time.Millisecond))
		o.RenewBy(timers.Now().Add(time.Hour))
		time.Sleep(5 * time.Millisecond)
		require.Equal(f, before, f.server.renewals())
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(f, before+1, f.server.renewals())
		require.Equal(f, life, f.server.mu.lifetimes[len(f.server.mu.lifetimes)-1])

		f.server.set(func(int) fault { return fault{after: 20 * time.Millisecond} })
		o.RenewBy(timers.Now())
		o.untilRenewing()
		o.RenewBy(timers.Now())
		o.RenewBy(timers.Now().Add(time.Hour))
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		require.Equal(f, before+3, f.server.renewals())

		fixed := f.start(Config{Life: life})
		fixed.RenewBy(timers.Now())
		require.NoError(f, o.Stop(timers.Now()))
		o.RenewBy(timers.Now())
		time.Sleep(life / 10)
		synctest.Wait()
		require.Equal(f, before+3, f.server.renewals())
		require.NoError(f, fixed.Alive(timers.Now()))
	})
}

// firstLife is what the server gives a hold at first.
const firstLife = 3 * time.Second

// keptConfig is that of a hold that may be idle.
func keptConfig() Config {
	return Config{Script: proto.LockKeepScript, Life: life, Renewed: true, MayBeIdle: true}
}

// requested returns the lives that renewals have requested, and forgets them.
func (m *model) requested() []time.Duration {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	ttls := m.mu.lifetimes
	m.mu.lifetimes = nil
	return ttls
}

// untilNext sleeps until the next request has its reply, or has lost it.
func (m *model) untilNext() {
	for before := m.requests(); m.requests() == before; {
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

// P6: a renewal for the whole lease counts from its sending on, since its reply may be lost.
func TestHoldThatMayHaveItsLeaseIsNotKept(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.startGiven(keptConfig(), firstLife)
		f.server.untilNext()
		f.server.set(func(int) fault { return fault{silent: true} })
		f.server.untilNext()
		require.Equal(f, []time.Duration{firstLife, life}, f.server.requested())
		require.Equal(f, firstLife, o.Given())
		require.False(f, o.Rest())
	})
}

func TestCloseEndsTheBatchesInFlight(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		f.server.set(never)
		o := f.start(renewed(life))
		o.untilRenewing()
		require.Equal(f, 1, f.server.requests())
		before := time.Now()
		f.Keeper.Close()
		require.Equal(f, before, time.Now(), "it waits for no reply")
		time.Sleep(2 * life)
		synctest.Wait()
		require.Equal(f, 1, f.server.requests(), "nothing is renewed after Close")
		require.Equal(f, []error{errs.ErrLost}, o.causes(), "a term ends at its deadline all the same")
	})
}

// A term is fresh for the first half of what the server gave it last, which may be less than a renewal gives.
func TestATermIsFreshForHalfOfWhatItWasGiven(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		require.True(f, o.IsFresh(timers.Now()))
		require.True(f, o.IsFresh(timers.Now().Add(life/2-timers.Allowance(life))))
		require.False(f, o.IsFresh(timers.Now().Add(life/2+time.Millisecond)))
		require.True(f, o.Extended(life/10, timers.Now().Add(life)))
		require.True(f, o.IsFresh(timers.Now().Add(life)))
		require.False(f, o.IsFresh(timers.Now().Add(life+life/20+time.Millisecond)))
	})
}
