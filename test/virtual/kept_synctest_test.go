// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// keptFor is how long locks of these tests are idle at most.
const keptFor = 20 * time.Second

// kept returns a lock of the session that is idle.
func (f *fixture) kept(s *signalbox.Session, name string, options ...signalbox.LockOption) *reentrant.Lock {
	f.Helper()
	mu := reentrant.New(s, name, append(options, signalbox.WithKeepWarm(keptFor))...)
	for range 2 { // the first use begins to listen for recalls
		require.NoError(f, atOnce(f.T, mu).Unlock())
		time.Sleep(100 * time.Millisecond)
	}
	require.Positive(f, f.left(name))
	return mu
}

// P3, P7: a kept lock is acquired and unlocked again without a command, each time with a greater token. It costs one renewal a second,
// no goroutine, and is released when it was idle for long enough.
func TestKeptLockIsUsedAgainWithoutACommand(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		mu := f.kept(s, "a")
		require.NoError(f, atOnce(f.T, mu).Unlock()) // it asks the server, since the hold was idle for long
		before, last := f.commands.Load(), uint64(0)
		for i := range 200 {
			take := mu.Lock
			if i%2 > 0 {
				take = reentrant.New(s, "a").TryLock // another object with the same terms
			}
			lease, err := take(f.Context())
			require.NoError(f, err)
			require.Greater(f, lease.Token(), last)
			last = lease.Token()
			require.NoError(f, lease.Unlock())
		}
		require.Equal(f, before, f.commands.Load())
		require.Equal(f, 1, s.IdleLocks())
		holder, err := mu.Holder(f.Context())
		require.NoError(f, err)
		require.True(f, holder.MayBeIdle)
		require.Equal(f, "reentrant", holder.Kind)
		entries, err := inspect.Name(f.Context(), s, "a")
		require.NoError(f, err)
		require.Len(f, entries, 1)
		require.True(f, entries[0].Holders[0].MayBeIdle)

		atRest := resting()
		before = f.scripts.Load()
		time.Sleep(10 * time.Second)
		require.InDelta(f, 10, f.scripts.Load()-before, 3)
		require.Equal(f, atRest, resting())
		time.Sleep(keptFor - 10*time.Second)
		synctest.Wait()
		require.Zero(f, f.left("a"))
		require.Zero(f, s.IdleLocks())
	})
}

// P1, P3: a hold that the server has lost is used no more when 20 ms are over since the server's last reply: the next call asks, finds that
// another session holds, and has a greater token later. That is so for a use at any time after the loss, and after each use.
func TestLostIdleHoldIsUsedForNoLongerThanATurn(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond} { // between two uses before the loss
		for _, after := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 900 * time.Millisecond} {
			bubbleOfUsers(t, func(f *fixture) {
				mu := f.kept(f.user().Session, "a")
				replied, keeps := time.Now(), f.counts(proto.LockKeepScript)
				for range 10 {
					before := keeps.Load()
					require.NoError(f, atOnce(f.T, mu).Unlock())
					if keeps.Load() > before {
						replied = time.Now()
					}
					time.Sleep(pause)
				}
				f.redis.FlushAll()
				held := atOnce(f.T, reentrant.New(f.user().Session, "a"))
				time.Sleep(after)
				ctx, cancel := context.WithTimeout(f.Context(), 50*time.Millisecond)
				defer cancel()
				lease, err := mu.Lock(ctx)
				if time.Since(replied) < longestTurn {
					require.NoError(f, lease.Unlock())
					time.Sleep(longestTurn)
					lease, err = mu.Lock(ctx)
				}
				require.ErrorIs(f, err, signalbox.ErrHeld, "%v %v", pause, after)
				require.Zero(f, lease.Token())
				require.NoError(f, held.Unlock())
				require.Greater(f, atOnce(f.T, mu).Token(), held.Token())
			})
		}
	}
}

// P1, P2, P3: after the tokens of one grant a kept lock asks the server, and the next token is greater. It asks, too, once half of its lease
// is over.
func TestKeptLockAsksTheServer(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, link := f.open()
		mu := f.kept(s, "a")
		enters, last := f.counts(proto.LockEnterScript), uint64(0)
		for range 3 * 1024 {
			lease := atOnce(f.T, mu)
			require.Greater(f, lease.Token(), last)
			last = lease.Token()
			require.NoError(f, lease.Unlock())
			time.Sleep(time.Microsecond) // otherwise tokens are ahead of the server's clock, and such a hold is not kept
		}
		require.EqualValues(f, 3, enters.Load())
		link.goSilent()
		time.Sleep(1600 * time.Millisecond)
		require.Equal(f, 1, s.IdleLocks())
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		require.Error(f, no(mu.Lock(ctx)), "the server is silent")
		link.heal()
	})
}

// P6: holds that have short leases are kept as others are; a lock without the option uses what the session keeps.
func TestTermsOfKeptLocks(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user(signalbox.WithDefaults(signalbox.WithKeepWarm(keptFor))).Session
		short := signalbox.WithRenewedLease(500 * time.Millisecond)
		f.kept(s, "a", short)
		require.NoError(f, atOnce(f.T, reentrant.New(s, "a", short)).Unlock())
		before := f.commands.Load()
		require.NoError(f, atOnce(f.T, reentrant.New(s, "a", short, signalbox.WithKeepWarm(0))).Unlock())
		require.Equal(f, before, f.commands.Load())
		time.Sleep(2 * time.Second)
		require.Positive(f, f.left("a"))
		require.NoError(f, atOnce(f.T, reentrant.New(s, "b", signalbox.WithMaxHold(time.Second))).Unlock(), "a default gives way")
		require.NoError(f, atOnce(f.T, fair.New(s, "b")).Unlock())
		require.Equal(f, 1, s.IdleLocks())
	})
}

