// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dead queues n tickets of as many sessions, whose lives ended at ended; they came before noon.
func (q *queueFixture) dead(n int, ended int64) {
	q.Helper()
	q.server.MustDo(q, "EVAL", `for i = 1, ARGV[1] do
  local session = string.format('dead%018d', i)
  redis.call('ZADD', KEYS[1], string.format('%.0f', ARGV[2] - 1000000000 + i), session .. string.format('%019d', i) .. ARGV[4])
  redis.call('HSET', KEYS[2], session, ARGV[3] .. '000000000001random-1')
end`, 2, q.tickets, q.heartbeats, n, noon, digits(ended), q.suffix)
	q.expires(q.tickets, queueLife)
	q.expires(q.heartbeats, queueLife)
}

// deadHold is the n-th of them.
func deadHold(n int) string { return fmt.Sprintf("dead%018d%019d", n, n) }

// cost returns how many commands the scripts ran in what do does. The server is the test's own. A script that the server
// does not know yet is sent twice, so that its calls do not count.
func (q *queueFixture) cost(do func()) int {
	q.Helper()
	sum := func() (calls int64) {
		for command, stat := range q.server.CommandStats() {
			if !strings.HasPrefix(command, "eval") {
				calls += stat.Calls
			}
		}
		return calls
	}
	before := sum()
	do()
	return int(sum() - before)
}

// P6: the dead delay no waiter, however many there are: a call passes over 8 pages of 128 of them and no more, reports if
// that was not enough, and the next continues where it ended.
func TestTheDeadArePassedOverInShortCalls(t *testing.T) {
	t.Parallel()
	const longest = 2*(2*1024+300) + 50 // commands: two searches, each reads the session of each ticket
	for _, n := range []int{1, 127, 128, 1024, 1025, 2500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			eachQueueAt(t, func(q *queued) {
				q.has(theirs)
				q.dead(n, noon-second)
				if q.rw != nil {
					other := *q.queueFixture
					other.tickets = map[string]string{q.rw.readers: q.rw.tickets, q.rw.tickets: q.rw.readers}[q.tickets]
					other.dead(n, noon-second)
				}
				q.queues(ours)
				q.heartbeat(we, longestLife, q.next())
				var more any
				require.LessOrEqual(q, q.cost(func() { more = q.leaves(theirs)[3] }), longest)
				calls := 1
				for ; more == int64(1); calls++ {
					require.LessOrEqual(q, calls, 2*(n/1024+1), "it does not continue where the last one ended")
					if q.rw == nil {
						require.Empty(q, q.held(), "nobody has it meanwhile")
					}
					require.LessOrEqual(q, q.cost(func() { more = q.polls(we, ours)[2] }), longest)
				}
				require.Contains(q, q.held(), ours)
				if q.isExclusive() {
					require.Equal(q, n/1024+1, calls, "each call continues, and stops after its pages only")
					require.Len(q, q.queue(), n, "they keep their places")
				}
				q.queues(holdOf("c"))
				require.Less(q, q.cost(func() { q.leaves(ours) }), 4*256+50, "the next does not pass over them again")
				require.Contains(q, q.held(), holdOf("c"))
				q.requireEnds()
			}, lockQueue, writerQueue, permitQueue)
		})
	}
}

// Order: a session that was not heard of for a while comes back to its position, for ten seconds.
func TestADeadSessionKeepsItsPositionForTenSeconds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dead int64
		kept bool
	}{"Passed": {0, true}, "Kept": {keepsPosition - 1000, true}, "Lost": {keepsPosition, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				q.has(holdOf("z"))
				q.queues(ours)
				q.clock += life + c.dead
				q.queues(theirs)
				q.leaves(holdOf("z"))
				require.Equal(q, until(theirs, q.clock+life), q.held(), "it is passed over")
				q.queues(holdOf("c"))
				reply := q.polls(we, ours)
				if !c.kept {
					require.Equal(q, "0", reply[4])
					require.NotContains(q, q.held(), ours)
					return
				}
				require.Contains(q, []any{"1", "2"}, reply[4])
				q.leaves(theirs)
				require.Contains(q, q.held(), ours, "it came back")
			}, lockQueue, writerQueue, permitQueue)
		})
	}
}

// Order: the memory of those that were passed over does not hide one that came back.
func TestASessionThatComesBackIsFoundAmongTheDead(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]func(q *queued, hold string){
		"Poll":      func(q *queued, hold string) { q.polls(hold[:22], hold) },
		"Join":      func(q *queued, hold string) { q.joins(hold) },
		"Heartbeat": func(q *queued, hold string) { q.heartbeat(hold[:22], life, q.next()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				q.has(theirs)
				q.dead(300, noon-second)
				q.queues(ours, holdOf("c"))
				q.leaves(theirs)
				require.Contains(q, q.held(), ours)
				field := "from"
				if q.kind == readerQueue {
					field = "from2"
					q.leaves(holdOf("c"))
				}
				require.Equal(q, digits(noon)+deadHold(300)+q.suffix, q.replied(field))
				comes(q, deadHold(200))
				q.leaves(ours)
				require.Contains(q, q.held(), deadHold(200))
			})
		})
	}
}

// P1: no newcomer acquires the lock until it is known whether a session that waits is alive.
func TestNoTryPassesTheQueueWhileTheSearchIsNotDone(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		q.dead(3000, noon-second)
		q.queues(ours)
		q.drops(holdOf("z"))
		for more := any(int64(1)); more == int64(1); {
			require.NotContains(q, q.held(), ours)
			reply := q.tries(theirs)
			require.Equal(q, int64(0), reply[0])
			require.NotContains(q, q.held(), theirs)
			more = reply[2]
		}
		require.Contains(q, q.held(), ours)
	}, lockQueue, writerQueue, permitQueue)
}

