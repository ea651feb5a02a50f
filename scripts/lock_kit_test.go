// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"

	"github.com/signalbox-go/signalbox/scripts"
)

// The modes of tickets: a turn of a session, one whose hold may be idle, and a fair request.
const turnMode, idleMode, fairMode = "r", "k", "f"

// lockSays is what the holder key says while hold has the lock.
func lockSays(ticket string, stamp int64, mark string) string {
	return "sb1l" + digits(stamp) + ticket + mark + label
}

// idleSays is what it says while the lock is free, and a queue may exist.
func idleSays(floor int64) string { return "sb1l" + digits(floor) + strings.Repeat("-", 42) + "q" }

// isMarked reports whether the holder key says that a queue may exist.
func (q *queueFixture) isMarked() bool {
	q.Helper()
	value := q.value()
	return len(value) >= 63 && value[62] == 'q'
}

// lockHeld returns which hold has a lock of kind l, and until when, to the millisecond.
func (q *queueFixture) lockHeld() map[string]int64 {
	q.Helper()
	value := q.value()
	if len(value) < 63 || value[61] == '-' {
		return map[string]int64{}
	}
	until := q.clock/1000*1000 + q.ttl(q.key)*1000
	if q.isMarked() {
		until -= keeps.Microseconds()
	}
	return map[string]int64{value[20:61]: until}
}

// requeueArgs are those of a call in time that ends old and queues another.
func (q *queued) requeueArgs(old, fresh, certain string) []any {
	return []any{
		old + q.suffix, fresh + q.suffix, lease * 1000, digits(q.clock), life, q.next(), label, "PUBLISH", q.grants, keepMS, digits(0), certain,
	}
}

// requeues ends old, which may have a ticket, and queues another.
func (q *queued) requeues(old, fresh string) []any {
	q.Helper()
	return q.mustRun(scripts.LockRequeue, q.all, q.requeueArgs(old, fresh, "0")...)
}

// forces ends a hold by force.
func (q *queued) forces(hold string) any {
	q.Helper()
	return q.mustRun(scripts.LockForce, q.all, q.forceArgs(hold)...)[0]
}

func (q *queued) forceArgs(hold string) []any {
	return []any{hold, "PUBLISH", q.grants, q.notified(), keepMS}
}

func (q *queued) lockWaiters(after any, count int) []any {
	q.Helper()
	return q.mustRun(scripts.LockWaiters, q.all[1:], after, count, 42)
}

// newLock returns a lock of kind l, whose keys end by the clock of the test.
func newLock(tb testing.TB) *queued {
	tb.Helper()
	return queuedOf(newFixture(tb), lockQueue)
}
