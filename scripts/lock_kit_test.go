// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
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

// tokens is how far the tokens of a hold reach behind its stamp, and markLife for how long a mark without a hold lives.
const (
	tokens   = 255
	markLife = 10 * time.Minute
)

// queued is a lock of kind l, whose keys end by the clock of the test.
type queued struct {
	*queueFixture

	all []string // the keys of the lock
}

func newLock(tb testing.TB) *queued {
	tb.Helper()
	l := newQueueFixture(tb)
	l.isTimed, l.suffix = true, turnMode
	return &queued{l, l.keys()}
}

func (q *queued) lockEnterArgs(hold, queues, number string) []any {
	return []any{hold + q.suffix + "-", lease, digits(q.clock), label, waiting(queues, number, q.grants)}
}

// waiting is what an enter needs only if the lock is not free.
func waiting(queues, number, grants string) string {
	return fmt.Sprint(queues, " ", life, " ", number, " ", keepMS, " PUBLISH ", grants)
}

func (q *queued) tries(hold string) []any {
	q.Helper()
	return q.mustRun(scripts.LockEnter, q.all, q.lockEnterArgs(hold, "0", "")...)
}

func (q *queued) joins(hold string) []any {
	q.Helper()
	return q.mustRun(scripts.LockEnter, q.all, q.lockEnterArgs(hold, "1", q.next())...)
}

// leaveArgs are those of a hold that used its first token at most, and may have a ticket.
func (q *queued) leaveArgs(hold string) []any {
	return []any{hold + q.suffix, hold[:22], "PUBLISH", q.grants, keepMS, digits(0), "0"}
}

func (q *queued) leaves(hold string) []any {
	q.Helper()
	return q.mustRun(scripts.LockLeave, q.all, q.leaveArgs(hold)...)
}

func (q *queued) polls(session string, holds ...string) []any {
	q.Helper()
	tickets := make([]string, len(holds))
	for i, hold := range holds {
		tickets[i] = hold + q.suffix
	}
	reply := q.mustRun(scripts.LockPoll, q.all, q.pollArgs(session, tickets...)...)
	return reply[:min(6, len(reply))] // the model does not know the stamp
}

func (q *queued) renews(hold string, ttl time.Duration) any {
	q.Helper()
	return q.mustRun(scripts.HolderRenew, q.all[:1], hold+q.suffix, ttl.Milliseconds())[0]
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

// alone sends a call with the holder key alone, as a client does while a slot moves.
func (q *queued) alone(script *scripts.Script, args ...any) []any {
	q.Helper()
	return q.mustRun(script, q.all[:1], args...)
}
