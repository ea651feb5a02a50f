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
		switch {
		case strings.HasPrefix(command, "EVAL"):
			f.SetTime(time.Now().Add(h.aheadOf(i)))
			if args[0] == script.SHA1 && !isDelayed && due() {
				isDelayed = true
				go d.execute(args)
				c.Close()
				return true
			}
		case command == "INFO":
			c.WriteBulk("role:master\r\nrun_id:" + h.life(i) + "\r\n")
			return true
		}
		return false
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
