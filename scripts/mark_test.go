// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// markedLock is a lock with several holds and a mark: a semaphore of one permit, or a read-write lock.
type markedLock struct {
	*queueFixture

	keys               []string
	enter, leave, poll *scripts.Script
	enterArgs          func(hold, queues, again string) []any
	leaveArgs          func(hold, certain string) []any
	pollArgs           func(session, hold string) []any
}

const noTicket, maybeTicket = "1", "0"

func eachMarkedLock(t *testing.T, test func(l *markedLock)) {
	t.Helper()
	t.Run("Semaphore", func(t *testing.T) {
		t.Parallel()
		p := newPermitsAt(t, 1)
		test(&markedLock{
			queueFixture: p.queueFixture, keys: p.keys(), enter: scripts.SemaphoreEnter, leave: scripts.SemaphoreLeave, poll: scripts.SemaphorePoll,
			enterArgs: func(hold, queues, again string) []any {
				args := p.enterArgs(permitRequest(hold, 1), queues, p.next())
				args[len(args)-1] = again
				return args
			},
			leaveArgs: func(hold, certain string) []any {
				args := p.leaveArgs(permitRequest(hold, 1))
				args[len(args)-1] = certain
				return args
			},
			pollArgs: func(session, hold string) []any { return p.pollArgs(session, permitRequest(hold, 1)) },
		})
	})
	t.Run("RWLock", func(t *testing.T) {
		t.Parallel()
		r := newRWLockAt(t)
		test(&markedLock{
			queueFixture: r.queueFixture, keys: r.keys(), enter: scripts.RWLockEnter, leave: scripts.RWLockLeave, poll: scripts.RWLockPoll,
			enterArgs: func(hold, queues, again string) []any {
				args := r.enterArgs(hold, writes, queues, r.next())
				args[len(args)-1] = again
				return args
			},
			leaveArgs: func(hold, certain string) []any {
				args := r.leaveArgs(hold)
				args[len(args)-1] = certain
				return args
			},
			pollArgs: func(session, hold string) []any { return r.pollArgs(session, hold) },
		})
	})
}

// enters sends the first enter of hold, which queues.
func (l *markedLock) enters(hold string) any {
	l.Helper()
	return l.mustRun(l.enter, l.keys, l.enterArgs(hold, "1", "0")...)[0]
}

func (l *markedLock) leaves(hold, certain string) []any {
	l.Helper()
	return l.mustRun(l.leave, l.keys, l.leaveArgs(hold, certain)...)
}

func (l *markedLock) polls(session, hold string) []any {
	l.Helper()
	return l.mustRun(l.poll, l.keys, l.pollArgs(session, hold)...)
}

// isMarked reports whether the holder key is a set with the mark.
func (l *markedLock) isMarked() bool {
	l.Helper()
	return l.scores(l.key)["queue"] == 1
}

// unmark takes the mark away, as if another program had made the key anew.
func (l *markedLock) unmark() {
	l.Helper()
	require.True(l, l.isMarked())
	l.server.MustDo(l, "ZREM", l.key, "queue")
}

// holders returns how many holds the key has.
func (l *markedLock) holders() (n int) {
	l.Helper()
	for name := range l.scores(l.key) {
		if len(name) > 40 {
			n++
		}
	}
	return n
}

