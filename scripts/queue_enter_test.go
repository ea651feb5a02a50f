// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// enters are the two ways to come.
var enters = map[string]func(q *queued, hold string) []any{"Try": (*queued).tries, "Join": (*queued).joins}

func TestFreeLockIsTakenForItsLease(t *testing.T) {
	t.Parallel()
	for name, enter := range enters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				require.Equal(q, []any{int64(1), digits(noon), digits(noon)}, enter(q, ours))
				require.Equal(q, until(ours, noon+lease*1000), q.held())
				require.Equal(q, noon, q.floor())
				q.requireLife(lease*time.Millisecond + q.outlives())
				require.True(q, q.kind == lockQueue || q.fixture.left() > lease*time.Millisecond, "the key outlives the hold")
				require.Empty(q, q.queue())
				require.Empty(q, q.replied(we), "a lock that is free costs no heartbeat")
				if q.rw != nil {
					q.rw.requireHave(q.more[0].(string), ours)
				}
			})
		})
	}
}

// P3.
func TestTokensOfQueuedLocksGrowWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(q *queued){
		"Released": func(q *queued) { q.set(released(noon), time.Minute) },
		"Left":     func(q *queued) { q.has(theirs); q.leaves(theirs) },
		"Dropped":  func(q *queued) { q.has(theirs); q.drops(theirs) },
		"OnlyTheDeadQueue": func(q *queued) {
			q.has(theirs)
			q.queues(holdOf("d"))
			q.clock += life
			q.leaves(theirs)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				before(q)
				floor := q.floor()
				require.GreaterOrEqual(q, floor, noon)
				if name != "Dropped" {
					q.clock = noon - hour // a hold that was dropped lasts on, by this clock
				}
				require.Equal(q, []any{int64(1), digits(floor + 1), digits(q.clock)}, q.tries(ours))
				require.Equal(q, floor+1, q.floor())
			})
		})
	}
}

func TestTryOfHeldLockWritesNothing(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(theirs)
		q.clock += second
		unchanged := q.unchanged()
		require.Equal(q, []any{int64(0), int64(lease*1000 - second), int64(0), digits(q.clock)}, q.tries(ours))
		unchanged()
	})
}

// P5: joining again keeps the ticket, and lengthens the session's life.
func TestWaiterGetsOneTicketAndALife(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		seven := 7 * q.tick()
		q.clock += seven
		require.Equal(q, []any{int64(0), lease*1000 - seven, int64(0), digits(noon + seven)}, q.joins(ours))
		require.Equal(q, []any{ours}, q.queue())
		require.Equal(q, noon+seven, q.scores(q.tickets)[ours+q.suffix])
		require.Equal(q, heartbeatField(noon+seven+life, 1), q.replied(we))
		require.Equal(q, until(holdOf("z"), noon+lease*1000), q.held())
		q.requireEnds()
		q.queues(theirs)
		require.Equal(q, noon+seven+1, q.scores(q.tickets)[theirs+q.suffix], "the next microsecond")
		q.clock += second
		q.queues(ours)
		require.Equal(q, []any{ours, theirs}, q.queue())
		require.Equal(q, heartbeatField(q.clock+life, 3), q.replied(we))
	})
}

// P5: the reply to the second counts from its own sending; its token may be a later one, of permits.
func TestEnteringTwiceTakesTheLockOnce(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.joins(ours)
		for name, enter := range enters {
			q.clock += second
			reply := enter(q, ours)
			if q.kind == permitQueue {
				reply[1] = digits(noon)
			}
			require.Equal(q, []any{int64(1), digits(noon), digits(q.clock)}, reply, name)
			require.Equal(q, until(ours, q.clock+lease*1000), q.held())
			require.Empty(q, q.queue())
		}
		require.Equal(q, int64(1), q.renews(ours, 2*lease*time.Millisecond))
		q.joins(ours)
		require.Equal(q, until(ours, q.clock+2*lease*1000), q.held(), "a longer hold is not made shorter")
		q.requireLife(2*lease*time.Millisecond + q.outlives())
		q.clock += 2*lease*1000 + second
		require.Equal(q, int64(1), q.joins(ours)[0], "nobody was let in meanwhile")
		require.Equal(q, until(ours, q.clock+lease*1000), q.held())
	})
}

// P4.
func TestLateEnterWritesNothing(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(q *queued){
		"Free":   func(*queued) {},
		"Held":   func(q *queued) { q.has(theirs) },
		"Ours":   func(q *queued) { q.tries(ours) },
		"Queued": func(q *queued) { q.has(holdOf("c")); q.queues(theirs) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				prepare(q)
				for _, queues := range []string{"0", "1"} {
					args := q.enterArgs(ours, queues, q.next())
					q.clock++
					unchanged := q.unchanged()
					require.Equal(q, []any{int64(-1), digits(q.clock)}, q.mustRun(q.enter, q.all, args...))
					unchanged()
				}
			})
		})
	}
}

