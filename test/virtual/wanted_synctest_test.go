// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// subscribes is for how long a session holds before it surely receives messages.
const subscribes = 200 * time.Millisecond

// renewed is when a hold that began a while ago has surely had its first renewal, and has a while until the next.
const renewed = 2 * time.Second

// wanted makes locks that learn of waiters.
var wanted = []locktest.Primitive{
	{Name: "reentrant", New: func(s *signalbox.Session, name string, options ...signalbox.LockOption) locktest.Lock {
		return reentrant.New(s, name, append(options, signalbox.WithWanted())...)
	}},
	{Name: "fair", New: func(s *signalbox.Session, name string, options ...signalbox.LockOption) locktest.Lock {
		return fair.New(s, name, append(options, signalbox.WithWanted())...)
	}},
}

// eachWanted runs a test of each kind whose holders learn of waiters, with three sessions.
func eachWanted(t *testing.T, test func(f *fixture, kind locktest.Primitive, a, b, c queueUser)) {
	t.Helper()
	for _, kind := range wanted {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				users := f.queueUsers(3, time.Millisecond)
				test(f, kind, users[0], users[1], users[2])
			})
		})
	}
}

// isWanted reports whether the holder has learned that another session waits.
func isWanted(lease signalbox.Lease) bool {
	synctest.Wait()
	select {
	case <-lease.Wanted():
		return true
	default:
		return false
	}
}

// waitsFor lets another session wait for the lock until the test ends.
func (f *fixture) waitsFor(s *signalbox.Session, name string) (cancel func(), got <-chan lockResult) {
	ctx, cancel := context.WithCancel(f.Context())
	f.ends = append(f.ends, cancel)
	return cancel, queued(ctx, fair.New(s, name))
}

// messages counts the messages on the channel of a session.
func (f *fixture) messages(s *signalbox.Session) *atomic.Int64 {
	var n atomic.Int64
	listener := f.redis.NewSubscriber()
	listener.Subscribe("sb:session:" + s.ID())
	go func() {
		for range listener.Messages() {
			n.Add(1)
		}
	}()
	f.ends = append(f.ends, listener.Close)
	return &n
}

