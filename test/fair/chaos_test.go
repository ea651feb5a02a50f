// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P3, P6: while processes of a crowd are stopped and killed at any moment, the others continue, no two
// hold the lock at once, and tokens rise.
func TestCrowdContinuesThoughProcessesStopAndDie(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "processes are stopped and killed, and others wait for what the server keeps for them")
	left := 4
	newFixture(t).stopAndKill(t, func() bool { left--; return left >= 0 })
}

func TestSoakCrowdContinuesThoughProcessesStopAndDie(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	newFixture(t).stopAndKill(t, more)
}

// stopAndKill stops or kills one process of a crowd after the other, and requires that the others continue.
func (f *fixture) stopAndKill(t *testing.T, more func() bool) {
	t.Helper()
	// A process that is killed mostly has a hold of one life. If it found the lock free, or its hold was
	// renewed, it has the hold for a lease, and that must not last longer than others may have to wait.
	const name, processes, endless, leased = "faulty", 4, 1 << 40, 2 * life
	notes := f.openLog(t, name)
	begin := func() *redistest.Process {
		p := f.start(t, "crowd", workOrder{name: name, sessions: 2, users: 4, goal: endless, lease: leased})
		says(t, p, redistest.Patience, "began") // a process that is stopped during its Dial fails
		return p
	}
	var all []*redistest.Process // those that were killed too
	crowd := make([]*redistest.Process, processes)
	for i := range crowd {
		crowd[i] = begin()
		all = append(all, crowd[i])
	}
	var slowest time.Duration
	continues := func() {
		before, begun := notes.tally(t).notes, time.Now()
		redistest.AwaitFor(t, bound, "the others continue", func() bool { return notes.tally(t).notes >= before+100 })
		slowest = max(slowest, time.Since(begun))
	}
	continues()
	kills, stops := 0, 0
	for more() {
		i := rand.N(processes)
		if rand.N(2) == 0 {
			crowd[i].Kill()
			continues()
			crowd[i] = begin()
			all = append(all, crowd[i])
			kills++
			continue
		}
		crowd[i].Freeze()
		continues()
		until := f.view.Now(t).Add(rand.N(3 * life / 2)) // as long as it counts as alive, or longer
		redistest.AwaitFor(t, bound, "a while", func() bool { return f.view.Now(t).After(until) })
		crowd[i].Thaw()
		continues()
		stops++
	}
	a := notes.tally(t)
	for _, p := range all {
		p.Kill()
		require.Empty(t, p.Failures())
	}
	t.Logf("%d killed, %d stopped, the others had the lock 100 times after %v at most: %+v",
		kills, stops, slowest.Round(time.Millisecond), a)
	require.Zero(t, a.fallenTokens)
	require.Zero(t, a.sunkTokens)
	f.view.NoImmortals(t)
}
