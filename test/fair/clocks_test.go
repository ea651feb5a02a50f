// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P2, order: processes whose wall clocks are wrong by 20 minutes, either way, take turns with one whose
// clock is right. None loses its ticket or its lock: only the server's clock counts.
func TestWrongWallClocksChangeNothing(t *testing.T) {
	t.Parallel()
	const name, goal = "clocks", 200
	f := newFixture(t)
	var crowd []*redistest.Process
	for _, skew := range []time.Duration{-20 * time.Minute, 0, 20 * time.Minute} {
		crowd = append(crowd, f.start(t, "crowd", workOrder{name: name, sessions: 1, users: 4, goal: goal, skew: skew}))
	}
	f.ended(t, crowd, limit)
	f.openLog(t, name).faultless(t, goal)
	f.nothingLeft(t)
}
