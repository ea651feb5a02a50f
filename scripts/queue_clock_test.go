// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

const hour = 3600 * second

// Order: the server's clock is set back while sessions wait, and they wait on.
func TestTheOrderOutlastsAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		q.queues(ours)
		q.clock += q.tick()
		q.queues(theirs)
		q.clock -= hour
		q.queues(holdOf("c"))
		q.polls(we, ours)
		q.polls(they, theirs)
		floor := noon
		for n, hold := range []string{holdOf("z"), ours, theirs} {
			require.Equal(q, int64(1), q.leaves(hold)[0])
			require.Equal(q, until([]string{ours, theirs, holdOf("c")}[n], q.clock+life), q.held(), "as long as it would be")
			require.Greater(q, q.floor(), floor, "tokens grow all the same")
			floor = q.floor()
		}
	}, lockQueue, writerQueue, permitQueue)
}

// P6: a session that died before the clock was set back does not count as alive until it has caught up.
func TestALifeFromBeforeTheClockWasSetBackIsNotBelieved(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		q.queues(theirs, ours) // the first dies
		q.clock -= hour
		q.polls(we, ours)
		require.Equal(q, heartbeatField(q.clock+life, 3), q.replied(we), "a heartbeat makes it credible again")
		q.leaves(holdOf("z"))
		require.Equal(q, until(ours, q.clock+life), q.held())
		require.Equal(q, []any{theirs}, q.queue())
		if q.kind == lockQueue {
			require.Equal(q, []any{theirs + turnMode, digits(noon), int64(0), label}, q.lockWaiters("0", 10))
		}
	})
}

// P6: a dead writer keeps no reader out.
func TestAWritersLifeFromBeforeTheClockWasSetBackIsNotBelieved(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, reads)
	r.queues(holdOf("w"), writes)
	r.clock -= hour
	require.True(t, r.isOpen(ours))
	r.has(theirs, reads)
	r.polls(session("w"), holdOf("w"))
	require.False(t, r.isOpen(ours), "a heartbeat makes it credible again")
}

// P1, P6: if the clock was set back, a hold lasts for the longest life that it was given, from the next request on.
func TestAClockThatIsSetBackEndsNoHold(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.tries(ours)
		q.clock -= hour
		q.tries(theirs)
		q.polls(they, theirs)
		require.Equal(q, int64(1), q.renews(ours, time.Second))
		q.polls(we, ours)
		require.Equal(q, q.clock+lease*1000, q.held()[ours])
	})
}

// Order: a session that was passed over as dead counts as alive again, by a clock that was set back,
// or comes back before the clock has caught up. The memory of the search does not hide it.
func TestTheMemoryOfTheDeadIsNotBelievedWhereTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for name, comesBack := range map[string]bool{"DeadByTheClock": false, "ComesBack": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLock(t)
			p.dead(64, noon-second) // the foremost
			p.has(holdOf("z"))
			p.joins(holdOf("d")) // is dead, and the first behind them
			p.clock += second
			p.joins(theirs)
			p.clock += life + second
			p.joins(ours)
			p.joins(holdOf("c"))
			require.Equal(t, ours, p.passes(holdOf("z")), "both are passed over")
			require.Equal(t, digits(p.clock)+theirs+turnMode, p.replied("from"))
			p.clock -= second + second/2 // theirs lives, the head does not
			if comesBack {
				p.polls(they, theirs)
				p.clock += 2 * second // the clock has caught up
				p.heartbeat(session("c"), life, p.next())
			}
			require.Equal(t, theirs, p.passes(ours))
		})
	}
}

// steps are how far the server's clock is set in the tests of steps.
var steps = []int64{0, 100 * second, -100 * second, 7200 * second, -7200 * second}

// waitsWithin polls each second until hold has the lock, within most.
func (q *queued) waitsWithin(session, hold string, most int64) {
	q.Helper()
	for passed := int64(0); ; passed += second {
		q.polls(session, hold)
		if _, has := q.held()[hold]; has {
			return
		}
		require.Less(q, passed, most, "it waits for too long")
		q.clock += second
	}
}

// heldBy checks that hold has the lock, and no other.
func (q *queued) heldBy(hold string) {
	q.Helper()
	require.Equal(q, []string{hold}, slices.Collect(maps.Keys(q.held())))
}

// P1, P3, P6: whatever the step of the server's clock, a lock whose holder is dead is acquired one lease later at most, one
// that a dead waiter was granted one life later, and one whose holder renews it after the release. Tokens rise.
func TestAStepOfTheClockCostsOneLease(t *testing.T) {
	t.Parallel()
	const long = 2 * time.Minute // longer than what no hold notes
	for name, follows := range map[string]func(q *queued, step int64){
		"DeadHolder": func(q *queued, step int64) {
			q.has(ours)
			q.queues(theirs)
			q.clock += step
			q.waitsWithin(they, theirs, lease*1000+second)
		},
		"DeadHolderOfALongLease": func(q *queued, step int64) {
			q.has(ours)
			require.Equal(q, int64(1), q.renews(ours, long))
			q.queues(theirs)
			q.clock += step
			q.waitsWithin(they, theirs, long.Microseconds()+second)
		},
		"DeadWaiterWasGranted": func(q *queued, step int64) {
			q.has(ours)
			q.queues(holdOf("z"), theirs)
			q.leaves(ours)
			q.clock += step
			q.waitsWithin(they, theirs, longestLife+second)
		},
		"RenewingHolder": func(q *queued, step int64) {
			q.has(ours)
			require.Equal(q, int64(1), q.renews(ours, long))
			q.queues(theirs)
			if q.clock += step; step > 0 {
				q.waitsWithin(they, theirs, long.Microseconds()) // keys end early: guarantees.md has the exception
				return
			}
			for passed := range 300 {
				if passed%40 == 30 {
					require.Equal(q, int64(1), q.renews(ours, long))
				}
				q.polls(they, theirs)
				q.heldBy(ours)
				q.clock += second
			}
			q.leaves(ours)
			q.heldBy(theirs)
		},
		"Released": func(q *queued, step int64) {
			q.has(ours)
			q.queues(theirs)
			q.clock += step
			q.polls(they, theirs)
			q.leaves(ours)
			q.heldBy(theirs)
		},
	} {
		for _, step := range steps {
			t.Run(fmt.Sprint(name, step/second), func(t *testing.T) {
				t.Parallel()
				eachQueue(t, func(q *queued) {
					q.has(holdOf("y"))
					before := q.floor()
					q.leaves(holdOf("y"))
					follows(q, step)
					require.Greater(q, q.floor(), before)
				})
			})
		}
	}
}

