// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
)

// P6: a process begins while a server of the minority is away, by a client that is there before its server, and that
// server votes when it is back.
func TestRedlock_MinorityAwayAtStart_VotesWhenBack(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(w *wire){
		"Refuses": func(w *wire) { w.refuses.Store(true) }, "Silent": func(w *wire) { w.goSilent() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readyBubble(t, 3, func(r *redlockServers) {
				sessions, gone := r.processWithout(1, away)
				mu := redlock.New(sessions, "a")
				require.NoError(t, mu.Check())
				r.warm(mu)
				require.Empty(t, r.value(1))
				gone.heal()
				time.Sleep(10 * time.Second)
				r.warm(mu)
				require.NotEmpty(t, r.value(1), "it has no vote")
			})
		})
	}
}

// P6, P10: servers that are away are waited for, and TryLock names them.
func TestRedlock_QuorumAway_IsWaitedFor(t *testing.T) {
	t.Parallel()
	readyBubble(t, 3, func(r *redlockServers) {
		mu, wires := r.lock()
		r.warm(mu)
		for _, w := range wires[1:] {
			w.refuses.Store(true)
			w.cut()
		}
		_, err := mu.TryLock(r.Context())
		require.ErrorContains(t, err, "server 2 of 3")
		require.ErrorContains(t, err, "server 3 of 3")
		_, err = mu.Holder(r.Context())
		require.Error(t, err)
		require.NotErrorIs(t, err, signalbox.ErrNotHeld, "the outcome is unknown")
		require.Error(t, mu.ForceUnlock(r.Context()))
		waiting := locktest.LaterWith(r.Context(), mu.Lock)
		time.Sleep(10 * time.Second)
		require.False(t, locktest.IsClosed(waiting))
		for _, w := range wires[1:] {
			w.heal()
		}
		require.Less(t, took(func() { require.NoError(t, (<-waiting).Err) }), 3*time.Second)
	})
}

// P4, P8: a vote of a slow server that arrives after the majority belongs to the hold. If there is no hold,
// it is released once.
func TestRedlock_SlowServersVote_IsReleasedOnce(t *testing.T) {
	t.Parallel()
	readyBubble(t, 3, func(r *redlockServers) {
		count := r.counted(2)
		sessions, wires := r.process()
		mu := redlock.New(sessions, "a")
		r.warm(mu)
		oneIsSlow(wires, 2, 150*time.Millisecond)
		synctest.Wait() // all servers are idle, so none of them counts meanwhile
		before := *count
		for held := time.Duration(0); held < 400*time.Millisecond; held += 25 * time.Millisecond {
			lease := r.mustLock(mu)
			time.Sleep(held)
			if held > 150*time.Millisecond {
				require.Equal(t, 3, r.holds(), "it is the hold's")
			}
			require.NoError(t, lease.Unlock())
			time.Sleep(5 * time.Second)
			r.requireNothing(sessions...)
		}
		synctest.Wait()
		require.Equal(t, 16, count.acquires-before.acquires)
		require.Equal(t, 16, count.releases-before.releases)
	})
}

// P4: a server is not asked for a lock that was released before the request to it was sent, here since the first contact with
// that server took longer.
func TestRedlock_ReleasedBeforeServerIsAsked_IsNotAsked(t *testing.T) {
	t.Parallel()
	readyBubble(t, 3, func(r *redlockServers) {
		count := r.counted(2)
		sessions, wires := r.process()
		oneIsSlow(wires, 2, 150*time.Millisecond)
		require.NoError(t, r.mustLock(redlock.New(sessions, "a")).Unlock())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Zero(t, *count)
		r.requireNothing(sessions...)
	})
}

