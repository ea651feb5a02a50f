// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// tokens is how far the tokens of a hold reach behind its stamp.
const tokens = 255

// markLife is for how long a mark without a hold lives.
const markLife = 10 * time.Minute

// P4, R2: the mark is written before the ticket, and the hold ends when it did.
func TestFirstTicketMarksTheKey(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(theirs)
	require.Equal(t, lockSays(theirs+turnMode, noon, "-"), q.value())
	q.clock += second
	q.queues(ours)
	require.Equal(t, lockSays(theirs+turnMode, noon, "q"), q.value())
	require.Equal(t, until(theirs, noon+lease*1000), q.held())
	q.queues(holdOf("c"))
	require.Equal(t, until(theirs, noon+lease*1000), q.held())
}

// R2: a sender that may not write the mark, or not make the key live longer, gets no ticket.
func TestRefusedMarkMakesNoTicket(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"setrange", "pexpire"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			q := queuedOf(newFixtureAt(t), lockQueue)
			q.has(theirs)
			unchanged := q.unchanged()
			requireDenied(t, q.without(right, q.enter, q.all, q.enterArgs(ours, "1", q.next())))
			unchanged()
		})
	}
}

// R3: a poll with a ticket marks a key that lost its mark, for any holder, and a poll without a ticket does not.
func TestPollMarksALostKeyAgain(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(theirs)
	q.queues(ours)
	q.server.MustDo(t, "DEL", q.key)
	q.has(holdOf("c")) // past the queue, that it does not see
	require.False(t, q.isMarked())
	q.polls(they, theirs)
	require.False(t, q.isMarked())
	require.Equal(t, q.pollReply(lease*1000, "", "1"), q.polls(we, ours))
	require.True(t, q.isMarked())
	require.Equal(t, until(holdOf("c"), noon+lease*1000), q.held())
	require.Equal(t, int64(0), q.joins(holdOf("d"))[0])

	q.server.MustDo(t, "DEL", q.key)
	require.Equal(t, q.pollReply(life, grantOf(ours, noon, q.heartbeatCount+1), "1"), q.polls(we, ours), "nobody holds it")
	require.True(t, q.isMarked())
}

// R3: a session that holds, and has a ticket for another attempt, marks its own key.
func TestPollOfAHolderWithATicketMarksItsKey(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(theirs)
	q.queues(nth("a", 2))
	q.server.MustDo(t, "DEL", q.key)
	q.has(ours)
	require.Equal(t, "01", q.polls(we, ours, nth("a", 2))[4])
	require.True(t, q.isMarked())
	require.Equal(t, until(ours, noon+lease*1000), q.held())
}

// R4: a hold that ends by itself leaves the mark, and its key ends 15 seconds later.
func TestMarkOutlivesAHoldThatEndsByItself(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(theirs)
	q.queues(ours)
	q.clock = noon + lease*1000
	q.requireLife(keeps)
	require.Equal(t, []any{int64(0), int64(0), int64(0), digits(q.clock)}, q.alone(q.enter, q.enterArgs(holdOf("c"), "0", "")...))
	require.Equal(t, []any{int64(-3), digits(q.clock)}, q.alone(q.enter, q.enterArgs(holdOf("c"), "1", "")...))
	q.polls(we, ours)
	require.Contains(t, q.held(), ours)
}

// R2: only a hand-off that finds no ticket removes the mark.
func TestMarkEndsWithTheLastTicket(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(theirs)
	q.queues(ours)
	q.leaves(theirs)
	require.True(t, q.isMarked())
	q.leaves(ours)
	require.Equal(t, released(noon+1), q.value())
	q.has(theirs)
	require.False(t, q.isMarked())
}

// R4: the lock stays marked while only dead sessions have tickets, for as long as the queue.
func TestMarkStaysWhileOnlyTheDeadQueue(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(theirs)
	q.queues(ours)
	q.clock += life
	require.Equal(t, q.left(1, ""), q.leaves(theirs))
	require.Equal(t, idleSays(noon), q.value())
	q.requireLife(markLife)
	require.Equal(t, []any{int64(1), digits(q.clock), digits(q.clock)}, q.tries(theirs), "a try goes before them")
	require.Equal(t, lockSays(theirs+turnMode, q.clock, "q"), q.value())
	require.Equal(t, until(theirs, q.clock+lease*1000), q.held())
	q.polls(we, ours)
	q.leaves(theirs)
	require.Contains(t, q.held(), ours)
}

// R5: a ticket of another kind of lock is dropped, and gets nothing.
func TestTicketOfAnotherKindIsDropped(t *testing.T) {
	t.Parallel()
	for name, handOff := range map[string]func(q *queued){
		"Leave": func(q *queued) { q.leaves(ours) },
		"Poll":  func(q *queued) { q.drops(ours); q.polls(they, theirs) },
		"Force": func(q *queued) { q.forces(ours) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.has(ours)
			q.queues(theirs)
			for n := range 3 {
				q.server.MustDo(t, "ZADD", q.tickets, n, nth("c", n)) // without a mode
			}
			q.heartbeat(session("c"), life, q.next())
			handOff(q)
			require.Contains(t, q.held(), theirs)
			require.Empty(t, q.inQueue())
		})
	}
}

// More of them than one call drops.
func TestManyTicketsOfAnotherKindAreDroppedInShortCalls(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(ours)
	q.queues(theirs)
	for n := range 200 {
		q.server.MustDo(t, "ZADD", q.tickets, n, nth("c", n))
	}
	q.heartbeat(session("c"), life, q.next())
	require.Equal(t, q.left(1, "")[:3], q.leaves(ours)[:3])
	require.Empty(t, q.held())
	require.True(t, q.isMarked())
	q.polls(they, theirs)
	require.Contains(t, q.held(), theirs)
}

