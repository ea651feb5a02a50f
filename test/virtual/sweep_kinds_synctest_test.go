// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"strings"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// Requests that acquires of every kind of lock consist of.
const (
	hello     = "session/hello"
	subscribe = "SUBSCRIBE"
)

// sweptLock is a kind of lock of which every request has a fault in turn, with the scripts that it runs.
type sweptLock struct {
	locktest.Primitive

	rival                  locktest.Primitive // the kind that excludes it
	acquire, release, undo *scripts.Script
	yield                  *scripts.Script   // ends a turn while goroutines of the process wait, or asks for another; nil if nothing does
	force                  []*scripts.Script // scripts of a ForceUnlock; nil if the kind has no ForceUnlock
	repeated               bool              // an acquire that is repeated returns a later token of the same hold
	scenarios              []acquireScenario
}

// acquireScenario is one way to acquire a lock, and the requests that it takes if nothing fails.
type acquireScenario struct {
	name         string
	held         bool            // the lock is held by another session, which releases it
	after        int             // the request after which the lock is released
	try          bool            // the lock is acquired by TryLock
	cut          int             // the request after whose reply its connection is cut, in every trial; 0 for none
	unsubscribed bool            // messages are lost
	match        redistest.Match // matches the requests that count; nil for those of an acquire
	steps        []string
}

// sweptExclusive is a reentrant or a fair lock: one kind at the server.
func sweptExclusive(p locktest.Primitive) sweptLock {
	const enter, poll = "lock/enter", "lock/poll"
	return sweptLock{
		Primitive: p, rival: p,
		acquire: scripts.LockEnter, release: scripts.LockLeave, undo: scripts.LockLeave,
		force: []*scripts.Script{scripts.HolderDescribe, scripts.LockForce},
		scenarios: []acquireScenario{
			{name: "LockOfAFreeLock", steps: []string{hello, enter}},
			{name: "LockThatWaits", held: true, after: 3, steps: []string{hello, enter, subscribe}},
			{name: "TryLockOfAFreeLock", try: true, steps: []string{hello, enter}},
			{name: "TryLockOfAHeldLock", try: true, held: true, steps: []string{hello, enter}},
			{name: "LockThatSubscribesAgain", held: true, after: 4, cut: 3, steps: []string{hello, enter, subscribe, subscribe}},
			{
				name: "LockThatIsFoundByAPoll", held: true, after: 2, unsubscribed: true,
				match: locktest.RunsScript(scripts.LockPoll), steps: []string{poll, poll, poll},
			},
		},
	}
}

// sweptReentrant releases and queues again in one request at the end of a turn.
func sweptReentrant() sweptLock {
	s := sweptExclusive(locktest.Reentrant())
	s.yield = scripts.LockRequeue
	return s
}

func sweptFair() sweptLock { return sweptExclusive(locktest.Fair()) }

// sweptRWSide is one side of a read-write lock. Both wait as a fair lock does, so each way to acquire has faults on one side.
func sweptRWSide(side locktest.Primitive, scenarios ...acquireScenario) sweptLock {
	return sweptLock{
		Primitive: side, rival: locktest.Writer(),
		acquire: scripts.RWLockEnter, release: scripts.RWLockLeave, undo: scripts.RWLockLeave,
		force: []*scripts.Script{scripts.HoldsList, scripts.RWLockForce},
		scenarios: append(scenarios,
			acquireScenario{name: "LockThatWaits", held: true, after: 3, steps: []string{hello, "rwlock/enter", subscribe}}),
	}
}

func sweptWriter() sweptLock {
	const enter, poll = "rwlock/enter", "rwlock/poll"
	return sweptRWSide(locktest.Writer(),
		acquireScenario{name: "LockOfAFreeLock", steps: []string{hello, enter}},
		acquireScenario{
			name: "LockThatIsFoundByAPoll", held: true, after: 2, unsubscribed: true,
			match: locktest.RunsScript(scripts.RWLockPoll), steps: []string{poll, poll, poll},
		})
}

func sweptReader() sweptLock {
	const enter = "rwlock/enter"
	return sweptRWSide(locktest.Reader(),
		acquireScenario{name: "TryLockOfAFreeLock", try: true, steps: []string{hello, enter}},
		acquireScenario{name: "TryLockOfAHeldLock", try: true, held: true, steps: []string{hello, enter}},
		acquireScenario{name: "LockThatSubscribesAgain", held: true, after: 4, cut: 3, steps: []string{hello, enter, subscribe, subscribe}})
}

// sweptPermit is a semaphore of one.
func sweptPermit() sweptLock {
	const enter = "semaphore/enter"
	return sweptLock{
		Primitive: locktest.Permit(), rival: locktest.Permit(), repeated: true, acquire: scripts.SemaphoreEnter,
		release: scripts.SemaphoreLeave, undo: scripts.SemaphoreLeave, yield: scripts.SemaphoreYield,
		scenarios: []acquireScenario{
			{name: "LockOfAFreeLock", steps: []string{hello, enter}},
			{name: "LockThatWaits", held: true, after: 3, steps: []string{hello, enter, subscribe}},
			{name: "TryLockOfAHeldLock", try: true, held: true, steps: []string{hello, enter}},
		},
	}
}

func sweptKinds() []sweptLock {
	return []sweptLock{sweptReentrant(), sweptFair(), sweptWriter(), sweptReader(), sweptPermit()}
}

// counts matches the requests of a scenario: those of an acquire and of what undoes it, unless it says otherwise.
func (s sweptLock) counts(of acquireScenario) redistest.Match {
	if of.match != nil {
		return of.match
	}
	runs, subscribes := locktest.RunsScript(scripts.SessionHello, s.acquire, s.undo, s.release), redistest.Commands(subscribe)
	own := names.Session(names.DefaultPrefix, "") // the channel of a session that holds a lock for more than a moment
	return func(request []string) bool {
		return runs(request) || subscribes(request) && !strings.HasPrefix(request[1], own)
	}
}
