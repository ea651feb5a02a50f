// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

const (
	second, hour = 1_000_000, 3600 * second // in the unit of stamps
	// life is what a heartbeat gives here, and lw what the longest gives that there is.
	life, longestLife = 3 * second, 30 * second
	// keeps is for how long the holder key outlives its hold.
	keeps = 15 * time.Second
	// keepsPosition is for how long a dead session keeps its position.
	keepsPosition = 10 * second
	// queueLife is for how long the keys of a queue are kept after their last use.
	queueLife = 10 * time.Minute
)

// line is one lock with a queue of one test.
type queueFixture struct {
	*fixture

	tickets, heartbeats, grants string
	suffix                      string // what a ticket says behind its hold: how many permits it wants
	heartbeatCount              int    // heartbeats so far
}

func newQueueFixture(tb testing.TB) *queueFixture {
	tb.Helper()
	return queueFixtureOf(newFixture(tb))
}

func queueFixtureOf(f *fixture) *queueFixture {
	name := strings.TrimSuffix(f.key, "lock")
	return &queueFixture{fixture: f, tickets: name + "queue", heartbeats: name + "heartbeats", grants: name + "grants:"}
}

func (q *queueFixture) keys() []string { return []string{q.key, q.tickets, q.heartbeats} }

// mustRun returns the reply of the script, which must not fail.
func (q *queueFixture) mustRun(script *scripts.Script, keys []string, args ...any) []any {
	q.Helper()
	reply, err := q.tryKeys(script, keys, args...)
	require.NoError(q, err)
	if list, ok := reply.([]any); ok {
		return list
	}
	if stamp, ok := reply.(int64); ok && stamp > 1<<40 {
		text := fmt.Sprintf("%016d", stamp)
		return []any{int64(1), text, text} // what a lone stamp stands for
	}
	return []any{reply}
}

// nth is the n-th hold of a session.
func nth(letter string, n int) string { return session(letter) + fmt.Sprintf("%019d", n) }

// attempt is what a message says of a hold.
func attempt(hold string) string { return hold[22:] }

// heartbeatNumber is that of the n-th heartbeat.
func heartbeatNumber(n int) string { return fmt.Sprintf("%012drandom-%d", n, n%10) }

// next returns the number of a heartbeat that is sent now.
func (q *queueFixture) next() string {
	q.heartbeatCount++
	return heartbeatNumber(q.heartbeatCount)
}

func (q *queueFixture) enterArgs(hold, queues, number string) []any {
	return []any{hold, lease * 1000, digits(q.clock), queues, life, number, label, "PUBLISH", q.grants, keepMS}
}

func (q *queueFixture) pollArgs(session string, holds ...string) []any {
	var attempts strings.Builder
	for _, hold := range holds {
		attempts.WriteString(attempt(hold))
	}
	return []any{session, life, q.next(), label, "PUBLISH", q.grants, attempts.String(), keepMS}
}

// heartbeat sends a heartbeat alone.
func (q *queueFixture) heartbeat(session string, lw int64, number string) {
	q.Helper()
	require.Equal(q, []any{int64(1)}, q.mustRun(scripts.QueueHeartbeat, []string{q.heartbeats}, session, lw, number, label))
}

// inQueue returns the holds of the tickets, in order.
func (q *queueFixture) inQueue() []any {
	q.Helper()
	holds, _ := q.server.MustDo(q, "ZRANGE", q.tickets, 0, -1).([]any)
	return holds
}

// replied returns what heartbeats says of a session, "" for nothing.
func (q *queueFixture) replied(session string) string {
	q.Helper()
	text, _ := q.server.MustDo(q, "HGET", q.heartbeats, session).(string)
	return text
}

// heartbeatField is what heartbeats says of a session that counts as alive until then, by the n-th heartbeat, and that does not listen.
func heartbeatField(until int64, n int) string {
	return digits(until) + heartbeatNumber(n) + "-" + label
}

// requireEnds checks that every key that there is has an end, and those of the queue theirs.
func (q *queueFixture) requireEnds() {
	q.Helper()
	for _, key := range q.keys() {
		ms := q.ttl(key)
		require.NotEqual(q, int64(-1), ms, "%s has no end", key)
		if key != q.key && ms >= 0 {
			require.InDelta(q, queueLife.Milliseconds(), ms, float64(patience.Milliseconds()), key)
		}
	}
}

// hears listens for the messages to a session.
func (q *queueFixture) listens(session string) *listener {
	q.Helper()
	at := *q.fixture
	at.channel = q.grants + session
	return at.listen()
}

// naive is what the models of all locks with a queue have: their clock, tickets, sessions and messages.
type naive struct {
	now      int64
	tickets  []ticket
	sessions map[string]lifeOf
	messages map[string][]string       // the messages to each session
	listens  func(session string) bool // whether the server has a listener of the session
	blocked  string                    // the hold that the last hand-off passed over because it does not fit; "" without one
}

type ticket struct {
	hold string
	at   int64
}

type lifeOf struct {
	until       int64
	number      string
	isListening bool // the session had a listener at its last poll
}

func (n *naive) isAlive(session string) bool {
	l, known := n.sessions[session]
	return known && l.until > n.now && l.until-n.now <= longestLife
}

func (n *naive) isGone(session string) bool {
	l, known := n.sessions[session]
	return !known || l.until+keepsPosition <= n.now
}

func (n *naive) heartbeat(session, number string) {
	l := lifeOf{until: n.now + life, number: number}
	if n.isAlive(session) {
		old := n.sessions[session]
		l = lifeOf{max(l.until, old.until), max(l.number, old.number), old.isListening}
	}
	n.sessions[session] = l
}

// countHeartbeat is a heartbeat that asks whether the session can be notified.
func (n *naive) countHeartbeat(session, number string) {
	n.heartbeat(session, number)
	n.isListening(session, n.listens(session))
}

// isListening says whether a session listened at its last poll.
func (n *naive) isListening(session string, isListening bool) {
	l := n.sessions[session]
	l.isListening = isListening
	n.sessions[session] = l
}

// withUnlisted is the reply to a poll that lists some holds: it says, too, if another one of the session keeps others out.
func (n *naive) withUnlisted(reply []any, session string, listed []string) []any {
	if n.blocked == "" || n.blocked[:22] != session || slices.Contains(listed, n.blocked) {
		return reply
	}
	return append(reply, n.blocked[22:])
}

// serves reports whether a session may be granted the lock: it is alive and can be notified, or is the caller.
func (n *naive) serves(session, caller string) bool {
	return n.isAlive(session) && (session == caller || !n.sessions[session].isListening || n.listens(session))
}

// seemsListening says in heartbeats that a session of a game listens, if it waits, and reports whether it does.
func (q *queueFixture) seemsListening(session string) bool {
	q.Helper()
	said := q.replied(session)
	if said != "" {
		q.server.MustDo(q, "HSET", q.heartbeats, session, said[:36]+"+"+said[37:])
	}
	return said != ""
}