// Order: a session that was dead for so long that it was forgotten, and comes back before anybody took its
// ticket out of the queue, is found where it stands.
func TestASessionThatWasForgottenIsFoundAmongTheDead(t *testing.T) {
	t.Parallel()
	p := newLock(t)
	const n = 100
	p.dead(n, noon-second)
	p.has(holdOf("z"))
	p.joins(ours)
	require.Equal(t, ours, p.passes(holdOf("z")))
	require.Equal(t, digits(noon)+deadHold(n)+turnMode, p.replied("from"))
	p.set(lockSays(ours+turnMode, noon, "q"), time.Hour)
	p.clock += 100 * second
	p.joins(theirs) // it comes new, and forgets some
	var back string
	for i := range n {
		if hold := deadHold(i + 1); p.replied(hold[:22]) == "" {
			back = hold
		}
	}
	require.NotEmpty(t, back)
	require.NotEqual(t, deadHold(1), back, "others stand before it")
	p.polls(back[:22], back)
	require.Equal(t, back, p.passes(ours))
	require.Equal(t, theirs, p.passes(back))
}

// Wherever they stand: those that lost their positions are not passed over, but removed.
func TestTicketsOfSessionsThatAreNotKnownAreRemoved(t *testing.T) {
	t.Parallel()
	p := newLock(t)
	p.dead(3000, noon-second)
	for n := 2; n <= 3000; n += 2 {
		p.server.MustDo(t, "HDEL", p.heartbeats, deadHold(n)[:22])
	}
	p.has(theirs)
	p.joins(ours)
	p.leaves(theirs)
	for range 3 {
		p.polls(we, ours)
	}
	require.Equal(t, ours, p.lockHas())
	require.Len(t, p.inQueue(), 1500)
	require.Equal(t, deadHold(2999)+turnMode, p.replied("from")[16:])
}

// P4: those that were passed over, and have lost their positions since, are taken out by the searches that come
// after, 256 by each, and 64 of the foremost.
func TestThoseThatWerePassedOverDoNotStayForEver(t *testing.T) {
	t.Parallel()
	p := newLock(t)
	p.dead(400, noon-second)
	p.has(theirs)
	p.joins(ours)
	p.joins(nth("c", 1))
	p.joins(nth("c", 2))
	require.Equal(t, ours, p.passes(theirs))
	require.Len(t, p.inQueue(), 402)
	p.heartbeat(session("c"), longestLife, p.next())
	p.clock += keepsPosition
	require.Equal(t, nth("c", 1), p.passes(ours))
	require.Len(t, p.inQueue(), 400-256-64+1)
	require.Equal(t, nth("c", 2), p.passes(nth("c", 1)))
	require.Empty(t, p.inQueue())
}

func TestAHeartbeatOfOneThatHasNoTicketAmongTheDeadKeepsTheMemory(t *testing.T) {
	t.Parallel()
	p := newLock(t)
	p.dead(300, noon-second)
	p.has(theirs)
	p.joins(ours)
	p.joins(holdOf("c"))
	p.leaves(theirs)
	for range 5 { // also where its life is long, and its last heartbeat came after the search
		p.clock += second
		p.heartbeat(session("c"), longestLife, p.next())
		p.clock += 7 * second
		p.polls(session("c"), holdOf("c"))
	}
	p.joins(holdOf("d"))
	require.Equal(t, digits(noon)+deadHold(300)+turnMode, p.replied("from"))
}

// Order: the last ticket that was passed over may leave, or its queue end. Later tickets are found.
func TestTheMemoryOfTheDeadDoesNotOutliveThem(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *queued){
		"TheLastLeft": func(p *queued) { p.leaves(deadHold(70)) },
		"AllLeft": func(p *queued) {
			for n := range 70 {
				p.leaves(deadHold(n + 1))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLock(t)
			p.dead(70, noon-second)
			p.has(theirs)
			p.joins(ours)
			require.Equal(t, ours, p.passes(theirs))
			require.Equal(t, digits(noon)+deadHold(70)+turnMode, p.replied("from"))
			end(p)
			p.clock -= 3600 * second // and tickets begin anew, below theirs
			p.joins(holdOf("c"))
			p.joins(holdOf("d"))
			require.Equal(t, holdOf("c"), p.passes(ours))
		})
	}
}

func TestSessionsThatWentAreForgotten(t *testing.T) {
	t.Parallel()
	p := newLock(t)
	p.set(lockSays(theirs+turnMode, noon, "q")+"\n3600000", time.Hour)
	const n = 400
	for i := range n {
		p.clock += second
		p.joins(deadHold(i))
		p.leaves(deadHold(i))
	}
	// 64 are left alone, those of the last minute lived, and of the rest each that came found some.
	fields, _ := p.server.MustDo(t, "HLEN", p.heartbeats).(int64)
	require.Less(t, fields, int64(n/2))
	for i := n - 60; i < n; i++ {
		require.NotEmpty(t, p.replied(deadHold(i)[:22]), "one that lived lately")
	}
	p.requireEnds()
}

// P4: what a search writes down has an end, too.
func TestTheMemoryOfTheDeadHasAnEnd(t *testing.T) {
	t.Parallel()
	p := newLock(t)
	p.set(idleSays(noon), markLife)
	p.dead(3, noon-second)
	p.server.MustDo(t, "DEL", p.heartbeats)
	p.server.MustDo(t, "HSET", p.heartbeats, deadHold(1)[:22], heartbeatField(noon-second, 1)) // without an end
	p.tries(ours)
	require.NotEmpty(t, p.replied("from"))
	p.requireEnds()
}
