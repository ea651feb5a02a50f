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

// game is a random use of one lock, and what ought to come of it.
type game struct {
	*queued
	*rand.Rand

	model  naiveLock
	made   []string // all ids so far
	listen map[string]*listener
}

// games is how many games are played with each kind of lock.
func games() uint64 { return uint64(redistest.Rounds(2, 20)) }

// players are the sessions of a game.
var players = []string{session("a"), session("b"), session("c"), session("d")}

func newGame(t *testing.T, seed uint64) *game {
	t.Helper()
	g := &game{queued: newLock(t), Rand: rand.New(rand.NewPCG(seed, 1)), listen: make(map[string]*listener)} //nolint:gosec // repeatable
	g.model = naiveLock{naive: naive{sessions: make(map[string]lifeOf), notified: make(map[string][]string)}, real: g.inQueue}
	for _, session := range players[:3] {
		g.listen[session] = g.listens(session)
	}
	g.model.listens = func(session string) bool { return g.listen[session] != nil }
	g.advance(0)
	return g
}

// fresh returns a new attempt of a session.
func (g *game) fresh(session string) string {
	n := len(g.made)
	g.made = append(g.made, session+fmt.Sprintf("%019d", n))
	return g.made[n]
}

// anyHold returns one of all attempts, mostly a late one, and often the holder.
func (g *game) anyHold() string {
	n := len(g.made)
	switch {
	case n == 0 || g.IntN(4) == 0:
		return g.fresh(players[g.IntN(len(players))])
	case g.IntN(3) == 0 && g.model.seen().hold != "":
		return g.model.seen().hold
	}
	return g.made[max(n-1-g.IntN(8), 0)]
}

// step does one thing to the lock and to the model, and returns what both reply.
func (g *game) step() (what string, got, want any) {
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
		return g.pollStep(hold[:22])
	case 8, 9:
		return g.requeueStep(hold)
	case 10:
		return g.rareStep(hold)
	case 11:
		ttl := g.Int64N(10) * 1000
		got = g.renews(hold, time.Duration(ttl)*time.Millisecond)
		return fmt.Sprint("renews ", hold, ttl), got, g.model.renew(hold, ttl)
	case 12:
		g.advance(g.Int64N(2 * second))
	default:
		g.advance([]int64{1, 4 * second, 15 * second, 40 * second, -second, -hour}[g.IntN(6)])
	}
	return fmt.Sprint("time is ", g.clock), nil, nil
}

func (g *game) pollStep(session string) (what string, got, want any) {
	var listed []string
	for _, h := range g.made[max(len(g.made)-12, 0):] {
		if h[:22] == session && g.IntN(4) > 0 {
			listed = append(listed, h)
		}
	}
	got = g.polls(session, listed...)
	return fmt.Sprint("polls ", listed), got, g.model.poll(session, heartbeatNumber(g.heartbeatCount), listed)
}

// requeueStep queues a fresh attempt, or an earlier one again, as a late copy does.
func (g *game) requeueStep(hold string) (what string, got, want any) {
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
	return fmt.Sprint("requeues ", hold, " ", next, notAfter-g.clock), got, g.model.requeue(hold, next, heartbeatNumber(g.heartbeatCount), notAfter)
}

func (g *game) rareStep(hold string) (what string, got, want any) {
	switch g.IntN(5) {
	case 0:
		unsubscribed := players[3]
		if g.seemsListening(unsubscribed) {
			g.model.isListening(unsubscribed, true)
		}
		return "was heard " + unsubscribed, nil, nil
	case 1:
		number := heartbeatNumber(max(g.heartbeatCount-g.IntN(3), 1)) // some are late
		g.heartbeat(hold[:22], life, number)
		g.model.heartbeat(hold[:22], number)
		return "heartbeat of " + hold[:22], nil, nil
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

func (g *game) advance(us int64) {
	g.clock += us
	g.model.now = g.clock
}

// compare holds the lock against the model.
func (g *game) compare() {
	g.Helper()
	g.model.forget()
	want := []any{}
	for _, t := range g.model.tickets {
		want = append(want, t.hold+turnMode)
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

// compareMessages compares the messages to the sessions since the last call with those of the model.
func (g *game) compareMessages() {
	g.Helper()
	for session := range g.listen {
		require.Equal(g, append([]string{}, g.model.notified[session]...), g.listen[session].received(), "what %s was told", session)
	}
	clear(g.model.notified)
}

// P1, P3, order: whatever happens in whatever order, and whatever the clock does, the lock is what the naive one is.
func TestTheLockIsWhatANaiveOneIs(t *testing.T) {
	t.Parallel()
	const steps, between = 500, 20 // steps between two comparisons of the messages
	for seed := range games() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			g := newGame(t, seed)
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
			for _, key := range g.all {
				require.NotEqual(t, int64(-1), g.ttl(key), "%s has no end", key)
			}
		})
	}
}
