// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// The kinds of locks with a queue. A read-write lock has two: of readers and of writers.
const lockQueue, readerQueue, writerQueue, permitQueue = "Lock", "Readers", "Writers", "Permits"

// queued is a lock of any kind with a queue, as the tests that all kinds share see it. Its waiters exclude each
// other, except readers.
type queued struct {
	*queueFixture

	kind               string
	all                []string // the keys of the lock
	enter, leave, poll *scripts.Script
	more               []any // what enter has behind the arguments of all kinds
	rw                 *rwlock
	permits            *permits
}

func queuedOf(f *fixture, kind string) *queued {
	switch kind {
	case lockQueue:
		f.isTimed = true
		l := queueFixtureOf(f)
		l.suffix = turnMode
		return &queued{queueFixture: l, kind: kind, all: l.keys(), enter: scripts.LockEnter, leave: scripts.LockLeave, poll: scripts.LockPoll}
	case permitQueue:
		l := permitsOf(f, 1)
		l.suffix = permitRequest("", 1)
		return &queued{
			queueFixture: l.queueFixture, kind: kind, all: l.keys(), permits: l, more: []any{1, "0"},
			enter: scripts.SemaphoreEnter, leave: scripts.SemaphoreLeave, poll: scripts.SemaphorePoll,
		}
	default:
		l := rwlockOf(f)
		at, mode := *l.queueFixture, writes
		if kind == readerQueue {
			at.tickets, mode = l.readers, reads
		}
		return &queued{
			queueFixture: &at, kind: kind, all: l.keys(), rw: l, more: []any{mode},
			enter: scripts.RWLockEnter, leave: scripts.RWLockLeave, poll: scripts.RWLockPoll,
		}
	}
}

func (q *queued) enterArgs(hold, queues, number string) []any {
	return append(q.queueFixture.enterArgs(hold+q.suffix, queues, number), q.more...)
}

func (q *queued) tries(hold string) []any {
	q.Helper()
	return q.mustRun(q.enter, q.all, q.enterArgs(hold, "0", "")...)
}

func (q *queued) joins(hold string) []any {
	q.Helper()
	return q.mustRun(q.enter, q.all, q.enterArgs(hold, "1", q.next())...)
}

// has gives the lock to hold, alone.
func (q *queued) has(hold string) {
	q.Helper()
	alone := *q
	if q.rw != nil {
		alone.more = []any{writes}
	}
	require.Equal(q, int64(1), alone.tries(hold)[0])
}

// queues gives each hold a ticket.
func (q *queued) queues(holds ...string) {
	q.Helper()
	for _, hold := range holds {
		require.Equal(q, int64(0), q.joins(hold)[0])
	}
}

// member is what a hold is called by the scripts that end it or make it longer.
func (q *queued) member(hold string) string {
	if q.isExclusive() {
		return hold + q.suffix
	}
	return hold + q.suffix + label
}

func (q *queued) leaveArgs(hold string) []any {
	args := []any{q.member(hold), hold[:22], "PUBLISH", q.grants, keepMS}
	if q.kind == lockQueue {
		args = append(args, digits(0), "0") // it used the first token at most, and may have a ticket
	}
	return args
}

func (q *queued) leaves(hold string) []any {
	q.Helper()
	return q.mustRun(q.leave, q.all, q.leaveArgs(hold)...)
}

func (q *queued) pollArgs(session string, holds ...string) []any {
	tickets := make([]string, len(holds))
	for i, hold := range holds {
		tickets[i] = hold + q.suffix
	}
	return q.queueFixture.pollArgs(session, tickets...)
}

func (q *queued) polls(session string, holds ...string) []any {
	q.Helper()
	reply := q.mustRun(q.poll, q.all, q.pollArgs(session, holds...)...)
	return reply[:min(6, len(reply))] // the stamp of a lock's hold has a test of its own: TestWaitIsAHeartbeatBesideTheSameHold
}

func (q *queued) renews(hold string, ttl time.Duration) any {
	q.Helper()
	script := scripts.HoldsRenew
	if q.isExclusive() {
		script = scripts.HolderRenew
	}
	return q.mustRun(script, q.all[:1], q.member(hold), ttl.Milliseconds())[0]
}

// held returns the holds of the lock, and until when they last.
func (q *queued) held() map[string]int64 {
	q.Helper()
	holds := make(map[string]int64)
	if q.kind == lockQueue {
		return q.lockHeld()
	}
	for name, score := range q.scores(q.key) {
		if len(name) > 40 {
			require.Equal(q, q.suffix+label, name[41:])
			holds[name[:41]] = score
		}
	}
	return holds
}

// isExclusive reports whether one hold at a time has the lock, and is its key.
func (q *queued) isExclusive() bool { return q.kind == lockQueue }

// queue returns the tickets, in order.
func (q *queued) queue() []any {
	q.Helper()
	tickets := q.inQueue
	if q.rw != nil {
		tickets = q.rw.inQueues
	}
	holds := []any{}
	for _, ticket := range tickets() {
		holds = append(holds, strings.TrimSuffix(fmt.Sprint(ticket), q.suffix))
	}
	return holds
}

// floor returns the last token's stamp, 0 where it is not known.
func (q *queued) floor() int64 {
	q.Helper()
	scores := q.scores(q.key)
	for _, name := range []string{"sb1w", "sb1s"} {
		if kept, isHeld := scores[name]; isHeld {
			return -kept
		}
	}
	if value := q.value(); value != "" {
		return parseStamp(q, value[4:20])
	}
	return 0
}
