// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

// P2, order: processes whose wall clocks are wrong by 20 minutes, either way, take turns with one
// whose clock is right, and none loses its place or its lock: the server's clock is the only one.
func TestWrongWallClocksChangeNothing(t *testing.T) {
	t.Parallel()
	const name, goal = "clocks", 1500
	w := newWorld(t)
	var crowd []*redistest.Process
	for _, skew := range []time.Duration{-20 * time.Minute, 0, 20 * time.Minute} {
		crowd = append(crowd, w.start(t, "crowd", order{name: name, sessions: 1, users: 4, goal: goal, skew: skew}))
	}
	w.ended(t, crowd, limit)
	w.book(t, name).faultless(t, goal)
	w.nothingLeft(t)
}

// P2: a lease of a process whose wall clock is wrong is kept for as long as it is held, and a waiter whose
// clock is wrong has its turn then.
func TestLeaseIsKeptThoughTheWallClockIsWrong(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"Behind": -20 * time.Minute, "Ahead": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			held := w.hold(t, name)
			first := w.start(t, "queue", order{name: name, sessions: 1, users: 1, skew: skew})
			w.waiting(t, name, 1)
			second := w.start(t, "queue", order{name: name, sessions: 1, users: 1, skew: -skew})
			w.waiting(t, name, 2)
			require.NoError(t, held.Unlock())
			says(t, first, redistest.Patience, "began")
			says(t, first, bound, "granted")
			mine := w.view.MustHold(t, name).ID
			until := w.view.Now(t).Add(life + time.Second)
			redistest.AwaitFor(t, bound, "its first life is over", func() bool { return w.view.Now(t).After(until) })
			require.Equal(t, mine, w.view.MustHold(t, name).ID, "it was not renewed")
			first.Send("unlock")
			says(t, first, redistest.Patience, "unlocked <nil>")
			says(t, second, redistest.Patience, "began")
			says(t, second, redistest.Patience, "granted")
			second.Send("unlock")
			says(t, second, redistest.Patience, "unlocked <nil>")
			w.nothingLeft(t)
		})
	}
}
