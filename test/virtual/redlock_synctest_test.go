// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/test"
)

// readyBubble runs a test in virtual time, with so many servers that grant at once.
func readyBubble(t *testing.T, n int, test func(r *redlockServers)) {
	t.Helper()
	bubbleOf(t, n, func(r *redlockServers) {
		r.makeReady()
		test(r)
	})
}

// lock returns the lock "a" of a process of its own, and its wires.
func (r *redlockServers) lock(options ...signalbox.LockOption) (*redlock.Lock, []*wire) {
	sessions, wires := r.process()
	return redlock.New(sessions, "a", options...), wires
}

// warm acquires and releases a lock, so that all servers know the scripts, and its sessions the time.
func (r *redlockServers) warm(mu *redlock.Lock) {
	r.Helper()
	lease := r.mustLock(mu)
	time.Sleep(time.Second)
	require.NoError(r, lease.Unlock())
	time.Sleep(time.Second)
}

// value returns what a server has of the lock "a", "" if that is nothing.
func (r *redlockServers) value(i int) string {
	f := r.servers[i]
	f.redis.SetTime(time.Now().Add(r.aheadOf(i)))
	value, err := f.redis.Get(locktest.Key("a"))
	if err != nil {
		return "" // there is no such key
	}
	return value
}

// holds returns how many servers have a hold of the lock "a".
func (r *redlockServers) holds() (n int) {
	for i := range r.servers {
		if strings.HasPrefix(r.value(i), "sb1q") {
			n++
		}
	}
	return n
}

// foreign puts the hold of another process on a server. Holds with the same digit are of one attempt.
func (r *redlockServers) foreign(i int, digit string, life time.Duration) {
	r.Helper()
	f := r.servers[i]
	f.redis.SetTime(time.Now().Add(r.aheadOf(i)))
	value := "sb1q" + "1780000000000000" + strings.Repeat("f", 22) + strings.Repeat(digit, 19) + strings.Repeat("-", 22)
	require.NoError(r, f.redis.Set(locktest.Key("a"), value))
	f.redis.SetTTL(locktest.Key("a"), life)
}

// remove deletes the key of the lock "a" on a server.
func (r *redlockServers) remove(i int) { r.servers[i].redis.Del(locktest.Key("a")) }

// requireNothing fails the test if a server has a hold of the lock "a", or a session is busy.
func (r *redlockServers) requireNothing(sessions ...*signalbox.Session) {
	r.Helper()
	require.Zero(r, r.holds())
	requireIdle(r.T, sessions...)
}

// stopRenewing lets servers vanish for these processes.
func stopRenewing(servers []int, processes ...[]*wire) {
	for _, wires := range processes {
		for _, i := range servers {
			wires[i].goSilent()
		}
	}
}

// processWithout is process for one whose clients are made while a server is away.
func (r *redlockServers) processWithout(server int, away func(w *wire)) (sessions []*signalbox.Session, gone *wire) {
	r.Helper()
	for i, f := range r.servers {
		link := &wire{}
		if i == server {
			away(link)
			gone = link
		}
		o := rueidis.ClientOption{
			InitAddress: []string{"embedded"}, ForceSingleClient: true, AlwaysRESP2: true,
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return link.dial(f.redis) },
		}
		signalbox.Tune(&o)
		c, err := rueidis.NewClient(o)
		require.Equal(r, i == server, err != nil)
		s := signalbox.NewSession(c)
		r.ends = append(r.ends, func() {
			_ = s.Close(locktest.Ended()) // says that leases were left, which the test knows
			c.Close()
		})
		sessions = append(sessions, s)
	}
	return sessions, gone
}

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
			w.refuse()
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
				r.setAhead(2, c.ahead)
				r.makeReady()
				fixed := signalbox.WithFixedLease(8 * time.Second)
				sessions, _ := r.process(signalbox.WithPolling()) // it does not learn that its hold has lost its quorum
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

// P3: with Fenced, tokens rise though the clock of the server that gave one is far ahead of the others', and its holder
// crashed. Without it they do not.
func TestRedlock_Fenced_TokensRiseWhateverTheClocksSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		rises   bool
	}{"Fenced": {[]signalbox.LockOption{redlock.Fenced()}, true}, "Bare": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOf(t, 3, func(r *redlockServers) {
				r.setAhead(0, 10*time.Minute)
				r.makeReady()
				mu, wires := r.lock(c.options...)
				other, theirs := r.lock(c.options...)
				r.warm(other)
				stopRenewing([]int{2}, wires)
				lease := r.mustLock(mu)
				stopRenewing([]int{0, 1}, wires) // it crashes
				stopRenewing([]int{0}, theirs)   // server 1 is all that the two quorums share
				next := r.mustLock(other)
				require.Equal(t, c.rises, next.Token() > lease.Token())
				require.NoError(t, next.Unlock())
			})
		})
	}
}

