// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
)

// healServers is servers that restart without data, each with a life of its own.
type healServers struct {
	*redlockServers

	lives  []atomic.Int64
	wires  [][]*wire // by server
	hides  atomic.Bool
	heals  []atomic.Int64 // the calls of redlock/heal, by server
	others []atomic.Int64 // the calls of other scripts

	delay atomic.Pointer[delay] // what becomes of heals within the quarantine
}

// healBubble runs a test in virtual time, with so many servers that grant at once, and of which each knows its life.
func healBubble(t *testing.T, n int, test func(h *healServers)) {
	t.Helper()
	bubbleOf(t, n, func(r *redlockServers) {
		h := &healServers{
			redlockServers: r, lives: make([]atomic.Int64, n), wires: make([][]*wire, n), heals: make([]atomic.Int64, n), others: make([]atomic.Int64, n),
		}
		for i, f := range r.servers {
			f.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
				switch {
				case strings.HasPrefix(command, "EVAL"):
					f.redis.SetTime(time.Now().Add(r.aheadOf(i)))
					if args[0] == proto.RedlockHealScript.SHA1 {
						h.heals[i].Add(1)
						if delay := h.delay.Load(); delay != nil && args[11] != "" { // the epoch of the first hold
							go delay.execute(args)
							c.Close()
							return true
						}
					} else {
						h.others[i].Add(1)
					}
				}
				return h.saysItsLife(i, c, command)
			})
			since := time.Now().Add(-time.Hour).UnixMicro()
			require.NoError(h, f.redis.Set("sb:epoch", fmt.Sprintf("sb1e%016d%016d%s", since, since, h.life(i))))
		}
		test(h)
	})
}

// saysItsLife replies to a command if that asks for the life of a server.
func (h *healServers) saysItsLife(i int, c *server.Peer, command string) bool {
	switch {
	case command != "INFO":
		return false
	case h.hides.Load():
		c.WriteError("NOPERM this user has no permissions to run the 'info' command")
	default:
		c.WriteBulk("role:master\r\nrun_id:" + h.life(i) + "\r\n")
	}
	return true
}

func (h *healServers) life(i int) string { return fmt.Sprintf("%040d", 1000*i+int(h.lives[i].Load())) }

// process returns sessions as a process of its own would have them, and its wires.
func (h *healServers) process(options ...signalbox.SessionOption) ([]*signalbox.Session, []*wire) {
	sessions, wires := h.redlockServers.process(options...)
	for i, w := range wires {
		h.wires[i] = append(h.wires[i], w)
	}
	return sessions, wires
}

// requireLost waits until the lease is lost, and checks that no server keeps its hold.
func (h *healServers) requireLost(lease signalbox.Lease) {
	h.Helper()
	<-lease.Done()
	require.ErrorIs(h, lease.Err(), signalbox.ErrLost)
	time.Sleep(time.Minute)
	require.Zero(h, h.holds())
}

// restart stops a server, which loses its data, and starts it again after a while.
func (h *healServers) restart(i int, down time.Duration) {
	for _, w := range h.wires[i] {
		w.refuse()
	}
	h.lose(i)
	time.Sleep(down)
	for _, w := range h.wires[i] {
		w.heal()
	}
}

// delay is how heals within the quarantine are delayed, on a way of their own. Their connection ends instead of a reply.
type delay struct {
	*healServers

	by     time.Duration
	client rueidis.Client
	sent   chan struct{} // receives when one is sent
}

// delayHeals delays heals of a server.
func (h *healServers) delayHeals(i int, by time.Duration) *delay {
	client, _ := h.servers[i].client(h.T)
	h.ends = append(h.ends, client.Close)
	d := &delay{h, by, client, make(chan struct{}, 100)}
	h.delay.Store(d)
	return d
}

func (d *delay) execute(args []string) {
	d.sent <- struct{}{}
	time.Sleep(d.by)
	d.delay.Store(nil) // it is one of them
	err := d.client.Do(d.Context(), d.client.B().Arbitrary("EVALSHA").Args(args...).Build()).Error()
	if why, isErr := rueidis.IsRedisErr(err); isErr && why.IsNoScript() {
		d.Error("a delayed call ran nothing: its digest is of another text than the server has, see scripts/testdata/digests.txt")
	}
}