// P1, order: a lock whose holder died goes to the first in the queue, also if another comes first to see it.
func TestNoNewcomerTakesAFreeLockPastTheQueue(t *testing.T) {
	t.Parallel()
	for name, enter := range enters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				q.has(holdOf("z"))
				q.queues(ours, theirs)
				q.drops(holdOf("z"))
				published, notPublished := q.listens(we), q.listens(they)
				stamp := q.stamp(q.floor())
				require.Equal(q, []any{int64(0), int64(life), int64(0), digits(noon)}, enter(q, nth("c", 1)))
				require.Equal(q, until(ours, noon+life), q.held())
				require.Equal(q, []string{grantOf(ours, stamp, 1)}, published.received())
				require.Empty(q, notPublished.received())
				require.Equal(q, theirs, q.queue()[0])
				require.Equal(q, name == "Join", len(q.queue()) == 2, "who joins has a ticket, who tries has none")
			}, lockQueue, writerQueue, permitQueue)
		})
	}
}

// P1: a hold counts to its last microsecond.
func TestLockIsHandedOnAtTheEndOfItsHold(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		q.clock += lease*1000 - q.tick()
		q.queues(ours)
		require.Equal(q, []any{int64(0), q.tick(), int64(0), digits(q.clock)}, q.joins(theirs))
		require.Empty(q, q.polls(we, ours)[3])
		require.Contains(q, q.held(), holdOf("z"))
		q.clock += q.tick()
		q.joins(theirs)
		require.Contains(q, q.held(), ours)
		require.NotContains(q, q.held(), holdOf("z"))
	})
}

func TestFirstThatJoinsAgainHasTheLockForItsLease(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		q.queues(ours)
		q.drops(holdOf("z"))
		published := q.listens(we)
		require.Equal(q, []any{int64(1), digits(q.stamp(noon)), digits(noon)}, q.joins(ours))
		require.Equal(q, until(ours, noon+lease*1000), q.held())
		q.requireLife(lease*time.Millisecond + q.outlives())
		require.Empty(q, q.queue())
		require.Empty(q, published.received(), "the reply tells it")
	})
}

// P6: the reply has no room for a grant to another attempt of the session. A lock of kind l asks for a poll, others send a message.
func TestGrantToAnotherAttemptOfTheSessionIsKnown(t *testing.T) {
	t.Parallel()
	for name, enter := range enters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				q.has(holdOf("z"))
				first := nth("a", 1)
				q.queues(first)
				q.drops(holdOf("z"))
				published := q.listens(we)
				reply := enter(q, nth("a", 2))
				require.Equal(q, q.isExclusive(), reply[2] == int64(1))
				require.Equal(q, []any{int64(0), int64(life), reply[2], digits(noon)}, reply)
				require.Contains(q, q.held(), first)
				if q.isExclusive() {
					require.Equal(q, grantOf(first, noon+1, q.heartbeatCount+1), q.polls(we, first)[3])
					return
				}
				require.Equal(q, []string{grantOf(first, q.stamp(noon), q.heartbeatCount)}, published.received())
			}, lockQueue, writerQueue, permitQueue)
		})
	}
}

func TestTryGoesBeforeTheDeadOnly(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		q.queues(theirs)
		q.clock += life
		q.drops(holdOf("z"))
		require.Equal(q, []any{int64(1), digits(q.clock), digits(q.clock)}, q.tries(ours))
		require.Equal(q, until(ours, q.clock+lease*1000), q.held())
		require.Equal(q, []any{theirs}, q.queue(), "its place is kept")
	})
}

// P4: a heartbeat is left out if one was replied to a moment ago. The keys have an end, and if the server lost it a poll is due.
func TestTicketWithoutAHeartbeat(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(theirs)
		for _, isLost := range []bool{false, true} {
			q.heartbeat(we, life, q.next())
			due := int64(0)
			if isLost {
				q.clock += life
				due = 1
			}
			said := q.replied(we)
			require.Equal(q, due, q.mustRun(q.enter, q.all, q.enterArgs(ours, "1", "")...)[2])
			require.Equal(q, []any{ours}, q.queue())
			require.Equal(q, said, q.replied(we))
			q.requireEnds()
		}
	})
}

func TestTicketsRiseWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		want := []any{}
		for n := range 20 {
			hold := nth("a", 100-n) // the other way round as texts
			want = append(want, hold)
			switch n % 4 {
			case 1: // the clock stands
			case 2:
				q.clock -= hour
			default:
				q.clock += second
			}
			if q.rw != nil {
				q.more = []any{[]string{reads, writes}[n/2%2]} // tickets of both queues compare
			}
			q.queues(hold)
		}
		require.Equal(q, want, q.queue())
	})
}

func TestALabelMayBeLongOrMissing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "x", "0123456789012345678901234567890123456789012345678901234567890123"} {
		p := newLock(t)
		args := p.enterArgs(ours, "1", p.next())
		args[6] = name
		p.mustRun(p.enter, p.all, args...)
		require.Equal(t, name, p.value()[63:])
		require.Equal(t, int64(0), p.tries(theirs)[0])
		require.Equal(t, int64(1), p.leaves(ours)[0])
	}
}
