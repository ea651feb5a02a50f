// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
)

func TestTheFirstWhoComesContends(t *testing.T) {
	t.Parallel()
	g := gateIn(t, idle)
	require.True(t, g.Join(waiter()))
	require.Equal(t, contending, g.inState())
	g = gateIn(t, idle)
	require.True(t, g.Try())
	require.Equal(t, contending, g.inState())
}

func TestWhoComesLaterWaitsAndATryIsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []state{contending, held, releasing} {
		g := gateIn(t, s)
		w := waiter()
		require.False(t, g.Try())
		require.False(t, g.Join(w))
		require.Equal(t, s, g.inState())
		requireWaits(t, w)
	}
}

// Each edge of the package doc that leaves the lock to the next.
func TestTheHeadContendsWhereTheLockIsFreed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from  state
		event func(g *Gate)
	}{
		"Quit":    {contending, (*Gate).Quit},
		"Lost":    {held, (*Gate).Lost},
		"Vacated": {releasing, func(g *Gate) { g.Vacated(clock.Instant{}) }},
	} {
		t.Run(name+"/SomebodyWaits", func(t *testing.T) {
			t.Parallel()
			g := gateIn(t, c.from)
			ws := queued(t, g, 2)
			c.event(g)
			require.Equal(t, contending, g.inState())
			requireContends(t, ws[0])
			requireWaits(t, ws[1])
		})
		t.Run(name+"/NobodyWaits", func(t *testing.T) {
			t.Parallel()
			g := gateIn(t, c.from)
			c.event(g)
			require.Equal(t, idle, g.inState())
			require.True(t, g.Try(), "the lock can be had again")
		})
	}
}

func TestAWonLockIsHeldUntilItIsVacated(t *testing.T) {
	t.Parallel()
	g := gateIn(t, contending)
	w := queued(t, g, 1)[0]
	g.Won(now, nil)
	require.Equal(t, held, g.inState())
	g.Vacate()
	require.Equal(t, releasing, g.inState())
	requireWaits(t, w)
}

func TestAPassedLockStaysHeld(t *testing.T) {
	t.Parallel()
	g := gateIn(t, held)
	ws := queued(t, g, 2)
	for _, w := range ws {
		require.Equal(t, Passed, g.Pass(now, terms, give))
		turn, given := taken(w)
		require.True(t, given)
		require.True(t, turn.Passed)
		require.NoError(t, turn.Err)
		require.Equal(t, held, g.inState())
	}
	require.Equal(t, GiveBack, g.Pass(now, terms, give))
}

func TestWhoGivesUpIsTakenOutOfTheQueue(t *testing.T) {
	t.Parallel()
	for name, out := range map[string]int{"Head": 0, "Middle": 1, "Tail": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gateIn(t, contending)
			ws := queued(t, g, 3)
			left, isHeld := g.Leave(ws[out])
			require.True(t, left)
			require.False(t, isHeld)
			for i, w := range ws {
				if i == out {
					continue
				}
				g.Quit()
				requireContends(t, w)
			}
			requireWaits(t, ws[out])
			g.Quit()
			require.Equal(t, idle, g.inState())
		})
	}
}

func TestWhoLeavesIsToldWhetherTheLockIsHeldHere(t *testing.T) {
	t.Parallel()
	for s, want := range map[state]bool{contending: false, held: true, releasing: false} {
		g := gateIn(t, s)
		left, isHeld := g.Leave(queued(t, g, 1)[0])
		require.True(t, left)
		require.Equal(t, want, isHeld)
	}
}

func TestWhoLeavesIsToldWhatTheContenderHeard(t *testing.T) {
	t.Parallel()
	g := gateIn(t, contending)
	ws := queued(t, g, 3)
	for i, isHeld := range []bool{true, false, true} {
		g.Heard(isHeld)
		_, got := g.Leave(ws[i])
		require.Equal(t, isHeld, got)
	}
	g.Won(now, nil)
	g.Vacate()
	_, got := g.Leave(queued(t, g, 1)[0])
	require.False(t, got, "news from before the acquire")
}

