// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// kind is a kind of lock, with the scripts by which it is taken and given back, and what takes
// back an acquire of which nothing is known.
type kind struct {
	locktest.Primitive

	// rival is the kind that keeps it out, and is kept out by it: itself, mostly.
	rival                  locktest.Primitive
	acquire, release, undo *scripts.Script
	// seize is what a ForceUnlock asks, and then orders; nil where there is none.
	seize []*scripts.Script
	// retold: an acquire that is repeated is told a later token of the same hold. The lease has one of them.
	retold    bool
	scenarios []scenario
}

func reentrantLocks() kind {
	const acquire = "reentrant/acquire"
	return kind{
		Primitive: locktest.Reentrant(), rival: locktest.Reentrant(),
		acquire: scripts.ReentrantAcquire, release: scripts.ReentrantRelease, undo: scripts.ReentrantWithdraw,
		seize: []*scripts.Script{scripts.HolderDescribe, scripts.HolderForce},
		scenarios: []scenario{
			{name: "LockOfAFreeLock", steps: []string{hello, acquire}},
			{name: "LockThatWaits", held: true, after: 4, steps: []string{hello, acquire, subscribe, acquire, acquire}},
			{name: "TryLockOfAFreeLock", try: true, steps: []string{hello, acquire}},
			{name: "TryLockOfAHeldLock", try: true, held: true, steps: []string{hello, acquire}},
			{
				name: "LockThatSubscribesAgain", held: true, after: 6, cut: 3,
				steps: []string{hello, acquire, subscribe, acquire, subscribe, acquire, acquire},
			},
		},
	}
}

func fairLocks() kind {
	const enter, look = "fair/enter", "fair/look"
	return kind{
		Primitive: locktest.Fair(), rival: locktest.Fair(),
		acquire: scripts.FairEnter, release: scripts.FairLeave, undo: scripts.FairLeave,
		seize: []*scripts.Script{scripts.HolderDescribe, scripts.FairForce},
		scenarios: []scenario{
			{name: "LockOfAFreeLock", steps: []string{hello, enter}},
			{name: "LockThatWaits", held: true, after: 3, steps: []string{hello, enter, subscribe}},
			{name: "TryLockOfAFreeLock", try: true, steps: []string{hello, enter}},
			{name: "TryLockOfAHeldLock", try: true, held: true, steps: []string{hello, enter}},
			{name: "LockThatSubscribesAgain", held: true, after: 4, cut: 3, steps: []string{hello, enter, subscribe, subscribe}},
			{
				// Looks go on for as long as the lock is waited for.
				name: "LockThatIsFoundByALook", held: true, after: 2, deaf: true, loose: true,
				match: locktest.Runs(scripts.FairLook), steps: []string{look, look, look},
			},
		},
	}
}

// rwlocks answers one side of read-write locks. They wait as fair locks do, and each way to wait is swept by one side.
func rwlocks(side locktest.Primitive, scenarios ...scenario) kind {
	return kind{
		Primitive: side, rival: locktest.Writer(),
		acquire: scripts.RWLockEnter, release: scripts.RWLockLeave, undo: scripts.RWLockLeave,
		seize: []*scripts.Script{scripts.HoldsList, scripts.RWLockForce},
		scenarios: append(scenarios,
			scenario{name: "LockThatWaits", held: true, after: 3, steps: []string{hello, "rwlock/enter", subscribe}}),
	}
}

func writers() kind {
	const enter, look = "rwlock/enter", "rwlock/look"
	return rwlocks(locktest.Writer(),
		scenario{name: "LockOfAFreeLock", steps: []string{hello, enter}},
		scenario{
			// Looks go on for as long as the lock is waited for.
			name: "LockThatIsFoundByALook", held: true, after: 2, deaf: true, loose: true,
			match: locktest.Runs(scripts.RWLockLook), steps: []string{look, look, look},
		})
}

func readers() kind {
	const enter = "rwlock/enter"
	return rwlocks(locktest.Reader(),
		scenario{name: "TryLockOfAFreeLock", try: true, steps: []string{hello, enter}},
		scenario{name: "TryLockOfAHeldLock", try: true, held: true, steps: []string{hello, enter}},
		scenario{name: "LockThatSubscribesAgain", held: true, after: 4, cut: 3, steps: []string{hello, enter, subscribe, subscribe}})
}

// permits is a semaphore of one. It waits as fair locks do.
func permits() kind {
	const enter = "semaphore/enter"
	return kind{
		Primitive: locktest.Permit(), rival: locktest.Permit(), retold: true,
		acquire: scripts.SemaphoreEnter, release: scripts.SemaphoreLeave, undo: scripts.SemaphoreLeave,
		scenarios: []scenario{
			{name: "LockOfAFreeLock", steps: []string{hello, enter}},
			{name: "LockThatWaits", held: true, after: 3, steps: []string{hello, enter, subscribe}},
			{name: "TryLockOfAHeldLock", try: true, held: true, steps: []string{hello, enter}},
		},
	}
}

func kinds() []kind {
	return []kind{reentrantLocks(), fairLocks(), writers(), readers(), permits()}
}

// counts matches what the trials of a scenario count: the steps of an acquire and what undoes
// them, unless it has a match of its own.
func (k kind) counts(s scenario) redistest.Match {
	if s.match != nil {
		return s.match
	}
	ours, subscribes := locktest.Runs(scripts.SessionHello, k.acquire, k.undo, k.release), redistest.Commands(subscribe)
	own := names.Session(names.DefaultPrefix, "") // where a session listens that holds a lock for more than a moment
	return func(req []string) bool { return ours(req) || subscribes(req) && !strings.HasPrefix(req[1], own) }
}

// each runs a test of each kind of lock, all of them at the same time, in a world of its own.
func each(t *testing.T, run func(t *testing.T, w *world)) {
	t.Helper()
	eachOf(t, kinds(), run)
}

// eachForced is each for the kinds that have ForceUnlock.
func eachForced(t *testing.T, run func(t *testing.T, w *world)) {
	t.Helper()
	eachOf(t, slices.DeleteFunc(kinds(), func(k kind) bool { return k.seize == nil }), run)
}

func eachOf(t *testing.T, kinds []kind, run func(t *testing.T, w *world)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.kind = k
			run(t, w)
		})
	}
}