// lose lets a server restart without data, so fast that its clients keep their connections.
func (h *healServers) lose(i int) {
	h.servers[i].redis.FlushAll()
	h.lives[i].Add(1)
}

// has reports whether a server has a hold of a lock.
func (h *healServers) has(i int, name string) bool {
	f := h.servers[i]
	f.redis.SetTime(time.Now().Add(h.aheadOf(i)))
	value, err := f.redis.Get(locktest.Key(name))
	return err == nil && strings.HasPrefix(value, "sb1q")
}

func (h *healServers) healCount() (n int64) {
	for i := range h.heals {
		n += h.heals[i].Load()
	}
	return n
}

// held acquires "a" by a process of its own and waits until it has its whole lease.
func (h *healServers) held(options ...signalbox.LockOption) (signalbox.Lease, *redlock.Lock, []*wire) {
	h.Helper()
	sessions, wires := h.process()
	mu := redlock.New(sessions, "a", options...)
	lease := h.mustLock(mu)
	time.Sleep(2 * time.Second)
	return lease, mu, wires
}

// Within the quarantine: servers that restart one after the other get the hold back, long before they vote.
func TestRedlockHeals_WithinTheQuarantine(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			healBubble(t, n, func(h *healServers) {
				lease, mu, _ := h.held()
				for round := range 3 * n {
					h.restart(round%n, time.Second)
					time.Sleep(14 * time.Second)
					require.True(h, h.has(round%n, "a"), round)
					require.NoError(h, lease.Err())
				}
				holder, err := mu.Holder(h.Context())
				require.NoError(h, err)
				require.Equal(h, lease.Token(), holder.Token, "the stamp is that of the lease's token")
				require.NoError(h, lease.Unlock())
				time.Sleep(time.Second)
				require.Zero(h, h.holds())
			})
		})
	}
}

// A heal never rescues: a lease that a majority lost is lost, and neither fixed leases nor the last life before WithMaxHold are healed.
func TestRedlockHeals_NeverRescues(t *testing.T) {
	t.Parallel()
	t.Run("Majority", func(t *testing.T) {
		t.Parallel()
		healBubble(t, 3, func(h *healServers) {
			lease, _, _ := h.held()
			h.lose(0)
			h.lose(1)
			h.requireLost(lease)
			require.Zero(h, h.healCount())
		})
	})
	for name, options := range map[string][]signalbox.LockOption{
		"Fixed": {signalbox.WithFixedLease(time.Minute)}, "MaxHold": {signalbox.WithMaxHold(20 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			healBubble(t, 3, func(h *healServers) {
				lease, _, _ := h.held(options...)
				h.lose(0)
				time.Sleep(15 * time.Second)
				require.NoError(h, lease.Err())
				require.False(h, h.has(0, "a"))
				_ = lease.Unlock()
			})
		})
	}
}

// A lease of 3 s beside a server that is down may be lost: the round after a loss has no majority.
func TestRedlockHeals_NotAShortLeaseBesideADeadServer(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		lease, _, wires := h.held(signalbox.WithRenewedLease(3 * time.Second))
		wires[2].refuse()
		h.restart(0, 2*time.Second)
		<-lease.Done()
		require.ErrorIs(h, lease.Err(), signalbox.ErrLost)
		wires[2].heal()
		time.Sleep(10 * time.Second)
		require.Zero(h, h.holds())
	})
}

// A thousand holds of a server that restarted cost it a few calls, and a reply that comes after the others have decided counts.
func TestRedlockHeals_ManyHoldsInFewCalls(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		const holds = 1000
		sessions, wires := h.process()
		var leases []signalbox.Lease
		for i := range holds {
			leases = append(leases, h.mustLock(redlock.New(sessions, fmt.Sprint("n", i))))
		}
		time.Sleep(15 * time.Second)
		wires[1].latency.Store(int64(hop))
		h.lose(1)
		time.Sleep(25 * time.Second)
		synctest.Wait()
		for i, lease := range leases {
			require.NoError(h, lease.Err())
			require.True(h, h.has(1, fmt.Sprint("n", i)), i)
		}
		require.Less(h, h.heals[1].Load(), int64(200), "not one for each")
		for _, lease := range leases {
			require.NoError(h, lease.Unlock())
		}
		time.Sleep(5 * time.Second)
		for i := range holds {
			require.False(h, h.has(1, fmt.Sprint("n", i)), i)
		}
	})
}

