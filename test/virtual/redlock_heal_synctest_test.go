// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// A lease that is held for so long that the guess of a server's clock is out of date is given back all the same: renewals do not tell
// the time, and a server that took over has a clock of its own.
func TestRedlockHeals_WhateverTheServersClock(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"Ahead": 20 * time.Second, "Behind": -20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			healBubble(t, 3, func(h *healServers) {
				lease, _, _ := h.held()
				time.Sleep(time.Minute)
				h.ahead[1] = ahead
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

// An acquire that is executed after a heal does not make the hold shorter.
func TestRedlockHeals_BeforeTheAcquireComes(t *testing.T) {
	t.Parallel()
	healBubble(t, 3, func(h *healServers) {
		sessions, _ := h.process()
		mu := redlock.New(sessions, "a", signalbox.WithRenewedLease(30*time.Second))
		h.warm(mu)
		d, isDelayed := h.delayHeals(1, 2500*time.Millisecond), false
		h.delay.Store(nil)
		f := h.servers[1].redis
		f.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
			switch {
			case strings.HasPrefix(command, "EVAL"):
				f.SetTime(time.Now())
				if args[0] == scripts.RedlockAcquire.SHA1 && !isDelayed {
					isDelayed = true
					go d.execute(args)
					c.Close()
					return true
				}
			case command == "INFO":
				c.WriteBulk("role:master\r\nrun_id:" + h.life(1) + "\r\n")
				return true
			}
			return false
		})
		lease := h.mustLock(mu)
		time.Sleep(1500 * time.Millisecond)
		require.True(h, h.has(1, "a"), "healed")
		time.Sleep(1500 * time.Millisecond)
		f.SetTime(time.Now())
		require.Greater(h, f.TTL(locktest.Key("a")), 20*time.Second)
		require.NoError(h, lease.Unlock())
		time.Sleep(5 * time.Second)
		h.requireNothing(sessions...)
	})
}
