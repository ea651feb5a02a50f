// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// game is a random use of one name with a queue, and what a naive model of it says.
type game struct {
	*rand.Rand

	q      *queueFixture
	naive  *naive
	made   []string // all attempts so far
	listen map[string]*listener
}

// players are the sessions of a game.
var players = []string{session("a"), session("b"), session("c"), session("d")}

// newGame returns a game in which these sessions listen.
func newGame(q *queueFixture, n *naive, seed uint64, listening []string) *game {
	g := &game{q: q, Rand: rand.New(rand.NewPCG(seed, 1)), naive: n, listen: make(map[string]*listener)} //nolint:gosec // repeatable
	n.sessions, n.messages = make(map[string]lifeOf), make(map[string][]string)
	for _, session := range listening {
		g.listen[session] = q.listens(session)
	}
	n.listens = func(session string) bool { return g.listen[session] != nil }
	g.advance(0)
	return g
}

func (g *game) advance(us int64) {
	g.q.clock += us
	g.naive.now = g.q.clock
}

// latest returns the attempts that were made last.
func (g *game) latest(n int) []string { return g.made[max(len(g.made)-n, 0):] }

// late returns some of these, of one session or of all.
func (g *game) late(session string) (some []string) {
	for _, attempt := range g.latest(12) {
		if (session == "" || attempt[:22] == session) && g.IntN(4) > 0 {
			some = append(some, attempt)
		}
	}
	return some
}

// beats sends a heartbeat, which may be late.
func (g *game) beats(session string) string {
	number := heartbeatNumber(max(g.q.heartbeatCount-g.IntN(3), 1))
	g.q.heartbeat(session, life, number)
	g.naive.heartbeat(session, number)
	return "heartbeat of " + session
}

// listened says in heartbeats that a session listens, if it waits.
func (g *game) listened(session string) string {
	if g.q.seemsListening(session) {
		g.naive.isListening(session, true)
	}
	return "was heard " + session
}

// elapse lets time pass, or sets the clock.
func (g *game) elapse() string {
	steps := []int64{1, second, 4 * second, 15 * second, 40 * second, 70 * second, -second, -hour}
	if us := g.Int64N(2 * second); g.IntN(2) == 0 {
		steps = []int64{us}
	}
	g.advance(steps[g.IntN(len(steps))])
	return fmt.Sprint("time is ", g.q.clock)
}

// compareMessages compares the messages to the sessions since the last call with those of the model.
func (g *game) compareMessages() {
	g.q.Helper()
	for session := range g.listen {
		require.Equal(g.q, append([]string{}, g.naive.messages[session]...), g.listen[session].received(), "what %s was told", session)
	}
	clear(g.naive.messages)
}

// player is a game of one kind of lock.
type player interface {
	step() (what string, got, want any) // does one thing to the lock and to the model, and returns what both reply
	compare()                           // holds the lock against the model
	compareMessages()
	requireEnds() // checks that every key has an end
}

// plays takes walks of some games.
func plays(t *testing.T, newPlayer func(t *testing.T, seed uint64) player) {
	t.Helper()
	const steps, between = 500, 20                      // steps between two comparisons of the messages
	for seed := range uint64(redistest.Rounds(2, 20)) { //nolint:gosec // a few
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			g := newPlayer(t, seed)
			var history []string
			for n := range steps {
				what, got, want := g.step()
				history = append(history, what)
				require.Equal(t, want, got, "%v", history[max(len(history)-40, 0):])
				g.compare()
				if (n+1)%between == 0 {
					g.compareMessages()
				}
			}
			g.requireEnds()
		})
	}
}

// lockGame is a game of an exclusive lock.
type lockGame struct {
	*queued
	*game

	model naiveLock
}

func newLockGame(t *testing.T, seed uint64) player {
	t.Helper()
	g := &lockGame{queued: newLock(t)}
	g.model.real = g.inQueue
	g.game = newGame(g.queueFixture, &g.model.naive, seed, players[:3])
	return g
}

// fresh returns a new attempt of a session.
func (g *lockGame) fresh(session string) string {
	g.made = append(g.made, session+fmt.Sprintf("%019d", len(g.made)))
	return g.made[len(g.made)-1]
}

