// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// received queues these holds of a session, and says in heartbeats that it listened at this server. The server has no listener of it
// unless the test makes one.
func (q *queued) received(session string, holds ...string) {
	q.Helper()
	q.queues(holds...)
	said := q.replied(session)
	q.server.MustDo(q, "HSET", q.heartbeats, session, said[:36]+"+"+said[37:])
}

// listening returns what heartbeats says of the listener of a session.
func (q *queued) listening(session string) string {
	q.Helper()
	return q.replied(session)[36:37]
}

// S1: a poll says whether the server has a listener; a heartbeat alone does not ask, and changes nothing.
func TestHeartbeatSaysWhetherItsSessionListens(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(theirs)
		q.queues(ours)
		require.Equal(q, "-", q.listening(we))
		q.listens(we)
		q.polls(we, ours)
		require.Equal(q, "+", q.listening(we))
		q.heartbeat(we, life, q.next())
		require.Equal(q, "+", q.listening(we))
		if q.kind == lockQueue {
			require.True(q, q.waits(we, noon))
			require.Equal(q, "+", q.listening(we))
		}
		q.received(session("c"), holdOf("c"))
		q.polls(session("c"), holdOf("c"))
		require.Equal(q, "-", q.listening(session("c")), "it has no listener any more")
		q.listens(session("d"))
		q.queues(holdOf("d"))
		require.Equal(q, "+", q.listening(session("d")), "an enter asks too")
	})
}

// frees are the ways in which a lock of several holders that theirs has goes to its waiters.
func frees(q *queued) map[string]func() {
	ways := map[string]func(){
		"Leave": func() { q.leaves(theirs) },
		"Poll":  func() { q.drops(theirs); q.clock++; q.polls(we, ours) },
		"Enter": func() { q.drops(theirs); q.clock++; q.joins(nth("e", 1)) },
		"Try":   func() { q.drops(theirs); q.clock++; q.tries(nth("e", 1)) },
	}
	if q.rw != nil {
		ways["Force"] = func() { q.rw.forces(theirs) }
	} else {
		ways["Yield"] = func() { q.permits.yields(permitRequest(theirs, 1)) }
		ways["Resize"] = func() { q.permits.resizes(2) }
	}
	return ways
}

// S1: a waiter whose subscription has ended is passed over by whatever hands off. It keeps its ticket, and is first again when
// it listens.
func TestUnsubscribedReaderWriterOrPermitWaiter_IsPassedOver(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{readerQueue, writerQueue, permitQueue} {
		for way := range frees(queuedOf(newFixture(t), kind)) {
			t.Run(kind+way, func(t *testing.T) {
				t.Parallel()
				q := queuedOf(newFixture(t), kind)
				q.has(theirs)
				q.received(session("k"), nth("k", 1), nth("k", 2))
				q.queues(ours)
				frees(q)[way]()
				require.Contains(t, q.held(), ours)
				require.Equal(t, []any{nth("k", 1), nth("k", 2)}, q.queue()[:2])
				published := q.listens(session("k"))
				q.leaves(ours)
				require.Contains(t, q.held(), nth("k", 1), "it is heard again")
				require.NotEmpty(t, published.received())
			})
		}
	}
}

// S1: its own poll gets the lock for a waiter that does not listen. A waiter without a listener here may listen elsewhere.
func TestUnsubscribedWaiter_IsGrantedByItsOwnPoll(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(theirs)
		q.received(we, ours)
		q.leaves(theirs)
		require.Empty(q, q.held())
		require.Equal(q, []any{ours}, q.queue())
		reply := q.polls(we, ours)
		require.Contains(q, q.held(), ours)
		require.NotEmpty(q, reply[3])
		q.queues(holdOf("c"))
		q.received(session("c"))
		if q.kind == readerQueue {
			return // it reads beside ours
		}
		q.polls(session("c"), holdOf("c"))
		q.leaves(ours)
		require.Contains(q, q.held(), holdOf("c"), "it polled, and may listen elsewhere")
	}, lockQueue, writerQueue, permitQueue)
}