// P2: the channel is closed by a message when another session begins to wait. The lease stays, and so does the channel when the waiter
// gives up. Without the option there is no channel.
func TestHolderLearnsOfAWaiter(t *testing.T) {
	t.Parallel()
	eachWanted(t, func(f *fixture, kind locktest.Primitive, a, b, c queueUser) {
		require.Nil(f, signalbox.Lease{}.Wanted())
		plain := atOnce(f.T, reentrant.New(a.Session, "plain"))
		require.Nil(f, plain.Wanted())
		require.NoError(f, plain.Unlock())

		for range fair.New(a.Session, "a").Waiters(f.Context()) { // the server learns the script
		}
		lease := atOnce(f.T, kind.New(a.Session, "a"))
		time.Sleep(subscribes)
		messages, questions := f.messages(a.Session), f.counts(scripts.LockWaiters)
		require.False(f, isWanted(lease))
		cancel, _ := f.waitsFor(b.Session, "a")
		time.Sleep(10 * time.Millisecond)
		require.True(f, isWanted(lease))
		for range 3 { // no further waiter costs a message, or a question
			f.waitsFor(c.Session, "a")
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		require.EqualValues(f, 1, messages.Load())
		require.EqualValues(f, 1, questions.Load())
		require.NoError(f, lease.Err())
		holder, err := reentrant.New(b.Session, "a").Holder(f.Context())
		require.NoError(f, err)
		require.Equal(f, kind.Name, holder.Kind)
		cancel()
		time.Sleep(time.Second)
		require.True(f, isWanted(lease))
		require.NoError(f, reentrant.New(b.Session, "a").ForceUnlock(f.Context()))
		time.Sleep(10 * time.Millisecond)
		require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
	})
}

// P2: goroutines of the holder's own session do not close the channel. A waiter of another session behind them does, at once.
func TestOwnWaitersDoNotWant(t *testing.T) {
	t.Parallel()
	eachWanted(t, func(f *fixture, kind locktest.Primitive, a, b, c queueUser) {
		lease := atOnce(f.T, kind.New(a.Session, "a"))
		time.Sleep(renewed)
		messages := f.messages(a.Session)
		for range 3 {
			f.waitsFor(a.Session, "a")
		}
		time.Sleep(time.Minute)
		require.False(f, isWanted(lease))
		require.Zero(f, messages.Load())
		f.waitsFor(b.Session, "a")
		time.Sleep(10 * time.Millisecond)
		require.True(f, isWanted(lease))
		f.waitsFor(c.Session, "a")
		require.EqualValues(f, 1, messages.Load())
		require.NoError(f, lease.Unlock())
	})
}

// P2: a waiter that is dead does not close the channel, and the next one behind its ticket does, at once.
func TestDeadWaitersDoNotWant(t *testing.T) {
	t.Parallel()
	eachWanted(t, func(f *fixture, kind locktest.Primitive, a, b, c queueUser) {
		before := atOnce(f.T, reentrant.New(c.Session, "a"))
		f.waitsFor(b.Session, "a")
		time.Sleep(time.Second)
		b.goSilent()
		time.Sleep(5 * time.Second) // its ticket stays for ten
		require.NoError(f, before.Unlock())
		lease := atOnce(f.T, kind.New(a.Session, "a"))
		questions := f.counts(scripts.LockWaiters)
		time.Sleep(renewed)
		require.Positive(f, questions.Load(), "the key is marked")
		require.False(f, isWanted(lease))
		require.True(f, f.redis.Exists(locktest.Keys("a").QueueKey()))
		f.waitsFor(c.Session, "a")
		time.Sleep(10 * time.Millisecond)
		require.True(f, isWanted(lease))
		require.NoError(f, lease.Unlock())
		b.heal()
	})
}

// P2, P7: a forged message costs one question, and so do a hundred at once; the channel stays open, and the lock stays.
func TestForgedMessageCostsOneQuestion(t *testing.T) {
	t.Parallel()
	eachWanted(t, func(f *fixture, kind locktest.Primitive, a, b, _ queueUser) {
		lease := atOnce(f.T, kind.New(a.Session, "a"))
		time.Sleep(renewed)
		value, err := f.redis.Get(locktest.Key("a"))
		require.NoError(f, err)
		attempt := value[20+22 : 20+41]
		for range fair.New(a.Session, "a").Waiters(f.Context()) { // the server learns the script
		}
		questions := f.counts(scripts.LockWaiters)
		for range 100 {
			f.redis.Publish("sb:session:"+a.ID(), "recall:"+attempt)
		}
		f.redis.Publish("sb:session:"+a.ID(), "recall:"+strings.Repeat("x", 19))
		time.Sleep(20 * time.Millisecond)
		require.LessOrEqual(f, questions.Load(), int64(2), "what comes while a question is under way makes another")
		require.Positive(f, questions.Load())
		require.False(f, isWanted(lease))
		require.NoError(f, lease.Err())
		_, err = reentrant.New(b.Session, "a").TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld)
		require.NoError(f, lease.Unlock())
	})
}

// P2: a session whose subscription broke asks when it is subscribed again, and not only at the next renewal.
func TestHolderAsksWhenItIsSubscribedAgain(t *testing.T) {
	t.Parallel()
	eachWanted(t, func(f *fixture, kind locktest.Primitive, a, b, _ queueUser) {
		lease := f.missesTheMessage(kind, a, b)
		time.Sleep(100 * time.Millisecond)
		require.False(f, isWanted(lease))
		a.breakSubscriptions()
		time.Sleep(time.Second)
		require.True(f, isWanted(lease))
		require.NoError(f, lease.Unlock())
	})
}

