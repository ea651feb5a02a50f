// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// A lease that is held for so long that the guess of a server's clock is out of date is healed all the same: renewals do not return
// the time, and a server that took over has a clock of its own.
func TestRedlockHeals_WhateverTheServersClock(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"Ahead": 20 * time.Second, "Behind": -20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			healBubble(t, 3, func(h *healServers) {
				lease, _, _ := h.held()
				time.Sleep(time.Minute)
				h.setAhead(1, ahead)
				h.lose(1)
				time.Sleep(12500 * time.Millisecond)
				require.True(h, h.has(1, "a"))
				require.NoError(h, lease.Unlock())
				time.Sleep(5 * time.Second)
				require.Zero(h, h.holds())
			})
		})
	}
}

// intercept delays one call of a script at a server that knows its life, if due returns true. It returns a channel that receives when
// the call was sent.
func (h *healServers) intercept(i int, script *scripts.Script, by time.Duration, due func() bool) <-chan struct{} {
	d, isDelayed := h.delayHeals(i, by), false
	h.delay.Store(nil)
	f := h.servers[i].redis
	f.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if strings.HasPrefix(command, "EVAL") {
			f.SetTime(time.Now().Add(h.aheadOf(i)))
			if args[0] == script.SHA1 && !isDelayed && due() {
				isDelayed = true
				go d.execute(args)
				c.Close()
				return true
			}
		}
		return h.saysItsLife(i, c, command)
	})
	return d.sent
}

// An acquire that is executed after a heal does not make the hold shorter.
func TestRedlockHeals_BeforeTheAcquireComes(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		sessions, _ := h.process()
		mu := redlock.New(sessions, "a", signalbox.WithRenewedLease(30*time.Second))
		h.warm(mu)
		h.intercept(1, proto.RedlockAcquireScript, 2500*time.Millisecond, func() bool { return true })
		lease := h.mustLock(mu)
		time.Sleep(1500 * time.Millisecond)
		require.True(h, h.has(1, "a"), "healed")
		time.Sleep(1500 * time.Millisecond)
		h.servers[1].redis.SetTime(time.Now())
		require.Greater(h, h.servers[1].redis.TTL(locktest.Key("a")), 20*time.Second)
		require.NoError(h, lease.Unlock())
		time.Sleep(5 * time.Second)
		h.requireNothing(sessions...)
	})
}

// P3: a heal that is executed after the release, and after a later lease, lets no token fall behind that of the later one.
func TestRedlockHeals_LetNoTokenFall(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		h.setAhead(2, 30*time.Second)
		h.lose(1)
		began := time.Now() // of the quarantine, within which heals write nothing
		sent := h.intercept(1, proto.RedlockHealScript, 2500*time.Millisecond, func() bool { return time.Since(began) >= 10*time.Second })
		lease, _, _ := h.held(signalbox.WithRenewedLease(10 * time.Second))
		others, _ := h.process()
		second := redlock.New(others, "a", signalbox.WithRenewedLease(10*time.Second))
		others, wires := h.process()
		third := redlock.New(others, "a", signalbox.WithRenewedLease(10*time.Second))
		<-sent
		require.NoError(h, lease.Unlock())
		h.foreign(0, "7", time.Second)
		later := h.mustLock(second)
		require.NoError(h, later.Unlock())
		require.Greater(h, later.Token(), lease.Token())
		time.Sleep(2600 * time.Millisecond)
		require.True(h, h.has(1, "a"), "the heal came")
		time.Sleep(2 * time.Second)
		require.Zero(h, h.holds())
		wires[2].refuse()
		last := h.mustLock(third)
		require.Greater(h, last.Token(), later.Token())
		require.NoError(h, last.Unlock())
	})
}

// ForceUnlock: a server that removed the hold, and restarted with its data, gets it back nowhere: whatever stamp the hold had, whoever voted
// there since, and however late its session asks.
func TestRedlockHeals_NotWhatARestartedServerRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lease  time.Duration
		before func(h *healServers, mu *redlock.Lock) // what happens before the lock is acquired
		votes  bool                                   // a rival votes at the server after it removed the hold
	}{
		"StampIsAhead": {30 * time.Second, func(h *healServers, mu *redlock.Lock) {
			require.NoError(h, h.mustLock(mu).Unlock()) // its floor is ahead of the first server's clock
			time.Sleep(100 * time.Millisecond)
		}, false},
		"NoReply": {30 * time.Second, func(h *healServers, _ *redlock.Lock) {
			h.intercept(0, proto.RedlockAcquireScript, 0, func() bool { return true })
		}, false},
		"RivalVoted": {30 * time.Second, func(*healServers, *redlock.Lock) {}, true},
		"LongLease":  {10 * time.Minute, func(*healServers, *redlock.Lock) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			healBubble(t, 3, func(h *healServers) {
				h.setAhead(1, time.Second) // the token is not the stamp of the hold on the first server
				sessions, wires := h.process()
				for _, w := range wires {
					w.latency.Store(int64(hop))
				}
				mu := redlock.New(sessions, "a", signalbox.WithRenewedLease(c.lease))
				h.warm(mu)
				c.before(h, mu)
				lease := h.mustLock(mu)
				time.Sleep(2 * time.Second)
				require.Equal(h, 3, h.holds())
				others, otherWires := h.process()
				other := redlock.New(others, "a", signalbox.WithRenewedLease(c.lease))
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
				if c.votes {
					_, err = other.TryLock(h.Context())
					require.Error(h, err)
					time.Sleep(time.Second)
				}
				require.False(h, h.has(0, "a"))
				h.lives[0].Add(1)
				time.Sleep(30*time.Second + 2*c.lease/3)
				require.NoError(h, lease.Err(), "two servers have it")
				require.False(h, h.has(0, "a"))
				require.NoError(h, lease.Unlock())
			})
		})
	}
}

// P2: a server that lost its data soon after an acquire whose reply was lost, too, as if it had crashed, has removed nothing.
func TestRedlockHeals_AfterACrashBesideALostReply(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		sessions, _ := h.process()
		mu := redlock.New(sessions, "a")
		h.warm(mu)
		others, _ := h.process()
		other := redlock.New(others, "b")
		h.warm(other)
		h.intercept(1, proto.RedlockAcquireScript, 0, func() bool { return true })
		lease := h.mustLock(mu)
		time.Sleep(1200 * time.Millisecond)
		require.Equal(h, 3, h.holds(), "it was renewed")
		h.lose(1)
		h.warm(other) // whose vote begins the epoch
		time.Sleep(11 * time.Second)
		require.True(h, h.has(1, "a"))
		require.NoError(h, lease.Unlock())
	})
}
