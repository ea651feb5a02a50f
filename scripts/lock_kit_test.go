// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

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

// forces ends a hold by force.
func (q *queued) forces(hold string) any {
	q.Helper()
	return q.mustRun(scripts.LockForce, q.all, q.forceArgs(hold)...)[0]
}

func (q *queued) forceArgs(hold string) []any {
	return []any{hold, "PUBLISH", q.grants, q.notified(), keepMS}
}

// newLock returns a lock of kind l, whose keys end by the clock of the test.
func newLock(tb testing.TB) *queued {
	tb.Helper()
	return queuedOf(newFixture(tb), lockQueue)
}

// tokens is how far the tokens of a hold reach behind its stamp, and markLife for how long a mark without a hold lives.
const (
	tokens   = 255
	markLife = 10 * time.Minute
)

// lockHas returns what holds, "" for nothing.
func (q *queued) lockHas() string {
	q.Helper()
	for hold := range q.held() {
		return hold
	}
	return ""
}

// frees sends the short release of a hold that was granted without a mark.
func (q *queued) frees(hold, used string) any {
	q.Helper()
	return q.mustRun(scripts.LockFree, q.all[:1], hold+q.suffix+"-", used, keepMS)[0]
}

func (q *queued) heartbeatKeys() []string { return q.all }

// heartbeatArgs are those of a lock/heartbeat that saw a hold with that stamp.
func (q *queued) heartbeatArgs(session string, seen int64) []any {
	return []any{session, life, q.next(), digits(seen)}
}

// alone sends a call with the holder key alone, as a client does while a slot moves.
func (q *queued) alone(script *scripts.Script, args ...any) []any {
	q.Helper()
	return q.mustRun(script, q.all[:1], args...)
}