// P6: if any of its sessions closes, waiters return with ErrClosed, those in the queue of the process as those that wait
// for the servers, and Close waits for the holder; but not if its context has ended.
func TestRedlock_CloseOfAnySession_EndsTheLock(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		readyBubble(t, 3, func(r *redlockServers) {
			sessions, _ := r.process(signalbox.WithCloseGrace(time.Minute))
			holding, _ := r.process()
			mu := redlock.New(sessions, "a")
			lease := r.mustLock(mu)
			theirs := r.mustLock(redlock.New(holding, "b"))
			queued := locktest.LaterWith(r.Context(), mu.Lock)
			waiting := locktest.LaterWith(r.Context(), redlock.New(sessions, "b").Lock)
			elsewhere := locktest.LaterWith(r.Context(), redlock.New(holding, "a").Lock)
			time.Sleep(time.Second)
			closed := make(chan error, 1)
			go func() { closed <- sessions[i].Close(r.Context()) }()
			require.ErrorIs(t, (<-queued).Err, signalbox.ErrClosed)
			require.ErrorIs(t, (<-waiting).Err, signalbox.ErrClosed)
			time.Sleep(10 * time.Second)
			require.NoError(t, lease.Err())
			require.False(t, locktest.IsClosed(closed))
			require.NoError(t, lease.Unlock())
			require.NoError(t, <-closed)
			_, err := mu.Lock(r.Context())
			require.ErrorIs(t, err, signalbox.ErrClosed)
			require.ErrorIs(t, mu.Check(), signalbox.ErrClosed)
			got := <-elsewhere
			require.NoError(t, got.Err)

			require.Error(t, holding[i].Close(locktest.Ended()))
			for _, lost := range []signalbox.Lease{got.Value, theirs} {
				require.ErrorIs(t, lost.Err(), signalbox.ErrLost)
				require.ErrorIs(t, lost.Err(), signalbox.ErrClosed)
			}
			time.Sleep(time.Second)
			require.Zero(t, r.holds())
		})
	}
}

// P9: a server that keeps no token is no hindrance if another one grants later than the quorum: the token is sent to that one when it has
// granted.
func TestATokenFollowsTheGrantOfASlowServer(t *testing.T) {
	t.Parallel()
	readyBubble(t, 3, func(r *redlockServers) {
		mu, wires := r.lock(redlock.Fenced())
		_, err := r.servers[0].redis.RPush(locktest.Keys("a").Fence(), "x")
		require.NoError(r, err)
		wires[2].latency.Store(int64(20 * time.Millisecond))
		lease, err := mu.TryLock(r.Context())
		require.NoError(r, err)
		require.NoError(r, lease.Unlock())
		time.Sleep(time.Second)
	})
}

// P9, P10: a key of a quorum that another program uses ends a call at once, with the server's words, if it is at a majority of the
// servers; at fewer it is no hindrance. It is left as it is, and when it is gone the lock serves.
func TestRedlock_ForeignKeyOfAMajority_EndsACallAtOnce(t *testing.T) {
	t.Parallel()
	for _, key := range []string{locktest.Key("a"), locktest.Keys("a").Fence(), "sb:epoch"} {
		for bad := 1; bad <= 2; bad++ {
			for name, call := range map[string]func(mu *redlock.Lock, ctx context.Context) (signalbox.Lease, error){"Lock": (*redlock.Lock).Lock, "TryLock": (*redlock.Lock).TryLock} {
				t.Run(fmt.Sprint(key, bad, name), func(t *testing.T) {
					t.Parallel()
					readyBubble(t, 3, func(r *redlockServers) {
						mu, _ := r.lock(redlock.Fenced())
						var ready []test.Backup
						for _, f := range r.servers[:bad] {
							ready = append(ready, backupOf(f.redis))
							f.redis.Del(key)
							_, err := f.redis.RPush(key, "x")
							require.NoError(r, err)
						}
						ctx, cancel := context.WithTimeout(r.Context(), time.Second)
						defer cancel()
						lease, err := call(mu, ctx)
						require.NoError(r, ctx.Err(), "it waited")
						if bad == 1 {
							require.NoError(r, err)
							require.NoError(r, lease.Unlock())
							return
						}
						require.ErrorContains(r, err, "WRONGTYPE")
						for i, f := range r.servers[:bad] {
							list, err := f.redis.List(key)
							require.NoError(r, err)
							require.Equal(r, []string{"x"}, list)
							ready[i].Restore(f.redis)
						}
						time.Sleep(time.Second)
						require.NoError(r, r.mustLock(mu).Unlock())
					})
				})
			}
		}
	}
}