// P3: after a hold whose release brought no floor, the next token is behind the whole block of that hold.
func TestTokensContinueBehindTheBlockOfALostHold(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(q *queued){
		"Forced":       func(q *queued) { require.Equal(q, int64(1), q.forces(theirs)) },
		"ForcedMarked": func(q *queued) { q.queues(ours); require.Equal(q, int64(1), q.forces(theirs)); q.leaves(ours) },
		"Expired":      func(q *queued) { q.queues(ours); q.leaves(ours); q.clock += lease * 1000 },
		"ExpiredAlone": func(q *queued) {
			q.queues(ours)
			q.leaves(ours)
			q.clock += lease * 1000
			q.alone(q.poll, q.pollArgs(we, ours)...)
			require.Equal(q, idleSays(noon+tokens), q.value())
		},
		"NotSaid": func(q *queued) {
			args := q.leaveArgs(theirs)
			args[5] = ""
			q.mustRun(q.leave, q.all, args...)
		},
		"Freed": func(q *queued) {
			require.Equal(q, int64(1), q.frees(theirs, ""))
		},
		"ReleasedMany": func(q *queued) {
			require.Equal(q, []any{int64(1)}, q.mustRun(scripts.LockReleaseMany, q.all[:1], theirs+turnMode, "", keepMS))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.has(theirs)
			ends(q)
			q.clock = noon - hour
			if value := q.value(); strings.HasPrefix(value, "sb1l") && value[61] != '-' {
				q.server.MustDo(t, "PEXPIREAT", q.key, redistest.LaterMS+q.clock/1000+keeps.Milliseconds()) // it has ended, by this clock too
			}
			stamp := parseStamp(t, q.tries(holdOf("c"))[1])
			require.Greater(t, stamp, noon+tokens)
			require.LessOrEqual(t, stamp, noon+tokens+2)
		})
	}
}

// P3: a release brings the floor: the stamp of the last token that was used, and never one before the hold's.
func TestReleaseBringsTheFloor(t *testing.T) {
	t.Parallel()
	for used, floor := range map[int64]int64{0: noon, noon: noon, noon + 7: noon + 7} {
		t.Run(fmt.Sprint(used), func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.has(ours)
			args := q.leaveArgs(ours)
			args[5] = digits(used)
			require.Equal(t, q.left(1, ""), q.mustRun(q.leave, q.all, args...))
			q.requireFree(floor)
			q.has(ours)
			q.queues(theirs)
			args[5] = digits(q.floor() + 9)
			want := q.floor() + 10
			q.mustRun(q.leave, q.all, args...)
			require.Equal(t, want, q.floor(), "the next stands behind it")
		})
	}
}

// P3: stamps are compared as texts and calculated as numbers. Neither may lose a digit.
func TestNoDigitOfAStampIsLost(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	for _, floor := range []int64{noon + 42, 1_799_999_999_999_999, 4_102_444_800_123_457, 9_007_199_254_740_000} {
		q.clock = floor - 1
		q.set(released(floor), time.Hour)
		require.Equal(t, []any{int64(1), digits(floor + 1), digits(floor - 1)}, q.tries(ours))
		require.Equal(t, int64(1), q.forces(ours))
		require.Equal(t, released(floor+1+tokens), q.value())
	}
	qf := queueFixtureOf(newFixture(t))
	qf.clock = 0
	args := qf.enterArgs(ours+turnMode, "0", "")
	args[2] = "9999999999999999"
	stamp := qf.mustRun(scripts.LockEnter, qf.keys(), args...)[1]
	require.Len(t, stamp, 16)
	require.Greater(t, stamp, digits(noon-365*24*hour), "the server's own time")
}

// P10: a release is done although a right to it is missing.
func TestMissingRightDoesNotFailTheRelease(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"set", "del"} {
		for name, isMarked := range map[string]bool{"Unmarked": false, "Marked": true} {
			t.Run(right+name, func(t *testing.T) {
				t.Parallel()
				q := queuedOf(newFixtureAt(t), lockQueue)
				q.has(ours)
				if isMarked {
					q.queues(theirs)
				}
				args := q.leaveArgs(ours)
				args[6] = "1"
				require.NoError(t, q.without(right, q.leave, q.all, args))
				require.NotContains(t, q.held(), ours)
				q.polls(they, theirs)
				require.Equal(t, isMarked, q.lockHas() == theirs)
			})
		}
	}
}

func TestWaitersOfALockAreItsTickets(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(holdOf("z"))
	q.queues(ours)
	q.clock += life
	args := q.enterArgs(theirs, "1", q.next())
	args[0] = theirs + fairMode
	q.mustRun(q.enter, q.all, args...)
	q.server.MustDo(t, "ZADD", q.tickets, noon+1, holdOf("c")) // of another kind
	require.Equal(t, []any{
		ours + turnMode, digits(noon), int64(0), label,
		"", digits(noon + 1), int64(0), "",
		theirs + fairMode, digits(noon + life), int64(1), label,
	}, q.lockWaiters("0", 10))
	require.Equal(t, []any{"", digits(noon + 1), int64(0), ""}, q.lockWaiters(digits(noon), 1), "it counts as one of the page")
}

// alone sends a call with the holder key alone, as a client does while a slot moves.
func (q *queued) alone(script *scripts.Script, args ...any) []any {
	q.Helper()
	return q.mustRun(script, q.all[:1], args...)
}