func TestWhoLeavesTooLateHasItsTurn(t *testing.T) {
	t.Parallel()
	g := gateIn(t, contending)
	ws := queued(t, g, 2)
	g.Quit()
	left, isHeld := g.Leave(ws[0])
	require.False(t, left)
	require.False(t, isHeld)
	requireContends(t, ws[0])
	g.Quit() // it hands the turn on
	requireContends(t, ws[1])
	require.False(t, g.Join(ws[0]), "a Waiter is used again")
}

func TestWhoIsRefusedIsToldWhyInOrder(t *testing.T) {
	t.Parallel()
	g := gateIn(t, held)
	ws := queued(t, g, 3)
	why := errors.New("closed")
	g.Refuse(why)
	for _, w := range ws {
		turn, given := taken(w)
		require.True(t, given)
		require.Equal(t, Turn{Err: why}, turn)
		left, _ := g.Leave(w)
		require.False(t, left)
	}
	require.Equal(t, held, g.inState(), "the holder stays")
	g.Lost()
	require.Equal(t, idle, g.inState())
}

// tenant counts its evictions and doubts, and loses the lock as a real one does.
type tenant struct {
	gate     *Gate
	evicted  []error
	rechecks int
}

func (n *tenant) Evict(cause error) {
	n.evicted = append(n.evicted, cause)
	n.gate.Lost()
}

func (n *tenant) Recheck() { n.rechecks++ }

func TestADoubtReachesTheHolderOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then func(g *Gate)
		want int
	}{
		"Held":      {func(*Gate) {}, 1},
		"Releasing": {(*Gate).Vacate, 0},
		"Lost":      {(*Gate).Lost, 0},
		"Passed":    {func(g *Gate) { g.Pass(now, terms, give) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gateIn(t, contending)
			n := &tenant{gate: g}
			g.Won(now, n)
			w := queued(t, g, 1)[0]
			c.then(g)
			_, _ = taken(w)
			g.Recheck()
			require.Equal(t, c.want, n.rechecks)
		})
	}
	gateIn(t, idle).Recheck()
}

// The server granted the lock and took it away again before the contender read that it has it.
func TestADoubtAboutAContenderReachesItWhenItHasWon(t *testing.T) {
	t.Parallel()
	g := gateIn(t, contending)
	g.Recheck()
	n := &tenant{gate: g}
	g.Won(now, n)
	require.Equal(t, 1, n.rechecks)
	g.Vacate()
	g.Vacated(clock.Instant{})
	require.True(t, g.Try())
	g.Won(now, n)
	require.Equal(t, 1, n.rechecks, "the doubt was about another")
	g.Lost()
	require.True(t, g.Try())
	g.Recheck()
	g.Quit()
	require.True(t, g.Try())
	g.Won(now, n)
	require.Equal(t, 1, n.rechecks, "the doubt was about one who gave up")
}

func TestAnEvictionReachesTheHolderOnly(t *testing.T) {
	t.Parallel()
	why := errors.New("closed")
	for name, c := range map[string]struct {
		then func(g *Gate)
		want []error
	}{
		"Held":      {func(*Gate) {}, []error{why}},
		"Releasing": {(*Gate).Vacate, nil},
		"Lost":      {(*Gate).Lost, nil},
		"Passed":    {func(g *Gate) { g.Pass(now, terms, give) }, []error{why}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gateIn(t, contending)
			n := &tenant{gate: g}
			g.Won(now, n)
			w := queued(t, g, 1)[0]
			c.then(g)
			_, _ = taken(w)
			g.Evict(why)
			require.Equal(t, c.want, n.evicted)
			g.Evict(why)
			require.Equal(t, c.want, n.evicted, "once")
		})
	}
	gateIn(t, idle).Evict(why)
	gateIn(t, contending).Evict(why)
}
