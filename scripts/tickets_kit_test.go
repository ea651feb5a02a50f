// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strings"
	"testing"
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

// eachQueue runs a test of these kinds of locks, or of all.
func eachQueue(t *testing.T, run func(q *queued), kinds ...string) {
	t.Helper()
	eachQueueOf(t, newFixture, run, kinds)
}

// eachQueueAt is eachQueue on a server of its own for each kind.
func eachQueueAt(t *testing.T, run func(q *queued), kinds ...string) {
	t.Helper()
	eachQueueOf(t, func(tb testing.TB) *fixture { tb.Helper(); return newFixtureAt(tb) }, run, kinds)
}

func eachQueueOf(t *testing.T, fresh func(tb testing.TB) *fixture, run func(q *queued), kinds []string) {
	t.Helper()
	if len(kinds) == 0 {
		kinds = []string{lockQueue, readerQueue, writerQueue, permitQueue}
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			run(queuedOf(fresh(t), kind))
		})
	}
}

func (q *queued) keys() []string { return q.all }

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

// passes releases the lock that hold has, and returns which hold has it then.
func (q *queued) passes(hold string) string {
	q.Helper()
	require.Equal(q, int64(1), q.leaves(hold)[0])
	return q.lockHas()
}

// left is what a leave replies, now.
func (q *queued) left(code int64, grants string) []any {
	if code == 0 || code == 2 && q.isExclusive() {
		return []any{code, digits(q.clock)}
	}
	return []any{code, digits(q.clock), grants, int64(0)}
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

// pollReply is the reply to a poll, now.
func (q *queued) pollReply(left int64, grants, states string) []any {
	return []any{int64(1), left, int64(0), grants, states, digits(q.clock)}
}

func (q *queued) drops(hold string) any {
	q.Helper()
	if q.kind == lockQueue {
		reply := q.mustRun(q.leave, q.all[:1], q.leaveArgs(hold)...)
		return map[int64]int64{3: 1, -3: 0}[reply[0].(int64)]
	}
	return q.mustRun(scripts.HoldsDrop, q.all[:1], q.member(hold))[0]
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

// tick is the shortest time in which a hold ends: that of a key of kind l does so to the millisecond.
func (q *queued) tick() int64 {
	if q.kind == lockQueue {
		return 1000
	}
	return 1
}

// until is what held returns while hold has the lock alone.
func until(hold string, at int64) map[string]int64 { return map[string]int64{hold: at} }

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

// stamp returns the stamp of the next grant in the queue: those of permits begin a block.
func (q *queued) stamp(floor int64) int64 {
	stamp := max(q.clock, floor+1)
	if q.kind == permitQueue {
		stamp = (stamp + longestBlock - 1) / longestBlock * longestBlock
	}
	return stamp
}

// outlives is for how long the holder key outlives its holds.
func (q *queued) outlives() time.Duration {
	switch q.kind {
	case permitQueue:
		return floorLife
	case lockQueue:
		if !q.isMarked() {
			return 0
		}
	}
	return keeps
}

// owns is the reply to a poll for a hold that has the lock: a lock of kind l says it by the grant alone.
func (q *queued) owns() string {
	if q.isExclusive() {
		return "0"
	}
	return "2"
}

func (q *queued) unchanged() func() {
	q.Helper()
	return q.unchangedKeys(q.keys)
}

// requireFree checks that the lock has no holder and no waiter, and that the floor is kept.
func (q *queued) requireFree(floor int64) {
	q.Helper()
	require.Empty(q, q.held())
	require.Empty(q, q.queue())
	require.Equal(q, floor, q.floor())
	q.requireLife(floorLife)
	if q.kind != permitQueue {
		require.Equal(q, released(floor), q.value())
	}
}

// requireEnds checks that every key that there is has an end, and those of the queue theirs.
func (q *queued) requireEnds() {
	q.Helper()
	q.queueFixture.requireEnds()
	if q.rw != nil {
		q.rw.requireEnds()
	}
}