// Speed: an acquire and a release without waiters cost 10 commands, EVALSHA and all that the scripts call.
func TestAPairWithoutWaitersIsAtMostTenCommands(t *testing.T) {
	t.Parallel()
	most := 10
	if redistest.IsOld(t) {
		most = 12 // with a PTTL for each: see part key/lengthen
	}
	far := digits(1 << 52)
	count := func(q *queueFixture, pair func()) int {
		calls := func() (sum int64) {
			for command, stat := range q.server.CommandStats() {
				if command != "info" {
					sum += stat.Calls
				}
			}
			return sum
		}
		pair() // the server learns the scripts
		before := calls()
		pair()
		return int(calls() - before)
	}
	run := func(q *queueFixture, keys []string, enter, leave *scripts.Script, enterArgs, leaveArgs []any) func() {
		enterArgs[2], leaveArgs[len(leaveArgs)-1] = far, noTicket
		return func() {
			q.Helper()
			reply, err := q.eval(enter.Source, keys, enterArgs...)
			require.NoError(q, err)
			require.Equal(q, int64(1), first(reply))
			reply, err = q.eval(leave.Source, keys, leaveArgs...)
			require.NoError(q, err)
			require.Equal(q, int64(1), first(reply))
		}
	}
	for name, others := range map[string]int{"Alone": 0, "BesideOthers": 2} {
		t.Run("Semaphore"+name, func(t *testing.T) {
			t.Parallel()
			p := newPermitsAt(t, 5)
			pair := func(hold string) func() {
				return run(p.queueFixture, p.keys(), scripts.SemaphoreEnter, scripts.SemaphoreLeave, p.enterArgs(permitRequest(hold, 1), "1", ""), p.leaveArgs(permitRequest(hold, 1)))
			}
			for n := range others {
				args := p.enterArgs(permitRequest(nth("b", n), 1), "1", "")
				args[2] = far
				_, err := p.eval(scripts.SemaphoreEnter.Source, p.keys(), args...)
				require.NoError(t, err)
			}
			require.LessOrEqual(t, count(p.queueFixture, pair(ours)), most)
		})
		for _, mode := range []string{reads, writes} {
			if mode == writes && others > 0 {
				continue
			}
			t.Run("RWLock"+name+mode, func(t *testing.T) {
				t.Parallel()
				r := newRWLockAt(t)
				for n := range others {
					args := r.enterArgs(nth("b", n), reads, "1", "")
					args[2] = far
					_, err := r.eval(scripts.RWLockEnter.Source, r.keys(), args...)
					require.NoError(t, err)
				}
				pair := run(r.queueFixture, r.keys(), scripts.RWLockEnter, scripts.RWLockLeave, r.enterArgs(ours, mode, "1", ""), r.leaveArgs(ours))
				require.LessOrEqual(t, count(r.queueFixture, pair), most)
			})
		}
	}
}

// Order: the mark stays while there are tickets, and is removed by a hand-off that finds no ticket.
func TestTheMarkStaysAsLongAsTheQueue(t *testing.T) {
	t.Parallel()
	eachMarkedLock(t, func(l *markedLock) {
		require.Equal(l, int64(1), l.enters(ours))
		require.False(l, l.isMarked(), "nobody waits")
		require.Equal(l, int64(0), l.enters(theirs))
		require.True(l, l.isMarked())

		require.Equal(l, int64(1), l.leaves(ours, noTicket)[0])
		require.Equal(l, 1, l.holders(), "the mark makes a sure leave hand the lock over")
		require.True(l, l.isMarked(), "others may have come")
		require.Empty(l, l.inQueue())

		require.Equal(l, int64(1), l.leaves(theirs, maybeTicket)[0])
		require.False(l, l.isMarked(), "a hand-off found nobody")
		require.Equal(l, int64(1), l.enters(nth("a", 7)))
		require.Equal(l, []any{int64(1), int64(0), "", int64(0)}, l.leaves(nth("a", 7), noTicket), "the short way again")
		require.Zero(l, l.holders())
	})
}

// Order: what a hold leaves when it ends by itself, or by its key alone, keeps the mark.
func TestTheMarkOutlivesTheHold(t *testing.T) {
	t.Parallel()
	eachMarkedLock(t, func(l *markedLock) {
		require.Equal(l, int64(1), l.enters(ours))
		require.Equal(l, int64(0), l.enters(theirs))
		name := l.leaveArgs(ours, noTicket)[0]
		require.Equal(l, int64(1), l.mustRun(scripts.HoldsRenew, []string{l.key}, name, lease)[0])
		require.True(l, l.isMarked())
		require.Equal(l, int64(1), l.mustRun(scripts.HoldsDrop, []string{l.key}, name)[0])
		require.True(l, l.isMarked())
		require.Equal(l, int64(0), l.mustRun(l.enter, l.keys, l.enterArgs(nth("c", 3), "0", "0")...)[0], "it overtakes nobody")
		require.Equal(l, 1, l.holders())
		require.Empty(l, l.inQueue(), "the waiter was granted the lock")
	})
}

