// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P1, P3: a clock whose stamps have not 16 digits, or that is before tokens count, is refused by name before anything is
// written. Once it is right again the queue continues.
func TestAClockBeforeTokensCountIsRefused(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(ours)
		q.queues(theirs)
		check := q.unchanged()
		for _, seconds := range []int64{1, 123_456_789, 946_684_800, 1_735_689_599, 10_000_000_000} {
			q.clock = seconds * second
			for _, call := range []struct {
				script *scripts.Script
				args   []any
			}{
				{q.enter, q.enterArgs(holdOf("c"), "0", "")},
				{q.enter, q.enterArgs(holdOf("c"), "1", q.next())},
				{q.poll, q.pollArgs(they, theirs)},
				{q.leave, q.leaveArgs(ours)},
				{scripts.SessionHello, nil},
			} {
				_, err := q.tryKeys(call.script, q.all, call.args...)
				require.ErrorContains(q, err, "the clock of the server has to show a year from 2025 to 2286", "%d: %s", seconds, call.script.Name)
			}
		}
		check()
		q.clock = noon + second
		require.Equal(q, theirs, q.passes(ours))
	})
}

// Only what compares no stamps as texts reads the time in another way.
func TestEachScriptReadsTheTimeInOnePlace(t *testing.T) {
	t.Parallel()
	byNumber := []string{"holder/describe", "holds/drop", "holds/renew", "redisson/permit-renew", "redlock/release"}
	all, err := scripts.All()
	require.NoError(t, err)
	for _, s := range all {
		// lengthen_key and key_ends have a time of their own for servers before Redis 7.
		if strings.Contains(s.Source, "local time = redis.call('TIME')\n") && !strings.Contains(s.Source, "the clock of the server") {
			require.Contains(t, byNumber, s.Name)
		}
	}
}

// P6: a field of heartbeats that another program wrote is that of a session which is dead, and delays no other.
func TestAHeartbeatThatIsNoneIsThatOfTheDead(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "x", strings.Repeat("x", 60), digits(noon)[:15]} {
		eachQueue(t, func(q *queued) {
			q.has(ours)
			q.queues(holdOf("c"), theirs)
			q.server.MustDo(q, "HSET", q.heartbeats, session("c"), entry)
			q.polls(they, theirs)
			require.Equal(q, int64(1), q.leaves(ours)[0])
			q.heldBy(theirs)
			q.leaves(theirs)
			require.Empty(q, q.queue(), "its ticket is that of a session which is gone")
		})
	}
}

// P1: a reader joins no holder whose phase another program removed.
func TestReadersJoinNoHolderWithoutAPhase(t *testing.T) {
	t.Parallel()
	for _, queues := range []string{"0", "1"} {
		r := newRWLock(t)
		r.has(ours, writes)
		r.server.MustDo(t, "ZREM", r.key, "phase")
		require.Equal(t, int64(0), r.mustRun(scripts.RWLockEnter, r.keys(), r.enterArgs(theirs, reads, queues, r.next())...)[0])
		if queues == "1" {
			r.leaves(ours)
			r.requireHave(reads, theirs)
		}
	}
}

// P1: without the sum of its holds a semaphore adds them up; a hold that is missing comes back with the leave of its session.
func TestPermitsAreCountedAnewIfAProgramRemovedSome(t *testing.T) {
	t.Parallel()
	mine, other, third := permitRequest(ours, 2), permitRequest(theirs, 1), permitRequest(holdOf("c"), 2)
	for name, calls := range map[string]func(p *permits){
		"Try":  func(p *permits) { require.Equal(p, int64(0), p.tries(third)[0]) },
		"Join": func(p *permits) { require.Equal(p, int64(0), p.joins(third)[0]) },
		"Leave": func(p *permits) {
			require.Equal(p, int64(1), p.leaves(other)[0])
			require.Equal(p, int64(1), p.tries(other)[0])
		},
		"CertainLeave": func(p *permits) {
			p.mustRun(scripts.SemaphoreLeave, p.keys(), append(p.leaveArgs(other)[:5:5], "1")...)
			require.Equal(p, int64(1), p.tries(other)[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPermits(t, 4)
			p.has(mine)
			p.has(other)
			p.server.MustDo(t, "ZREM", p.key, "used")
			calls(p)
			require.Equal(t, int64(3), p.score("used"))
		})
	}
	t.Run("Sum", func(t *testing.T) {
		t.Parallel()
		p := newPermits(t, 3)
		p.has(mine)
		require.Equal(t, int64(1), p.leaves(mine)[0])
		p.server.MustDo(t, "ZADD", p.key, 2, "used")
		require.Equal(t, int64(1), p.joins(third)[0], "there is no hold")
		require.Equal(t, int64(2), p.score("used"))
	})
	t.Run("Hold", func(t *testing.T) {
		t.Parallel()
		p := newPermits(t, 3)
		p.has(mine)
		p.has(other)
		require.Equal(t, int64(0), p.joins(third)[0])
		p.server.MustDo(t, "ZREM", p.key, mine+label)
		require.Equal(t, int64(2), p.leaves(mine)[0])
		require.Equal(t, int64(3), p.score("used"), "the waiter has them")
		require.Equal(t, []any{int64(0), digits(p.clock)}, p.leaves(mine))
	})
}