// P4, P6: Close releases idle locks together, without a wait. A lease that is unlocked while Close waits for it is not kept.
func TestCloseReleasesIdleHoldsInOneCall(t *testing.T) {
	t.Parallel()
	const locks = 50
	bubbleOfUsers(t, func(f *fixture) {
		s, other := f.user().Session, f.user().Session
		for i := range locks {
			f.kept(s, fmt.Sprint(i))
		}
		require.Equal(f, locks, s.IdleLocks())
		both := atOnce(f.T, multilock.New(reentrant.New(s, "c"), reentrant.New(s, "d"))) // the server learns the script
		require.NoError(f, both.Unlock())
		sent := f.executed(proto.LockReleaseManyScript, proto.LockLeaveScript, proto.LockFreeScript)
		sent.begin()
		require.NoError(f, s.Close(f.Context()))
		for script, times := range map[*scripts.Script]int{proto.LockReleaseManyScript: 1, proto.LockLeaveScript: 0, proto.LockFreeScript: 0} {
			require.Equal(f, times, sent.within(script, 0, time.Second))
		}
		for i := range locks {
			require.Zero(f, f.left(fmt.Sprint(i)))
		}
		require.Zero(f, s.IdleLocks())

		lease := atOnce(f.T, f.kept(other, "a"))
		closed := f.later(func() error { return other.Close(context.Background()) })
		require.NoError(f, lease.Unlock())
		require.Less(f, took(func() { require.NoError(f, <-closed) }), 100*time.Millisecond)
		require.Zero(f, f.left("a"))
	})
}

// P7: idle locks are renewed together, and keep their first lease: a process that dies delays the others by 3 s.
func TestIdleHoldsAreRenewedTogether(t *testing.T) {
	t.Parallel()
	const locks = 200
	bubbleOfUsers(t, func(f *fixture) {
		s, link := f.open()
		f.kept(s, "0")
		for i := range locks {
			require.NoError(f, atOnce(f.T, reentrant.New(s, fmt.Sprint(i), signalbox.WithKeepWarm(keptFor))).Unlock())
		}
		require.Equal(f, locks, s.IdleLocks())
		time.Sleep(2 * time.Second) // until their first renewals are over
		renewals := f.counts(proto.LockKeepScript)
		time.Sleep(10 * time.Second)
		require.LessOrEqual(f, renewals.Load(), int64(44), "four in a second")
		require.LessOrEqual(f, f.left("0"), 3*time.Second)
		link.goSilent()
		time.Sleep(3 * time.Second)
		for i := range locks {
			require.Zero(f, f.left(fmt.Sprint(i)))
		}
		require.Zero(f, s.IdleLocks())
		link.heal()
	})
}

// P2: an idle lock that is taken by force is reported in the log and to no caller, and its session acquires it anew.
func TestLostIdleHoldIsReportedToNoCaller(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		logger, lines := logged()
		s, events := f.observed(signalbox.WithLogger(logger))
		mu := f.kept(s, "a")
		events.took()
		require.NoError(f, reentrant.New(f.user().Session, "a").ForceUnlock(f.Context()))
		time.Sleep(10 * time.Millisecond)
		require.Zero(f, f.left("a"))
		require.Zero(f, s.IdleLocks())
		hooks, _ := events.took()
		require.Empty(f, hooks)
		time.Sleep(2 * time.Second)
		require.Equal(f, 1, strings.Count(lines.String(), "the server lost a lock that was kept"))
		require.NoError(f, atOnce(f.T, mu).Unlock())
	})
}

// P2: a lock without a renewed lease, or of a kind that learns of no waiter, has no channel: a default gives way. A lock that learns of
// waiters is that of its kind.
func TestTermsOfWantedLocks(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user(signalbox.WithDefaults(signalbox.WithWanted())).Session
		fixed := signalbox.WithFixedLease(time.Second)
		require.ErrorIs(f, reentrant.New(s, "a", signalbox.WithWanted(), fixed).Check(), signalbox.ErrBadOption)
		for _, lock := range []locktest.Lock{reentrant.New(s, "a", fixed), locktest.Writer().New(s, "b"), locktest.Permit().New(s, "c")} {
			lease := atOnce(f.T, lock)
			require.Nil(f, lease.Wanted())
			require.NoError(f, lease.Unlock())
		}
		for kind, lock := range map[string]locktest.Lock{"reentrant": reentrant.New(s, "d"), "fair": fair.New(s, "e", signalbox.WithMaxHold(time.Minute))} {
			require.NotNil(f, atOnce(f.T, lock).Wanted())
			holder, err := reentrant.New(s, map[string]string{"reentrant": "d", "fair": "e"}[kind]).Holder(f.Context())
			require.NoError(f, err)
			require.Equal(f, kind, holder.Kind)
		}
	})
}

// P2, P7: a hundred forged messages cost a question or two, and close no channel.
func TestForgedMessageCostsOneQuestion(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		lease := atOnce(f.T, reentrant.New(s, "a", signalbox.WithWanted()))
		time.Sleep(2 * time.Second) // it is renewed
		value, err := f.redis.Get(locktest.Key("a"))
		require.NoError(f, err)
		for range fair.New(s, "a").Waiters(f.Context()) { // the server learns the script
		}
		questions := f.counts(proto.LockWaitersScript)
		for range 100 {
			f.redis.Publish("sb:session:"+s.ID(), "recall:"+value[20+22:20+41])
		}
		time.Sleep(20 * time.Millisecond)
		require.Contains(f, []int64{1, 2}, questions.Load(), "what comes while a question is under way makes another")
		require.False(f, locktest.IsClosed(lease.Wanted()))
		require.NoError(f, lease.Unlock())
	})
}