// Order: a newcomer that finds the key missing reads the queue, and overtakes no ticket.
func TestANewcomerAfterALostKeyOvertakesNoTicket(t *testing.T) {
	t.Parallel()
	eachMarkedLock(t, func(l *markedLock) {
		require.Equal(l, int64(1), l.enters(ours))
		require.Equal(l, int64(0), l.enters(theirs))
		l.server.MustDo(l, "DEL", l.key)
		require.Equal(l, int64(0), l.enters(nth("c", 3)))
		require.Equal(l, []any{"c"}, []any{l.inQueue()[0].(string)[:1]}, "the waiter before it was granted the lock")
		require.Equal(l, 1, l.holders())
		require.True(l, l.isMarked())
	})
}

// Order: a poll with a ticket marks the key again, whatever took the mark away.
func TestAPollMarksAgain(t *testing.T) {
	t.Parallel()
	eachMarkedLock(t, func(l *markedLock) {
		require.Equal(l, int64(1), l.enters(ours))
		require.Equal(l, int64(0), l.enters(theirs))
		l.unmark()
		require.Equal(l, "1", l.polls(they, theirs)[4])
		require.True(l, l.isMarked())
		l.leaves(ours, noTicket)
		require.Equal(l, 1, l.holders(), "so that a sure leave hands the lock over")
	})
}

// P4: a leave of an attempt that may have a ticket reads the queue, with and without a mark.
func TestALeaveThatMayHaveATicketReadsTheQueue(t *testing.T) {
	t.Parallel()
	eachMarkedLock(t, func(l *markedLock) {
		require.Equal(l, int64(1), l.enters(ours))
		require.Equal(l, int64(0), l.enters(theirs))
		require.Equal(l, int64(0), l.enters(nth("c", 3)))
		l.unmark()
		require.Equal(l, int64(2), l.leaves(theirs, maybeTicket)[0])
		require.Len(l, l.inQueue(), 1)
		require.True(l, l.isMarked(), "it found others")
		l.unmark()
		require.Equal(l, int64(1), l.leaves(ours, maybeTicket)[0])
		require.Empty(l, l.inQueue())
		require.Equal(l, 1, l.holders(), "the last waiter has it")
	})
}

// P1, P4: an enter that comes again finds its ticket though the mark is gone, and has one hold in the end and no ticket.
func TestAnEnterThatComesAgainFindsItsTicket(t *testing.T) {
	t.Parallel()
	eachMarkedLock(t, func(l *markedLock) {
		require.Equal(l, int64(1), l.enters(ours))
		require.Equal(l, int64(0), l.enters(theirs))
		l.unmark()
		require.Equal(l, int64(1), l.leaves(ours, noTicket)[0], "nobody is found without the mark")
		if len(l.scores(l.key)) == 0 {
			require.NotEmpty(l, l.value(), "released")
		}
		require.Equal(l, int64(1), l.mustRun(l.enter, l.keys, l.enterArgs(theirs, "1", "1")...)[0])
		require.Empty(l, l.inQueue())
		require.Equal(l, 1, l.holders())
		require.Equal(l, int64(1), l.leaves(theirs, maybeTicket)[0])
		require.Zero(l, l.holders())
		require.Equal(l, int64(0), l.scores(l.key)["used"])
	})
}

// P10: the short way works when memory is full, and keeps the floor.
func TestACertainLeaveWorksWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	eachMarkedLock(t, func(l *markedLock) {
		require.Equal(l, int64(1), l.enters(ours))
		l.fill()
		require.Equal(l, int64(1), l.leaves(ours, noTicket)[0])
		require.Zero(l, l.holders())
		if scores := l.scores(l.key); len(scores) > 0 {
			require.Equal(l, map[string]int64{"sb1s": -noon, "used": 0, "capacity": 1, "queue": 0}, scores)
		} else {
			require.Equal(l, released(noon), l.value())
		}
		l.requireLife(floorLife)
		require.Equal(l, int64(0), l.leaves(ours, noTicket)[0], "it comes again")
	})
}

// Order, P10: no ticket is written if the mark is refused.
func TestNoTicketIsWrittenWithoutTheMark(t *testing.T) {
	t.Parallel()
	eachMarkedLock(t, func(l *markedLock) {
		require.Equal(l, int64(1), l.enters(ours))
		l.fill()
		_, err := l.tryKeys(l.enter, l.keys, l.enterArgs(theirs, "1", "0")...)
		require.ErrorContains(l, err, "OOM")
		require.Empty(l, l.inQueue())
		require.False(l, l.isMarked())
	})
}