// missesTheMessage returns a renewed lease of a, for whose lock b has begun to wait. The message of that was lost.
func (f *fixture) missesTheMessage(kind locktest.Primitive, a, b queueUser) signalbox.Lease {
	f.Helper()
	lease := atOnce(f.T, kind.New(a.Session, "a", signalbox.WithRenewedLease(30*time.Second)))
	time.Sleep(renewed)
	a.losesMessages.Store(true)
	f.waitsFor(b.Session, "a")
	return lease
}

// P2: a waiter that came before the session was subscribed, and one that waits without messages, are found at the first subscription, or at
// the first renewal.
func TestWaiterBeforeTheSubscriptionIsFound(t *testing.T) {
	t.Parallel()
	eachWanted(t, func(f *fixture, kind locktest.Primitive, a, b, _ queueUser) {
		lease := atOnce(f.T, kind.New(a.Session, "a"))
		f.waitsFor(b.Session, "a")
		time.Sleep(20 * time.Millisecond)
		require.False(f, isWanted(lease))
		time.Sleep(subscribes)
		require.True(f, isWanted(lease))
		require.NoError(f, lease.Unlock())

		polling := f.user(signalbox.WithPolling()).Session
		lease = atOnce(f.T, kind.New(polling, "b"))
		f.waitsFor(b.Session, "b")
		time.Sleep(renewed)
		require.True(f, isWanted(lease))
		require.NoError(f, lease.Unlock())
	})
}

// P2, P7: TryLock of other sessions sends no message, and does not close the channel.
func TestTriesDoNotWant(t *testing.T) {
	t.Parallel()
	eachWanted(t, func(f *fixture, kind locktest.Primitive, a, b, c queueUser) {
		lease := atOnce(f.T, kind.New(a.Session, "a"))
		time.Sleep(renewed)
		messages, questions := f.messages(a.Session), f.counts(scripts.LockWaiters)
		for i := range 200 {
			_, err := wanted[i%2].New([]queueUser{b, c}[i/2%2].Session, "a").TryLock(f.Context())
			require.ErrorIs(f, err, signalbox.ErrHeld)
			time.Sleep(100 * time.Millisecond)
		}
		require.Zero(f, messages.Load())
		require.Zero(f, questions.Load())
		require.False(f, isWanted(lease))
		require.NoError(f, lease.Unlock())
	})
}

// P2: a holder that the queue granted the lock learns of the waiters behind it by its first renewal, and of a queue that forms anew at once.
func TestHolderFromTheQueueLearnsOfWaiters(t *testing.T) {
	t.Parallel()
	eachWanted(t, func(f *fixture, kind locktest.Primitive, a, b, c queueUser) {
		for _, behind := range []bool{true, false} {
			name := fmt.Sprint(behind)
			before := atOnce(f.T, reentrant.New(c.Session, name))
			waiting := queuedAndListening(f.Context(), kind.New(a.Session, name, signalbox.WithRenewedLease(30*time.Second)))
			if behind {
				f.waitsFor(b.Session, name)
			}
			time.Sleep(time.Second)
			require.NoError(f, before.Unlock())
			lease := (<-waiting).lease
			time.Sleep(renewed)
			require.Equal(f, behind, isWanted(lease))
			if !behind {
				messages := f.messages(a.Session)
				f.waitsFor(b.Session, name)
				f.waitsFor(c.Session, name)
				time.Sleep(10 * time.Millisecond)
				require.True(f, isWanted(lease))
				require.EqualValues(f, 1, messages.Load())
			}
			require.NoError(f, lease.Unlock())
		}
	})
}