// After the quarantine alone: where a longer lease may exist, where the server never granted, and where restarts with old data are not
// noticed.
func TestRedlockHeals_AfterTheQuarantine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		before  func(h *healServers)
		after   time.Duration
	}{
		"Longer": {[]signalbox.LockOption{signalbox.WithRenewedLease(10 * time.Second), redlock.GreatestLease(40 * time.Second)}, func(*healServers) {}, 40 * time.Second},
		"Never":  {[]signalbox.LockOption{signalbox.WithRenewedLease(30 * time.Second)}, func(h *healServers) { h.lose(1) }, 30 * time.Second},
		"NoInfo": {[]signalbox.LockOption{signalbox.WithRenewedLease(30 * time.Second)}, func(h *healServers) { h.hides.Store(true) }, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			healBubble(t, 3, func(h *healServers) {
				c.before(h)
				lease, _, _ := h.held(c.options...)
				if name != "Never" {
					h.lose(1)
				}
				time.Sleep(c.after - 4*time.Second)
				require.False(h, h.has(1, "a"))
				time.Sleep(26 * time.Second)
				require.True(h, h.has(1, "a"))
				h.lose(0)
				time.Sleep(15 * time.Second)
				require.NoError(h, lease.Err(), "the healed server counts")
				require.NoError(h, lease.Unlock())
			})
		})
	}
}

// The passing vote of a rival is waited for.
func TestRedlockHeals_AfterARivalsVote(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		h.foreign(1, "7", 4100*time.Millisecond)
		lease, _, _ := h.held(signalbox.WithRenewedLease(12 * time.Second))
		time.Sleep(14 * time.Second)
		require.True(h, h.has(1, "a"))
		require.NotContains(h, h.value(1), strings.Repeat("7", 19))
		require.NoError(h, lease.Unlock())
	})
}

// A heal that comes late writes nothing.
func TestRedlockHeals_LateHealWritesNothing(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		lease, _, _ := h.held()
		d := h.delayHeals(1, 3100*time.Millisecond)
		h.lose(1)
		<-d.sent
		time.Sleep(4 * time.Second)
		require.False(h, h.has(1, "a"))
		time.Sleep(15 * time.Second)
		require.NoError(h, lease.Err())
		require.True(h, h.has(1, "a"))
		require.NoError(h, lease.Unlock())
	})
}

// P3: with Fenced a healed server keeps the token, so that the next holder has a greater one after each server lost its data once, also if
// the clocks of all servers were set back.
func TestRedlockHeals_KeepTheFence(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		lease, _, _ := h.held(redlock.Fenced())
		for i := range 3 {
			h.restart(i, time.Second)
			time.Sleep(19 * time.Second)
		}
		require.NoError(h, lease.Err())
		for i, f := range h.servers {
			fence, err := f.redis.Get(locktest.Keys("a").Fence())
			require.NoError(h, err, i)
			require.Equal(h, h.value(i)[4:20], fence, "the token")
		}
		require.NoError(h, lease.Unlock())
		time.Sleep(time.Minute)
		for i := range h.ahead {
			h.setAhead(i, -10*time.Minute)
			h.remove(i)
			since := time.Now().Add(-time.Hour).UnixMicro()
			require.NoError(h, h.servers[i].redis.Set("sb:epoch", fmt.Sprintf("sb1e%016d%016d%s", since, since, h.life(i))))
		}
		next, _, _ := h.held(redlock.Fenced())
		require.Greater(h, next.Token(), lease.Token())
		require.NoError(h, next.Unlock())
	})
}

