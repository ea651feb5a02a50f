// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/clock"
)

// P6: the Wait of a latch returns on time, even by its next poll, whatever was done to the wall
// clock.
func TestALatchOpensOnTimeAfterAStep(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	const latency = 100 * time.Millisecond
	for _, step := range []time.Duration{-100 * time.Second, -time.Second, time.Second, 100 * time.Second} {
		for _, lost := range []bool{false, true} {
			bubble(t, func(w *fixture) {
				defer clock.Skew(0)
				starter, _, closeStarter := w.session(w.T)
				defer closeStarter()
				s, link, closeWaiter := w.session(w.T)
				defer closeWaiter()
				link.latency.Store(int64(latency))
				round, err := countdown.New(starter, "a").Start(w.Context(), 1)
				require.NoError(w, err)
				mine := countdown.New(s, "a").RoundOf(round.ID())
				opened := make(chan error, 1)
				go func() { opened <- mine.Wait(w.Context()) }()
				time.Sleep(2 * time.Second)
				clock.Skew(step)
				time.Sleep(2 * time.Second)
				link.losesMessages.Store(lost)
				counted := time.Now()
				left, err := round.CountDown(w.Context(), "id")
				require.NoError(w, err)
				require.Zero(w, left)
				require.NoError(w, <-opened)
				bound := 2 * latency
				if lost {
					bound += 1200 * time.Millisecond
				}
				require.LessOrEqual(w, time.Since(counted), bound)
			})
		}
	}
}