// P2: the channel belongs to the hold: it stays when the hold is handed over inside the process, and a hold that is granted anew has another.
func TestHandOverKeepsTheChannel(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(2, 100*time.Microsecond)
		a, b := users[0], users[1]
		other := atOnce(f.T, wanted[0].New(a.Session, "other")) // the session listens
		time.Sleep(renewed)
		mu := wanted[0].New(a.Session, "a")
		first := atOnce(f.T, mu)
		next := queued(f.Context(), mu)
		plain := queued(f.Context(), reentrant.New(a.Session, "a")) // it has another ticket
		_, got := f.waitsFor(b.Session, "a")
		time.Sleep(time.Millisecond) // a turn has 2.5 ms here
		require.NoError(f, first.Unlock())
		second := <-next
		require.Equal(f, first.Token()+1, second.lease.Token(), "handed over")
		require.True(f, first.Wanted() == second.lease.Wanted())
		time.Sleep(10 * time.Millisecond)
		require.True(f, isWanted(second.lease))
		require.True(f, isWanted(first))
		require.NoError(f, second.lease.Unlock())
		for range 2 {
			select {
			case r := <-plain:
				require.Nil(f, r.lease.Wanted())
				require.NoError(f, r.lease.Unlock())
			case r := <-got:
				require.NoError(f, r.lease.Unlock())
			}
		}
		time.Sleep(time.Second)
		require.False(f, isWanted(atOnce(f.T, mu)))
		require.False(f, isWanted(other))
		require.NoError(f, other.Unlock())
	})
}

// P2, P6: beside WithKeepWarm an idle lock is recalled as without the option, and a try closes no channel.
func TestKeptLockIsWanted(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(2, time.Millisecond)
		a, b := users[0], users[1]
		mu := f.kept(a.Session, "a", signalbox.WithWanted())
		lease := atOnce(f.T, mu)
		_, err := reentrant.New(b.Session, "a").TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld)
		time.Sleep(renewed)
		require.False(f, isWanted(lease))
		require.NoError(f, lease.Unlock())
		time.Sleep(10 * time.Millisecond)
		require.Zero(f, f.left("a"), "recalled")

		time.Sleep(time.Minute)
		mu = f.kept(a.Session, "b", signalbox.WithWanted())
		lease = atOnce(f.T, mu)
		f.waitsFor(b.Session, "b")
		time.Sleep(10 * time.Millisecond)
		require.True(f, isWanted(lease))
		require.NoError(f, lease.Unlock())

		mu = f.kept(a.Session, "c", signalbox.WithWanted())
		_, got := f.waitsFor(b.Session, "c")
		time.Sleep(10 * time.Millisecond)
		require.NoError(f, (<-got).lease.Unlock(), "the idle lock is released at once")
		require.NoError(f, atOnce(f.T, mu).Unlock())
	})
}

// P2: the channel of a multilock is closed with that of a member, before and after it was asked for; it has none if no member has.
func TestMultilockIsWanted(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(3, time.Millisecond)
		a, b := users[0], users[1]
		none := atOnce(f.T, multilock.New(reentrant.New(a.Session, "x"), fair.New(a.Session, "y")))
		require.Nil(f, none.Wanted())
		require.NoError(f, none.Unlock())
		for i, member := range []string{"a", "b", "c"} {
			warm := reentrant.New(a.Session, "b", signalbox.WithWanted(), signalbox.WithKeepWarm(keptFor))
			lease := atOnce(f.T, multilock.New(
				reentrant.New(a.Session, "a", signalbox.WithWanted()), warm, fair.New(users[2].Session, "c", signalbox.WithWanted()), reentrant.New(a.Session, "d"),
			))
			if i > 0 {
				require.False(f, isWanted(lease))
			}
			time.Sleep(renewed)
			cancel, _ := f.waitsFor(b.Session, "d") // which has not the option
			time.Sleep(time.Minute)
			if i > 0 {
				require.False(f, isWanted(lease))
			}
			other, _ := f.waitsFor(b.Session, member)
			time.Sleep(10 * time.Millisecond)
			require.True(f, isWanted(lease), member)
			require.NoError(f, lease.Err())
			cancel()
			other()
			require.NoError(f, lease.Unlock())
			time.Sleep(time.Minute)
		}
		// A member that is held already notifies those that are made of it, and forgets them when they end.
		outer := atOnce(f.T, reentrant.New(a.Session, "a", signalbox.WithWanted()))
		ctx := outer.Enter(f.Context())
		for range 10 {
			inner, err := multilock.New(reentrant.New(a.Session, "a"), reentrant.New(a.Session, "d")).Lock(ctx)
			require.NoError(f, err)
			require.False(f, isWanted(inner))
			require.NoError(f, inner.Unlock())
		}
		inner, err := multilock.New(reentrant.New(a.Session, "a"), reentrant.New(a.Session, "d")).Lock(ctx)
		require.NoError(f, err)
		require.False(f, isWanted(inner))
		time.Sleep(renewed)
		f.waitsFor(b.Session, "a")
		time.Sleep(10 * time.Millisecond)
		require.True(f, isWanted(inner))
		require.True(f, isWanted(outer))
		require.NoError(f, inner.Unlock())
		require.NoError(f, outer.Unlock())
	})
}