// P3: a server that granted after the token was kept by the others keeps it from the next renewal on.
func TestRedlockHeals_LateGrantKeepsTheFence(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		sessions, wires := h.process()
		mu := redlock.New(sessions, "a", redlock.Fenced())
		h.warm(mu)
		h.servers[2].redis.Del(locktest.Keys("a").Fence())
		wires[2].latency.Store(int64(700 * time.Millisecond))
		lease := h.mustLock(mu)
		time.Sleep(1400 * time.Millisecond)
		wires[2].latency.Store(0)
		time.Sleep(15 * time.Second)
		fence, err := h.servers[2].redis.Get(locktest.Keys("a").Fence())
		require.NoError(h, err)
		require.Equal(h, h.value(0)[4:20], fence)
		require.NoError(h, lease.Unlock())
	})
}

// P1, P3: a server that had the hold all the time, and got its token late, counts beside one that was cut off.
func TestRedlockHeals_ALateTokenIsNoHeal(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		sessions, wires := h.process(signalbox.WithPolling())
		mu := redlock.New(sessions, "a", redlock.Fenced())
		h.warm(mu)
		wires[2].latency.Store(int64(700 * time.Millisecond))
		lease := h.mustLock(mu)
		time.Sleep(1400 * time.Millisecond)
		wires[2].latency.Store(0)
		time.Sleep(3 * time.Second)
		require.EqualValues(h, 1, h.heals[2].Load(), "the token came late")
		wires[1].goSilent()
		time.Sleep(45 * time.Second)
		require.NoError(h, lease.Err())
		require.Equal(h, 2, h.holds())
		wires[1].heal()
		time.Sleep(25 * time.Second)
		require.NotZero(h, h.heals[1].Load())
		require.NoError(h, lease.Unlock())
	})
}

// A server that misses the renewal that makes more of the first lease gets another one before that is over. So it keeps the hold, and
// the lease is healed on.
func TestRedlockHeals_AfterAMissedFirstRenewal(t *testing.T) {
	t.Parallel()
	for name, misses := range map[string]func(w *wire){"Silent": (*wire).goSilent, "Refuses": (*wire).refuse} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			healBubble(t, 3, func(h *healServers) {
				sessions, wires := h.process()
				mu := redlock.New(sessions, "a")
				h.warm(mu)
				lease := h.mustLock(mu)
				time.Sleep(100 * time.Millisecond)
				misses(wires[1])
				time.Sleep(1500 * time.Millisecond)
				wires[1].heal()
				time.Sleep(13 * time.Second)
				require.Equal(h, 3, h.holds())
				require.Zero(h, h.healCount())
				h.restart(0, time.Second)
				time.Sleep(14 * time.Second)
				require.True(h, h.has(0, "a"))
				require.NoError(h, lease.Unlock())
			})
		})
	}
}

// P4: a heal whose outcome is unknown is taken back after the release, whenever it is executed, and the next Lock of the process waits for
// that at this server.
func TestRedlockHeals_UnknownHealIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"ReplyLost": 0, "RequestLate": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			healBubble(t, 3, func(h *healServers) {
				sessions, _ := h.process()
				mu := redlock.New(sessions, "a", signalbox.WithRenewedLease(2*time.Minute))
				lease := h.mustLock(mu)
				time.Sleep(4 * time.Second)
				d := h.delayHeals(1, late)
				h.lose(1)
				<-d.sent
				time.Sleep(time.Millisecond)
				require.NoError(h, lease.Unlock())
				if late > 0 {
					time.Sleep(late + 100*time.Millisecond)
					require.True(h, h.has(1, "a"), "it came after the release")
				}
				time.Sleep(10 * time.Second)
				require.False(h, h.has(1, "a"), "it lasts for two minutes")
				h.requireNothing(sessions...)
			})
		})
	}
}

