// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/wire"
)

func TestAHoldIsGivenBackWhereItCannotBePassed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		accepts, terms Terms
	}{
		"HolderIsNotPassable": {terms, Terms{}},
		"WaiterTakesNone":     {Terms{}, terms},
		"NeitherDoes":         {Terms{}, Terms{}},
		"AnotherLife":         {Terms{Life: time.Second}, terms},
		"MoreReplicas":        {Terms{Life: terms.Life, Replicas: 1}, terms},
		"FewerReplicas":       {terms, Terms{Life: terms.Life, Replicas: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gateIn(t, held)
			w := waiter()
			w.Accepts = c.accepts
			require.False(t, g.Join(w))
			require.Equal(t, GiveBack, g.Pass(now, c.terms, func(clock.Instant) (hold.Lease, bool) {
				t.Error("asked for a lease")
				return hold.Lease{}, true
			}))
			requireWaits(t, w)
			require.Equal(t, held, g.inState(), "the caller has it still")
		})
	}
}

func TestNobodyJumpsTheQueueForAPass(t *testing.T) {
	t.Parallel()
	g := gateIn(t, held)
	fixed := NewWaiter()
	require.False(t, g.Join(fixed))
	passable := queued(t, g, 1)[0]
	require.Equal(t, GiveBack, g.Pass(now, terms, give))
	requireWaits(t, passable)
}

func TestAHoldThatRefusesAPassIsAskedFor(t *testing.T) {
	t.Parallel()
	g := gateIn(t, held)
	w := queued(t, g, 1)[0]
	require.Equal(t, Spent, g.Pass(now, terms, refuse))
	requireWaits(t, w)
	left, isHeld := g.Leave(w)
	require.True(t, left, "it is in the queue still")
	require.True(t, isHeld)
}

// The budget comes before what the hold has: a process whose time is over asks who waits elsewhere.
func TestABudgetThatIsUsedUpIsToldBeforeARefusal(t *testing.T) {
	t.Parallel()
	g := gateIn(t, held)
	queued(t, g, 1)
	require.Equal(t, Ask, g.Pass(now.Add(MaxTime), terms, refuse))
}

func TestTheBudgetOfPassesIsKept(t *testing.T) {
	t.Parallel()
	g := gateIn(t, held)
	w := waiter()
	for range 3 {
		for range MaxPasses {
			require.False(t, g.Join(w))
			require.Equal(t, Passed, g.Pass(now, terms, give))
			<-w.Turn
		}
		require.False(t, g.Join(w))
		require.Equal(t, Ask, g.Pass(now, terms, give))
		left, _ := g.Leave(w)
		require.True(t, left)
		g.Asked(now)
	}
}

func TestTheBudgetOfTimeIsKept(t *testing.T) {
	t.Parallel()
	g := gateIn(t, held)
	ws := queued(t, g, 3)
	require.Equal(t, Passed, g.Pass(now.Add(MaxTime-1), terms, give))
	require.Equal(t, Ask, g.Pass(now.Add(MaxTime), terms, give))
	g.Asked(now.Add(time.Second))
	require.Equal(t, Passed, g.Pass(now.Add(time.Second+MaxTime-1), terms, give))
	require.Equal(t, Ask, g.Pass(now.Add(time.Second+MaxTime), terms, give))
	requireWaits(t, ws[2])
}

func TestAnAcquireBeginsTheBudgetAnew(t *testing.T) {
	t.Parallel()
	g := gateIn(t, held)
	w := waiter()
	for range MaxPasses {
		require.False(t, g.Join(w))
		require.Equal(t, Passed, g.Pass(now, terms, give))
		<-w.Turn
	}
	g.Vacate()
	g.Vacated(clock.Instant{})
	require.True(t, g.Try())
	g.Won(now.Add(time.Hour), nil)
	require.False(t, g.Join(w))
	require.Equal(t, Passed, g.Pass(now.Add(time.Hour), terms, give))
}

func TestAnAcquireReservesTokensForTheWholeBudget(t *testing.T) {
	t.Parallel()
	tokens := (wire.Stamp(2_000_000_000_000_000) + wire.TokenBlock).Token() - wire.Stamp(2_000_000_000_000_000).Token()
	require.GreaterOrEqual(t, tokens, uint64(MaxPasses))
}

func TestTheContenderStandsBackOnce(t *testing.T) {
	t.Parallel()
	g := gateIn(t, releasing)
	g.Vacated(now.Add(StandBack))
	require.True(t, g.Try())
	require.Equal(t, StandBack-time.Microsecond, g.StandBack(now.Add(time.Microsecond)))
	require.Zero(t, g.StandBack(now.Add(time.Microsecond)))
}

func TestThereIsNoStandingBackWithoutReason(t *testing.T) {
	t.Parallel()
	require.Zero(t, gateIn(t, contending).StandBack(now))
	g := gateIn(t, releasing)
	g.Vacated(now.Add(StandBack))
	require.Zero(t, g.StandBack(now.Add(StandBack)), "the time is over")
	g = gateIn(t, releasing)
	g.Vacated(clock.Instant{})
	require.Zero(t, g.StandBack(now))
}
