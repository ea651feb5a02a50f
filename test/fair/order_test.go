// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Order: over many processes and goroutines the lock goes to the first in the queue, every time.
func TestLockIsGrantedInTheOrderOfTheQueue(t *testing.T) {
	t.Parallel()
	newFixture(t).drawsCrowd(t, "order", 1_000)
}

func TestSoakLockIsGrantedInTheOrderOfTheQueue(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	const goal = 10_000
	begun, all := time.Now(), int64(0)
	for more() {
		f := newFixture(t)
		f.drawsCrowd(t, "order", goal)
		all += goal
	}
	t.Logf("%d grants in %v", all, time.Since(begun).Round(time.Second))
}

// drawsCrowd makes three processes with two sessions each use a lock until it was granted goal times to the
// head of the queue. It fails the test if the lock was once granted out of order.
func (f *fixture) drawsCrowd(t *testing.T, name string, goal int64) {
	t.Helper()
	begun := time.Now()
	crowd := make([]*redistest.Process, 3)
	for i := range crowd {
		crowd[i] = f.start(t, "crowd", workOrder{name: name, sessions: 2, users: 8, goal: goal})
	}
	f.ended(t, crowd, time.Duration(goal)*10*time.Millisecond+limit)
	took := time.Since(begun)
	t.Logf("%d grants in %v, %.0f a second", goal, took.Round(time.Millisecond), float64(goal)/took.Seconds())
	f.openLog(t, name).faultless(t, goal)
	f.nothingLeft(t)
}

// ended waits until a crowd is done.
func (f *fixture) ended(t *testing.T, crowd []*redistest.Process, within time.Duration) {
	t.Helper()
	for _, p := range crowd {
		says(t, p, within, "began")
		says(t, p, within, "done")
		require.Zero(t, p.Wait(redistest.WaitLimit), p.Stderr())
	}
}

// Order: the tickets of one moment, however many, drain in order.
func TestManyWaitersDrainInOrder(t *testing.T) {
	t.Parallel()
	newFixture(t).drains(t, 3, 100)
}

func TestSoakManyWaitersDrainInOrder(t *testing.T) { //nolint:paralleltest // has the machine to itself
	for more := locktest.Soak(t); more(); {
		newFixture(t).drains(t, 10, 1000)
	}
}

// drains makes processes with so many goroutines each queue for one lock, which is held until all wait, and
// then hold it once.
func (f *fixture) drains(t *testing.T, processes, users int) {
	t.Helper()
	const name = "drain"
	held, notes := f.hold(t, name), f.openLog(t, name)
	crowd := make([]*redistest.Process, processes)
	for i := range crowd {
		crowd[i] = f.start(t, "crowd", workOrder{name: name, sessions: 1, users: users})
	}
	redistest.AwaitFor(t, limit, "all are queued", func() bool { return f.view.Waiting(name) == processes*users })
	_, err := notes.note(t.Context(), held) // says who is first
	require.NoError(t, err)
	begun := time.Now()
	require.NoError(t, held.Unlock())
	f.ended(t, crowd, limit)
	t.Logf("%d waiters drained in %v", processes*users, time.Since(begun).Round(time.Millisecond))
	a := notes.faultless(t, int64(processes*users))
	require.EqualValues(t, processes*users+1, a.notes)
	f.nothingLeft(t)
}