// ForceUnlock: a server that removed the hold gets it back nowhere, whatever was lost, and a server that was healed meanwhile does not
// count.
func TestRedlockHeals_NotAfterForceUnlock(t *testing.T) {
	t.Parallel()
	t.Run("Minority", func(t *testing.T) {
		t.Parallel()
		healBubble(t, 3, func(h *healServers) {
			lease, _, _ := h.held()
			h.remove(0)
			time.Sleep(12 * time.Second)
			h.lose(1)
			h.requireLost(lease)
		})
	})
	t.Run("HealInFlight", func(t *testing.T) {
		t.Parallel()
		healBubble(t, 3, func(h *healServers) {
			lease, _, _ := h.held()
			d := h.delayHeals(1, time.Second)
			h.lose(1)
			<-d.sent
			h.remove(0) // as ForceUnlock does, which found the second free, never reached the third, and whose message is lost
			time.Sleep(2 * time.Second)
			require.Equal(h, 2, h.holds(), "the heal came")
			h.requireLost(lease)
		})
	})
	t.Run("LastLife", func(t *testing.T) {
		t.Parallel()
		healBubble(t, 3, func(h *healServers) {
			lease, _, _ := h.held(signalbox.WithMaxHold(66 * time.Second))
			time.Sleep(23900 * time.Millisecond) // the next renewal is the last one that asks for a whole lease
			d := h.delayHeals(1, time.Second)
			h.lose(1)
			<-d.sent
			h.remove(0)
			sent := time.Now()
			h.requireLost(lease)
			require.Less(h, time.Since(sent), time.Minute+11*time.Second, "the next renewal asks for less than a lease, and finds it removed")
		})
	})
	t.Run("RestartedWithItsData", func(t *testing.T) {
		t.Parallel()
		healBubble(t, 3, func(h *healServers) {
			h.setAhead(1, time.Millisecond) // the token is not the stamp of the hold on the first server
			lease, _, wires := h.held()
			h.lives[0].Add(1)
			others, otherWires := h.process()
			other := redlock.New(others, "a")
			_, err := other.Holder(h.Context())
			require.NoError(h, err)
			for i := range wires {
				wires[i].losesMessages.Store(true)
				if i > 0 {
					otherWires[i].refuse()
				}
			}
			require.Error(h, other.ForceUnlock(h.Context()))
			time.Sleep(time.Second) // it does not wait for the first server, once two have failed
			require.False(h, h.has(0, "a"))
			time.Sleep(time.Minute)
			require.NoError(h, lease.Err(), "two servers have it")
			require.False(h, h.has(0, "a"))
			require.NoError(h, lease.Unlock())
		})
	})
	t.Run("HealedLongBefore", func(t *testing.T) {
		t.Parallel()
		healBubble(t, 3, func(h *healServers) {
			lease, _, _ := h.held()
			h.restart(1, time.Second)
			time.Sleep(time.Minute)
			h.remove(0)
			time.Sleep(time.Minute)
			require.NoError(h, lease.Err(), "two servers have it, of which one was healed before")
			require.False(h, h.has(0, "a"))
			require.NoError(h, lease.Unlock())
		})
	})
}

// A key that ran out looks like one that was removed.
func TestRedlockHeals_NotAServerThatWasCutOff(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		lease, _, wires := h.held(signalbox.WithRenewedLease(6 * time.Second))
		wires[1].refuse()
		time.Sleep(10 * time.Second)
		wires[1].heal()
		time.Sleep(20 * time.Second)
		require.False(h, h.has(1, "a"))
		require.NoError(h, lease.Unlock())
	})
}

// While no server says that the hold is gone, a lock sends what it sent before: one script a server for the acquire, each renewal and the
// release.
func TestRedlockHeals_CostNothingOtherwise(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		lease, _, _ := h.held()
		time.Sleep(time.Minute)
		require.NoError(h, lease.Unlock())
		time.Sleep(time.Second)
		require.Zero(h, h.healCount())
		for i := range h.others {
			require.LessOrEqual(h, h.others[i].Load(), int64(16)) // handshake, acquire, about seven renewals, release, and their first texts
		}
	})
}