// S1, order: the memory of the dead ends before a waiter that does not listen, which may listen again at any time.
func TestSearchRemembersNoUnsubscribedWaiter(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(theirs)
		q.dead(3, noon-second)
		q.received(session("k"), nth("k", 1))
		q.queues(holdOf("y"), ours, holdOf("c"))
		q.clock += 2 * second
		for _, live := range []string{session("k"), we, session("c")} {
			q.heartbeat(live, life, q.next())
		}
		q.clock += life - second // y is dead, behind k
		q.leaves(theirs)
		require.Contains(q, q.held(), ours)
		require.Equal(q, digits(q.clock)+deadHold(3)+q.suffix, q.replied("from"))
		q.listens(session("k"))
		q.leaves(ours)
		require.Contains(q, q.held(), nth("k", 1))
		require.NotContains(q, q.held(), holdOf("c"))
	}, writerQueue, permitQueue)
}

// P6: if so many are dead behind a waiter that does not listen that no search gets past them, that waiter is granted the lock as
// if it listened: no poll is due at once again and again.
func TestUnsubscribedWaiterBeforeCountlessDead_IsServed(t *testing.T) {
	t.Parallel()
	eachQueueAt(t, func(q *queued) {
		q.has(theirs)
		q.dead(1100, noon-second)
		q.received(session("k"), nth("k", 1))
		q.server.MustDo(q, "ZADD", q.tickets, "XX", 1, nth("k", 1)+q.suffix)
		q.queues(ours)
		q.leaves(theirs)
		require.Contains(q, q.held(), nth("k", 1))
		require.Contains(q, q.queue(), any(ours))
	}, lockQueue, writerQueue, permitQueue)
}

// S1, order: a writer that does not listen keeps no reader out, and is before the readers that come after it listens again.
func TestUnsubscribedWriter_KeepsNoReaderOut(t *testing.T) {
	t.Parallel()
	q := queuedOf(newFixture(t), writerQueue)
	q.rw.has(theirs, reads)
	q.received(session("k"), nth("k", 1))
	q.rw.has(ours, reads)
	require.False(t, q.rw.isOpen(ours), "readers of its session ask the server")
	q.listens(session("k"))
	q.rw.queues(holdOf("c"), reads)
	q.leaves(theirs)
	q.leaves(ours)
	require.Contains(t, q.held(), nth("k", 1))
}

// S1, order: after a writer the readers that listen have their turn. One that is not waits for its poll, or for the next
// writer to be done.
func TestUnsubscribedReader_MissesItsTurnOnce(t *testing.T) {
	t.Parallel()
	q := queuedOf(newFixture(t), readerQueue)
	q.has(theirs)
	q.rw.queues(holdOf("w"), writes)
	q.received(session("k"), nth("k", 1))
	q.queues(ours)
	q.leaves(theirs)
	q.rw.requireHave(reads, ours)
	q.listens(session("k"))
	q.leaves(ours)
	q.rw.requireHave(writes, holdOf("w"))
	q.leaves(holdOf("w"))
	q.rw.requireHave(reads, nth("k", 1))
}

// S1, order: a request for many permits that does not listen keeps out none, and is first again from its next poll on.
func TestUnsubscribedRequestForMany_KeepsNoneOut(t *testing.T) {
	t.Parallel()
	p := permitsOf(newFixture(t), 2)
	q := &queued{queueFixture: p.queueFixture, kind: permitQueue, all: p.keys(), permits: p}
	many, one := permitRequest(nth("k", 1), 2), permitRequest(ours, 1)
	require.Equal(t, int64(1), p.tries(permitRequest(theirs, 1))[0])
	require.Equal(t, int64(0), p.joins(many)[0])
	require.Equal(t, int64(0), p.joins(one)[0])
	q.received(session("k"))
	p.polls(we, one)
	require.Contains(t, p.out(), any(holdFor(one)))
	p.polls(session("k"), many)
	require.Equal(t, int64(0), p.joins(permitRequest(nth("c", 1), 1))[0])
	p.leaves(one)
	require.NotContains(t, p.out(), any(holdFor(permitRequest(nth("c", 1), 1))), "it polled, and is first again")
	p.leaves(permitRequest(theirs, 1))
	require.Contains(t, p.out(), any(holdFor(many)))
}

// S1: what a sender may not ask leaves everything as it is.
func TestSenderThatMayNotAskForListeners_HandsTheLockOver(t *testing.T) {
	t.Parallel()
	eachQueueAt(t, func(q *queued) {
		q.has(theirs)
		q.queues(ours, holdOf("c"))
		q.received(we)
		q.server.MustDo(q, "ACL", "SETUSER", "default", "-pubsub")
		q.leaves(theirs)
		require.Contains(q, q.held(), ours)
		if q.kind != readerQueue {
			q.polls(session("c"), holdOf("c"))
			require.Equal(q, "-", q.listening(session("c")))
		}
	})
}