// anyHold returns one of all attempts, mostly a late one, and often the holder.
func (g *lockGame) anyHold() string {
	switch {
	case len(g.made) == 0 || g.IntN(4) == 0:
		return g.fresh(players[g.IntN(len(players))])
	case g.IntN(3) == 0 && g.model.seen().hold != "":
		return g.model.seen().hold
	}
	return g.latest(8)[g.IntN(min(len(g.made), 8))]
}

func (g *lockGame) step() (what string, got, want any) {
	hold := g.anyHold()
	switch g.IntN(14) {
	case 0, 1, 2:
		got = g.joins(hold)
		return "joins " + hold, got, g.model.enter(hold, heartbeatNumber(g.heartbeatCount))
	case 3:
		return "tries " + hold, g.tries(hold), g.model.enter(hold, "")
	case 4, 5:
		return "leaves " + hold, g.leaves(hold), g.model.leave(hold)
	case 6, 7:
		listed := g.late(hold[:22])
		got = g.polls(hold[:22], listed...)
		return fmt.Sprint("polls ", listed), got, g.model.poll(hold[:22], heartbeatNumber(g.heartbeatCount), listed)
	case 8, 9:
		return g.requeueStep(hold)
	case 10:
		return g.rareStep(hold)
	case 11:
		ttl := g.Int64N(10) * 1000
		got = g.renews(hold, time.Duration(ttl)*time.Millisecond)
		return fmt.Sprint("renews ", hold, ttl), got, g.model.renew(hold, ttl)
	}
	return g.elapse(), nil, nil
}

// requeueStep queues a fresh attempt, or an earlier one again, as a late copy does.
func (g *lockGame) requeueStep(hold string) (what string, got, want any) {
	next := g.anyHold()
	if next[:22] != hold[:22] || next == hold {
		next = g.fresh(hold[:22])
	}
	notAfter := g.clock
	if g.IntN(6) == 0 {
		notAfter-- // it is late
	}
	args := g.requeueArgs(hold, next, "0")
	args[3] = digits(notAfter)
	got = g.mustRun(scripts.LockRequeue, g.all, args...)
	return fmt.Sprint("requeues ", hold, " ", next, notAfter), got, g.model.requeue(hold, next, heartbeatNumber(g.heartbeatCount), notAfter)
}

func (g *lockGame) rareStep(hold string) (what string, got, want any) {
	switch g.IntN(5) {
	case 0:
		return g.listened(players[3]), nil, nil
	case 1:
		return g.beats(hold[:22]), nil, nil
	case 2:
		return "leaves alone " + hold, g.alone(scripts.LockLeave, g.leaveArgs(hold)...), g.model.leaveAlone(hold)
	case 3:
		return "forces " + hold, g.forces(hold), g.model.force(hold)
	default:
		g.server.MustDo(g, "DEL", g.key)
		g.model.key = naiveKey{}
		return "loses the key", nil, nil
	}
}

func (g *lockGame) compare() {
	g.Helper()
	g.model.forget()
	want := []any{}
	for _, of := range g.model.tickets {
		want = append(want, of.hold+turnMode)
	}
	require.Equal(g, want, g.inQueue())
	k, says := g.model.seen(), ""
	switch {
	case k.hold != "":
		says = lockSays(k.hold+turnMode, k.stamp, map[bool]string{true: "q", false: "-"}[k.isMarked])
	case k.isMarked:
		says = idleSays(k.stamp)
	case k.ends > 0:
		says = released(k.stamp)
	}
	require.Equal(g, says, g.value())
	if says != "" {
		require.Equal(g, k.ends-g.model.millis(), g.ttl(g.key))
	}
}

func (g *lockGame) requireEnds() {
	for _, key := range g.all {
		require.NotEqual(g, int64(-1), g.ttl(key), "%s has no end", key)
	}
}

// P1, P3, order: whatever happens in whatever order, and whatever the clock does, the lock is what the naive one is.
func TestTheLockIsWhatANaiveOneIs(t *testing.T) {
	t.Parallel()
	plays(t, newLockGame)
}
