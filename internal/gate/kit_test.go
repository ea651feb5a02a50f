// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// terms are those of the leases in these tests.
var terms = Terms{Life: 30 * time.Second}

// now is when they begin, by both clocks.
var now = clock.At(time.Hour, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))

// give grants every pass; refuse none.
func give(clock.Instant) (hold.Lease, bool)   { return hold.Lease{}, true }
func refuse(clock.Instant) (hold.Lease, bool) { return hold.Lease{}, false }

// waiter answers a Waiter that takes what is passed on.
func waiter() *Waiter {
	w := NewWaiter()
	w.Accepts = terms
	return w
}

func (g *Gate) inState() state {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.state
}

// taken answers the turn that w was given, and whether it was given one.
func taken(w *Waiter) (turn Turn, given bool) {
	select {
	case turn = <-w.Turn:
		return turn, true
	default:
		return Turn{}, false
	}
}

// requireContends checks that w was made the contender.
func requireContends(t *testing.T, w *Waiter) {
	t.Helper()
	turn, given := taken(w)
	require.True(t, given, "no turn")
	require.Equal(t, Turn{}, turn)
}

func requireWaits(t *testing.T, w *Waiter) {
	t.Helper()
	_, given := taken(w)
	require.False(t, given, "a turn came too soon")
}

// gateIn answers a gate in a state, with nobody in its queue.
func gateIn(t *testing.T, s state) *Gate {
	t.Helper()
	g := &Gate{}
	if s != idle {
		require.True(t, g.Try())
	}
	if s == held || s == releasing {
		g.Won(now, nil)
	}
	if s == releasing {
		g.Vacate()
	}
	require.Equal(t, s, g.inState())
	return g
}

// queued puts n waiters into the queue of g, which is in use.
func queued(t *testing.T, g *Gate, n int) []*Waiter {
	t.Helper()
	ws := make([]*Waiter, n)
	for i := range ws {
		ws[i] = waiter()
		require.False(t, g.Join(ws[i]))
	}
	return ws
}
