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
			bubble(t, func(f *fixture) {
				defer clock.Skew(0)
				starter, _, closeStarter := f.session(f.T)
				defer closeStarter()
				s, link, closeWaiter := f.session(f.T)
				defer closeWaiter()
				link.latency.Store(int64(latency))
				round, err := countdown.New(starter, "a").Start(f.Context(), 1)
				require.NoError(f, err)
				mine := countdown.New(s, "a").RoundOf(round.ID())
				opened := make(chan error, 1)
				go func() { opened <- mine.Wait(f.Context()) }()
				time.Sleep(2 * time.Second)
				clock.Skew(step)
				time.Sleep(2 * time.Second)
				link.losesMessages.Store(lost)
				counted := time.Now()
				left, err := round.CountDown(f.Context(), "id")
				require.NoError(f, err)
				require.Zero(f, left)
				require.NoError(f, <-opened)
				bound := 2 * latency
				if lost {
					bound += 1200 * time.Millisecond
				}
				require.LessOrEqual(f, time.Since(counted), bound)
			})
		}
	}
}
