// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A wait polls often at first, and 50 times as rarely after half a minute.
func TestWaitPollsEverMoreRarely(t *testing.T) {
	t.Parallel()
	for waited, pause := range map[time.Duration]time.Duration{
		0: 20 * time.Millisecond, 160 * time.Millisecond: 20 * time.Millisecond, 16 * time.Second: time.Second,
		32 * time.Second: 2 * time.Second, time.Hour: 2 * time.Second,
	} {
		require.Equal(t, pause, pauseAfter(waited), waited)
	}
	polls := 0
	for waited := time.Duration(0); waited < 10*time.Minute; waited += pauseAfter(waited) {
		polls++
	}
	require.Less(t, polls, 450, "four polls a second would be 2,400")
}
