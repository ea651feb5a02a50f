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

const life = 30 * time.Second

// never loses every request.
func never(int) fault { return fault{lost: true} }

// One test for each edge of the package doc.

func TestARenewalWithAReplyMovesTheDeadline(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(renewed(life))
		first := o.Deadline()
		b.server.set(func(int) fault { return fault{after: 50 * time.Millisecond} })
		require.Equal(b, idle, o.currentState())
		o.untilRenewing()
		require.Equal(b, renewing, o.currentState())
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Equal(b, idle, o.currentState())
		require.Equal(b, b.server.mu.at[0].Add(life-clock.Allowance(life)).UnixNano(), o.Deadline().Time().UnixNano(),
			"it counts from the sending, not from the answer")
		require.Positive(b, o.Deadline().Until(first))
		require.NoError(b, o.Alive(clock.Now()))
	})
}

// The timers may fire just as another goroutine schedules the term anew, or ends it.
func TestATermThatFiresTooEarlyOrTooLateDoesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(renewed(life))
		o.Fire()
		synctest.Wait()
		require.Equal(b, idle, o.currentState())
		require.Zero(b, b.server.requests())
		time.Sleep(life/2 - time.Second)
		synctest.Wait()
		require.Equal(b, 1, b.server.requests(), "it is renewed when that is due")
		require.NoError(b, o.Stop(clock.Now()))
		o.Fire()
		time.Sleep(life)
		synctest.Wait()
		require.Equal(b, 1, b.server.requests())
		require.Empty(b, o.causes())
	})
}

func TestARenewalThatFailedIsRepeatedAfterATwelfthOfTheLife(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first fault
		waits time.Duration // for the reply
	}{
		"Refused":    {fault{refusal: "LOADING the data"}, 0},
		"NotSaid":    {fault{mute: true}, 0},
		"Cut":        {fault{cut: true}, 0},
		"Lost":       {fault{lost: true}, maxPatience},
		"AnswerLost": {fault{silent: true}, maxPatience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(b *fixture) {
				o := b.start(renewed(life))
				b.server.set(func(n int) fault {
					if n == 1 {
						return c.first
					}
					return fault{}
				})
				time.Sleep(life/3 + c.waits + life/12 + 10*time.Millisecond)
				synctest.Wait()
				require.Equal(b, 2, b.server.requests())
				between := b.server.mu.at[1].Sub(b.server.mu.at[0])
				require.InDelta(b, c.waits+life/12, between, float64(5*time.Millisecond))
				require.Equal(b, idle, o.currentState())
				require.Empty(b, o.causes())
			})
		})
	}
}

func TestATermEndsWhenTheServerSaysThatItIsGone(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(renewed(life))
		b.server.steal(o, "somebody else's")
		time.Sleep(life/3 + 10*time.Millisecond)
		synctest.Wait()
		require.Equal(b, []error{errs.ErrLost}, o.causes())
		require.True(b, o.ended.gone)
		require.Equal(b, errs.ErrLost, o.Alive(clock.Now()))
		time.Sleep(time.Hour)
		require.Equal(b, 1, b.server.requests(), "it was renewed after its end")
	})
}

func TestARestingTermEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(Config{Life: life})
		deadline := o.Deadline().Until(clock.Now())
		require.Equal(b, life-clock.Allowance(life), deadline)
		time.Sleep(deadline - time.Millisecond)
		synctest.Wait()
		require.NoError(b, o.Alive(clock.Now()))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(b, []error{errs.ErrLost}, o.causes())
		require.False(b, o.ended.gone, "the key may be there still")
	})
}

func TestARenewingTermEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		b.server.set(func(int) fault { return fault{after: time.Hour, stuck: true} })
		o := b.start(renewed(life))
		time.Sleep(o.Deadline().Until(clock.Now()) - time.Millisecond)
		synctest.Wait()
		require.Equal(b, renewing, o.currentState())
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(b, ended, o.currentState())
		require.Equal(b, []error{errs.ErrLost}, o.causes())
	})
}