// P4: what a minority granted is released, also what a server grants after the call has returned.
func TestRedlock_MinoritysGrants_AreReleased(t *testing.T) {
	t.Parallel()
	readyBubble(t, 5, func(r *redlockServers) {
		sessions, wires := r.process()
		r.warm(redlock.New(sessions, "a"))
		for i := range 3 {
			r.foreign(i, "1", time.Minute)
		}
		oneIsSlow(wires, 4, 300*time.Millisecond)
		_, err := redlock.New(sessions, "a").TryLock(r.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
		time.Sleep(400 * time.Millisecond)
		require.Equal(t, 4, r.holds(), "the slow server has granted it")
		time.Sleep(5 * time.Second)
		require.Equal(t, 3, r.holds(), "those of the other process")
		requireIdle(t, sessions...)
	})
}

// P1, H18: a server has one vote, however many sessions go to it.
func TestRedlock_ServerListedTwice_VotesOnce(t *testing.T) {
	t.Parallel()
	readyBubble(t, 2, func(r *redlockServers) {
		to := func(servers ...int) (sessions []*signalbox.Session, wires []*wire) {
			for n, i := range servers {
				s, link, end := r.servers[i].session(r.T)
				link.latency.Store(int64(time.Duration(n+1) * hop))
				r.ends = append(r.ends, end)
				sessions, wires = append(sessions, s), append(wires, link)
			}
			return sessions, wires
		}
		for _, servers := range [][]int{{0, 0, 0}, {1, 0, 1, 1, 0}} {
			sessions, _ := to(servers...)
			_, err := redlock.New(sessions, "a").TryLock(r.Context())
			if len(servers) == 3 {
				require.ErrorIs(t, err, signalbox.ErrBadOption)
				require.ErrorContains(t, err, "same server")
			}
			require.Error(t, err, "two servers are no quorum of five")
			time.Sleep(5 * time.Second)
			r.requireNothing(sessions...)
		}
		// Two of two are a quorum of three, and need both of them.
		sessions, wires := to(0, 0, 1)
		mu := redlock.New(sessions, "a")
		lease := r.mustLock(mu)
		require.Equal(t, 2, r.holds())
		require.NoError(t, lease.Unlock())
		time.Sleep(time.Second)
		wires[2].goSilent()
		_, err := mu.TryLock(r.Context())
		require.Error(t, err, "one server is no quorum")
		time.Sleep(5 * time.Second)
		r.requireNothing(sessions[:2]...)
	})
}

// P1: a server that lost its data grants nothing for one lease, by its own clock: the longest lease that
// any caller has for the name. It would be the second of three servers that has nothing of the hold.
func TestRedlock_EmptiedServer_GrantsNothingForOneLease(t *testing.T) {
	t.Parallel()
	keysLost := func(f *fixture) { f.redis.Del("sb:epoch"); f.redis.Del(locktest.Key("a")) }
	for name, c := range map[string]struct {
		ahead time.Duration
		loses func(f *fixture)
	}{
		"Flushed": {0, func(f *fixture) { f.redis.FlushAll() }}, "KeysLost": {0, keysLost},
		"ClockAhead": {time.Minute, keysLost}, "ClockBehind": {-time.Minute, keysLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOf(t, 3, func(r *redlockServers) {
				r.ahead[2] = c.ahead
				r.makeReady()
				fixed := signalbox.WithFixedLease(8 * time.Second)
				sessions, _ := r.process(signalbox.WithPolling()) // it does not learn that its hold is no quorum's any more
				r.foreign(0, "1", time.Minute)                    // so the hold is a bare quorum
				lease := r.mustLock(redlock.New(sessions, "a", fixed))
				synctest.Wait() // until the first server has seen its request too
				c.loses(r.servers[2])
				r.remove(0) // the other hold ends
				other, _ := r.lock(fixed)
				_, err := other.TryLock(r.Context())
				require.ErrorIs(t, err, signalbox.ErrRefused)
				require.ErrorContains(t, err, "lost its data lately")
				time.Sleep(time.Second)
				longer, _ := r.lock(signalbox.WithFixedLease(time.Second), redlock.GreatestLease(time.Hour))
				_, err = longer.TryLock(r.Context())
				require.ErrorIs(t, err, signalbox.ErrRefused)
				require.True(t, strings.Contains(err.Error(), "59m") || strings.Contains(err.Error(), "1h0m"), err)
				next := r.mustLock(other)
				require.ErrorIs(t, lease.Err(), signalbox.ErrLost, "held by two")
				require.NoError(t, next.Unlock())
			})
		})
	}
}

// P6: holds of two processes that crashed, of which neither had a quorum, are waited for as long as a quorum of their keys exists.
func TestRedlock_CrashedHolders_AreOutlived(t *testing.T) {
	t.Parallel()
	readyBubble(t, 5, func(r *redlockServers) {
		mu, _ := r.lock()
		for i, digit := range "1122" {
			r.foreign(i, string(digit), 6*time.Second)
		}
		_, err := mu.TryLock(r.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
		waited := took(func() { require.NoError(t, r.mustLock(mu).Unlock()) })
		require.GreaterOrEqual(t, waited, 5900*time.Millisecond)
		require.Less(t, waited, 8*time.Second)
	})
}