// The storm: a server restarts without data every 20 s, for ten minutes, or for two if tests are to be short. Beside a lease that is held for all that time, a rival asks for
// it, a lock is taken by force while messages are lost, and a holder is cut off for longer than its lease.
func TestRedlockHeals_Storm(t *testing.T) {
	t.Parallel()
	lasts := 10 * time.Minute
	if testing.Short() {
		lasts = 2 * time.Minute
	}
	for name, c := range map[string]struct {
		lease time.Duration
		hides bool
	}{"WithinTheQuarantine": {30 * time.Second, false}, "AfterTheQuarantine": {10 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			healBubble(t, 3, func(h *healServers) {
				h.hides.Store(c.hides)
				storm := &storm{healServers: h, lease: signalbox.WithRenewedLease(c.lease), ends: time.Now().Add(lasts)}
				lease, _, _ := h.held(storm.lease, redlock.Fenced())
				rival, forced, forcing, cut, next := storm.side(), storm.side(), storm.side(), storm.side(), storm.side()
				storm.run(func() { storm.rival(lease, rival) })
				storm.run(func() { storm.force(forced, forcing) })
				storm.run(func() { storm.cutOff(cut, next) })
				for i := 0; time.Now().Before(storm.ends); i++ {
					h.restart(i%3, time.Second)
					time.Sleep(19 * time.Second)
					require.NoError(h, lease.Err(), "after %d restarts", i+1)
				}
				for range 3 {
					<-storm.done
				}
				require.NoError(h, lease.Unlock())
				time.Sleep(time.Minute)
				for i := range h.servers {
					for _, name := range []string{"a", "forced", "cut"} {
						require.False(h, h.has(i, name), "%s is left on server %d", name, i)
					}
				}
			})
		})
	}
}

// storm is what runs beside a lease while servers restart.
type storm struct {
	*healServers

	lease signalbox.LockOption
	ends  time.Time
	done  chan struct{}
}

// side is a process of a storm.
type side struct {
	sessions []*signalbox.Session
	wires    []*wire
}

// side makes one, before anything runs beside it.
func (s *storm) side() side {
	sessions, wires := s.process()
	return side{sessions, wires}
}

func (s *storm) run(what func()) {
	if s.done == nil {
		s.done = make(chan struct{}, 3)
	}
	go func() {
		defer func() { s.done <- struct{}{} }()
		what()
	}()
}

// rival asks for the lock that is held.
func (s *storm) rival(held signalbox.Lease, by side) {
	mu := redlock.New(by.sessions, "a", s.lease, redlock.Fenced())
	for time.Now().Before(s.ends) {
		ctx, cancel := context.WithTimeout(s.Context(), 7*time.Second)
		if lease, err := mu.Lock(ctx); err == nil {
			if held.Err() == nil {
				s.Error("held twice")
			}
			_ = lease.Unlock()
		}
		cancel()
		if lease, err := mu.TryLock(s.Context()); err == nil {
			s.Error("acquired", held.Err())
			_ = lease.Unlock()
		}
		time.Sleep(rand.N(time.Second))
	}
}

// force takes a lock by force whose holder does not hear of it by message. Its tokens rise.
func (s *storm) force(holder, other side) {
	for _, w := range holder.wires {
		w.losesMessages.Store(true)
	}
	mu, by := redlock.New(holder.sessions, "forced", s.lease, redlock.Fenced()), redlock.New(other.sessions, "forced", s.lease, redlock.Fenced())
	last := uint64(0)
	for time.Now().Before(s.ends) {
		lease, err := mu.Lock(s.Context())
		if err != nil {
			s.Error(err)
			return
		}
		if lease.Token() <= last {
			s.Error("the token fell")
		}
		last = lease.Token()
		time.Sleep(rand.N(40 * time.Second))
		if by.ForceUnlock(s.Context()) == nil {
			select {
			case <-lease.Done():
			case <-time.After(16 * time.Second):
				s.Error("the holder did not find out by its next renewal")
			}
		}
		_ = lease.Unlock()
	}
}

// cutOff lets a holder stand still for longer than its lease: another one has the lock then.
func (s *storm) cutOff(holder, next side) {
	wires := holder.wires
	mu, other := redlock.New(holder.sessions, "cut", s.lease), redlock.New(next.sessions, "cut", s.lease)
	for time.Now().Before(s.ends) {
		lease, err := mu.Lock(s.Context())
		if err != nil {
			s.Error(err)
			return
		}
		time.Sleep(rand.N(30 * time.Second))
		for _, w := range wires {
			w.goSilent()
		}
		next, err := other.Lock(s.Context())
		if err != nil || lease.Err() == nil {
			s.Error("held twice, or not acquired", err)
		}
		for _, w := range wires {
			w.heal()
		}
		_ = lease.Unlock()
		time.Sleep(rand.N(10 * time.Second))
		_ = next.Unlock()
	}
}