// Close of a session may come between the two.
func TestATermThatIsBrokenBeforeItsStartIsNotKept(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.make(renewed(life))
		o.Break(errs.ErrClosed, false)
		o.Start(clock.Now(), o.Config().Life)
		require.Equal(b, []error{errs.ErrClosed}, o.causes())
		time.Sleep(time.Hour)
		require.Zero(b, b.server.requests())
		require.Len(b, o.causes(), 1)
	})
}

func TestAStoppedTermIsNotRenewed(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(renewed(life))
		time.Sleep(life)
		sent := b.server.requests()
		require.NoError(b, o.Stop(clock.Now()))
		require.Equal(b, errs.ErrReleased, o.Stop(clock.Now()))
		require.Equal(b, errs.ErrReleased, o.Alive(clock.Now()))
		time.Sleep(time.Hour)
		require.Equal(b, sent, b.server.requests())
		require.Empty(b, o.causes(), "its owner ended it")
	})
}

func TestATermThatIsStoppedInFlightStaysStopped(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		b.server.set(func(int) fault { return fault{after: time.Second} })
		o := b.start(renewed(life))
		o.untilRenewing()
		deadline := o.Deadline()
		require.NoError(b, o.Stop(clock.Now()))
		time.Sleep(time.Hour)
		require.Equal(b, 1, b.server.requests())
		require.Equal(b, deadline, o.Deadline())
		require.Equal(b, errs.ErrReleased, o.Alive(clock.Now()))
		require.Empty(b, o.causes())
	})
}

func TestATermThatIsDueButStoppedInTheSameTickIsNotSent(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(renewed(life))
		for o.currentState() != renewing { // put into the batch, which is not sent yet
			time.Sleep(100 * time.Microsecond)
		}
		if b.server.requests() == 0 {
			require.NoError(b, o.Stop(clock.Now()))
			time.Sleep(time.Hour)
			require.Zero(b, b.server.requests())
		}
	})
}

func TestABrokenTermEndsOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(renewed(life))
		o.Break(errs.ErrClosed, true)
		o.Break(errs.ErrLost, false)
		o.Gone()
		require.Equal(b, errs.ErrClosed, o.Stop(clock.Now()))
		require.Equal(b, errs.ErrClosed, o.Alive(clock.Now()))
		require.False(b, o.Extended(life, clock.Now()))
		time.Sleep(time.Hour)
		require.Equal(b, []error{errs.ErrClosed}, o.causes())
		require.True(b, o.ended.gone)
		require.Zero(b, b.server.requests())
	})
}

// A yield lengthens the life on its own.
func TestAnExtensionPutsOffTheNextRenewal(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(renewed(life))
		for range 20 {
			time.Sleep(2 * time.Second) // before the first renewal may be due
			b.server.extend(o, life)
			require.True(b, o.Extended(life, clock.Now()))
		}
		require.Zero(b, b.server.requests())
		require.Equal(b, clock.Now().Add(life-clock.Allowance(life)), o.Deadline())
		require.True(b, o.Extended(life, clock.Now().Add(-time.Second)), "an answer that was overtaken")
		require.Equal(b, clock.Now().Add(life-clock.Allowance(life)), o.Deadline())
	})
}

// An extension that gives less than the term has left, as the yield of a young hold may, changes nothing.
func TestAShorterExtensionChangesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		o := b.start(renewed(life))
		deadline := o.Deadline()
		time.Sleep(time.Second)
		require.True(b, o.Extended(3*time.Second, clock.Now()))
		require.Equal(b, deadline, o.Deadline())
		require.Equal(b, life, o.Given())
		time.Sleep(3 * time.Second)
		require.Zero(b, b.server.requests(), "the next renewal is that of the whole lease")
		time.Sleep(life)
		require.NoError(b, o.Alive(clock.Now()))
	})
}

// The same while a renewal is under way whose reply is lost.
func TestAShorterExtensionKeepsARenewalComing(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *fixture) {
		b.server.set(every(1, fault{lost: true}))
		o := b.start(renewed(life))
		o.untilRenewing()
		b.server.set(nil)
		require.True(b, o.Extended(3*time.Second, clock.Now()))
		time.Sleep(3 * life)
		require.NoError(b, o.Alive(clock.Now()))
	})
}
