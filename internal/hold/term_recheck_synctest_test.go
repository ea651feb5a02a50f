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

func TestAHintMayComeBeforeTheStart(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.make(renewed(life))
		f.server.steal(o, "another session's")
		o.Recheck()
		o.Start(timers.Now())
		time.Sleep(soon)
		synctest.Wait()
		require.Equal(f, []error{errs.ErrLost}, o.causes())
	})
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