// P7: the option costs nothing while no other session waits: a pair has the same commands, a hold the same renewals, and one of less than 100 ms
// no subscription.
func TestWantedCostsNothingUncontended(t *testing.T) {
	t.Parallel()
	eachWanted(t, func(f *fixture, kind locktest.Primitive, a, b, _ queueUser) {
		cost := func(mu locktest.Lock, held time.Duration) int64 {
			for range 3 { // the server learns the scripts
				require.NoError(f, atOnce(f.T, mu).Unlock())
			}
			time.Sleep(time.Minute)
			before := f.commands.Load()
			lease := atOnce(f.T, mu)
			time.Sleep(held)
			require.NoError(f, lease.Unlock())
			return f.commands.Load() - before
		}
		plain := map[string]locktest.Primitive{"reentrant": locktest.Reentrant(), "fair": locktest.Fair()}[kind.Name]
		for _, held := range []time.Duration{0, 50 * time.Millisecond} {
			require.Equal(f, cost(plain.New(b.Session, "b"), held), cost(kind.New(a.Session, "a"), held))
		}
		require.Zero(f, f.listening(a.Session))
		sent := f.executed(scripts.LockWaiters, scripts.LockKeep, scripts.HolderRenew)
		sent.begin()
		lease := atOnce(f.T, kind.New(a.Session, "a"))
		time.Sleep(time.Minute)
		require.Zero(f, sent.within(scripts.LockWaiters, 0, time.Minute))
		require.Zero(f, sent.within(scripts.HolderRenew, 0, time.Minute))
		require.InDelta(f, 7, sent.within(scripts.LockKeep, 0, time.Minute), 3)
		require.NoError(f, lease.Unlock())
	})
}

// Bad terms are ErrBadOption; a default gives way, and the lock has no channel.
func TestTermsOfWantedLocks(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user(signalbox.WithDefaults(signalbox.WithWanted())).Session
		fixed := signalbox.WithFixedLease(time.Second)
		require.ErrorIs(f, reentrant.New(s, "a", signalbox.WithWanted(), fixed).Check(), signalbox.ErrBadOption)
		for _, lease := range []signalbox.Lease{
			atOnce(f.T, reentrant.New(s, "a", fixed)), atOnce(f.T, locktest.Writer().New(s, "b")), atOnce(f.T, locktest.Permit().New(s, "c")),
		} {
			require.Nil(f, lease.Wanted())
			require.NoError(f, lease.Unlock())
		}
		bounded := atOnce(f.T, reentrant.New(s, "a", signalbox.WithMaxHold(time.Minute)))
		require.False(f, isWanted(bounded))
		require.NotNil(f, bounded.Wanted())
		time.Sleep(renewed)
		f.waitsFor(f.user().Session, "a")
		time.Sleep(10 * time.Millisecond)
		require.True(f, isWanted(bounded))
		require.NoError(f, bounded.Unlock())
	})
}
