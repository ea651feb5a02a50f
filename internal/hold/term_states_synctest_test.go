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

func TestAStoppedTermIsNotRenewed(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		time.Sleep(life)
		sent := f.server.requests()
		require.NoError(f, o.Stop(timers.Now()))
		require.Equal(f, errs.ErrReleased, o.Stop(timers.Now()))
		require.Equal(f, errs.ErrReleased, o.Alive(timers.Now()))
		time.Sleep(time.Hour)
		require.Equal(f, sent, f.server.requests())
		require.Empty(f, o.causes(), "its owner ended it")
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
