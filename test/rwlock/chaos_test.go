// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P3, P6: while processes of a crowd of readers and writers are stopped and killed, wherever they are, the others continue,
// no user is beside a writer, and tokens rise.
func TestCrowdContinuesThoughProcessesStopAndDie(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "real processes are stopped and killed at any instruction, and others wait for their leases")
	faults := 0
	newFixture(t).stopAndKill(t, func() bool { faults++; return faults <= 2 })
}

func TestSoakCrowdContinuesThoughProcessesStopAndDie(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	newFixture(t).stopAndKill(t, more)
}

// stopAndKill stops or kills one process of a crowd after the other, and requires that the others continue:
// readers and writers.
func (f *fixture) stopAndKill(t *testing.T, more func() bool) {
	t.Helper()
	const name, processes, life = "faulty", 3, time.Second
	notes := f.openLog(t, name)
	begin := func() *redistest.Process {
		p := f.start(t, "crowd", locktest.Writer(), name, life)
		says(t, p, "began")
		return p
	}
	crowd := make([]*redistest.Process, processes)
	for i := range crowd {
		crowd[i] = begin()
	}
	var slowest time.Duration
	continues := func() {
		before, begun := notes.tally(t), time.Now()
		redistest.AwaitFor(t, limit, "the others continue", func() bool {
			a := notes.tally(t)
			return a.writes >= before.writes+20 && a.reads >= before.reads+20
		})
		slowest = max(slowest, time.Since(begun))
	}
	continues()
	kills, stops := 0, 0
	for more() {
		i := rand.N(processes)
		if kills <= stops {
			crowd[i].Kill()
			require.Empty(t, crowd[i].Failures())
			continues()
			crowd[i] = begin()
			kills++
			continue
		}
		crowd[i].Freeze()
		continues()
		until := f.view.Now(t).Add(rand.N(4 * time.Second)) // as long as it counts as alive, or longer
		redistest.AwaitFor(t, limit, "a while", func() bool { return f.view.Now(t).After(until) })
		crowd[i].Thaw()
		continues()
		stops++
	}
	for _, p := range crowd {
		p.Kill()
		require.Empty(t, p.Failures())
	}
	t.Logf("%d killed, %d stopped, the others had 20 turns on each side after %v at most", kills, stops, slowest.Round(time.Millisecond))
	notes.mustBeTrue(t)
	f.view.NoImmortals(t)
}
