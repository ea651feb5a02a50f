// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