// P1: each call that gives a hold more than 30 s says so in the key, so that no call ends it sooner; a shorter life is not
// noted, and a shorter one that comes later changes nothing.
func TestALongLifeIsNoted(t *testing.T) {
	t.Parallel()
	const long = 2 * time.Minute
	eachQueue(t, func(q *queued) {
		args := func(hold, queues, number string) []any {
			args := q.enterArgs(hold, queues, number)
			args[1] = long.Microseconds()
			return args
		}
		for name, gives := range map[string]func(){
			"Enter": func() { q.mustRun(q.enter, q.all, args(ours, "0", "")...) },
			"EnterAgain": func() {
				q.has(ours)
				q.mustRun(q.enter, q.all, args(ours, "0", "")...)
			},
			"EnterIsGranted": func() {
				q.has(theirs)
				q.queues(ours)
				q.clock += lease*1000 + 20*second // it has ended
				q.mustRun(q.enter, q.all, args(ours, "1", q.next())...)
			},
			"Renew": func() {
				q.has(ours)
				require.Equal(q, int64(1), q.renews(ours, long))
				require.Equal(q, int64(1), q.renews(ours, 10*time.Second))
			},
		} {
			gives()
			ends := q.held()[ours]
			require.GreaterOrEqual(q, ends, q.clock+long.Microseconds(), name)
			q.joins(holdOf("c"))
			q.polls(session("c"), holdOf("c"))
			require.Equal(q, ends, q.held()[ours], name)
			q.clock -= hour
			q.polls(session("c"), holdOf("c"))
			require.Equal(q, q.clock+long.Microseconds(), q.held()[ours], name)
			q.leaves(holdOf("c"))
			q.leaves(ours)
			q.clock += 2 * hour
		}
	})
}

// P1: the same of the calls that only locks have, and of votes.
func TestALongLifeOfALockIsNoted(t *testing.T) {
	t.Parallel()
	const noted = "\n120000"
	hold := ours + turnMode
	for name, gives := range map[string]func(q *queued){
		"AcquireMany": func(q *queued) { q.mustRun(scripts.LockAcquireMany, q.all[:1], hold, 120_000, digits(q.clock), label) },
		"AcquireManyAgain": func(q *queued) {
			q.has(ours)
			q.mustRun(scripts.LockAcquireMany, q.all[:1], hold, 120_000, digits(q.clock), label)
		},
		"Keep": func(q *queued) {
			q.has(ours)
			q.mustRun(scripts.LockKeep, q.all[:1], hold, 120_000)
		},
		"Requeue": func(q *queued) {
			q.has(theirs)
			args := q.requeueArgs(theirs, ours, "1")
			args[2] = 120 * second
			q.mustRun(scripts.LockRequeue, q.all, args...)
		},
		"RequeueIsGranted": func(q *queued) {
			q.has(theirs)
			q.queues(holdOf("c"))
			q.leaves(holdOf("c")) // the mark stays
			args := q.requeueArgs(theirs, ours, "1")
			args[2] = 120 * second
			q.mustRun(scripts.LockRequeue, q.all, args...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := queuedOf(newFixture(t), lockQueue)
			gives(q)
			require.Contains(t, q.value(), ours)
			require.True(t, strings.HasSuffix(q.value(), label+noted), "%q", q.value())
			q.clock -= hour
			q.mustRun(scripts.LockAcquireMany, q.all[:1], theirs+turnMode, lease, digits(q.clock), label)
			require.LessOrEqual(t, q.held()[ours], q.clock+120*second)
			require.Equal(t, label, q.alone(scripts.HolderDescribe)[4], "what people read")
		})
	}
	t.Run("Vote", func(t *testing.T) {
		t.Parallel()
		v := newVoter(t)
		for range 2 {
			_, err := v.tryKeys(scripts.RedlockAcquire, []string{v.key, v.epoch, v.fence}, writtenFor(ours), 120_000, digits(v.clock), "", greatest)
			require.NoError(t, err)
			require.Equal(t, votedFor(ours, noon, "")+noted, v.value())
		}
		v.expires(v.key, time.Hour)
		require.Equal(t, []any{int64(0), int64(120_000)}, v.elect(theirs, "")[:2])
		v.expires(v.key, time.Hour)
		require.Equal(t, int64(120_000), v.run(scripts.RedlockPoll, they))
	})
}
