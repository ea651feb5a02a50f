// SPDX-License-Identifier: Apache-2.0

package once

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A call that finds the turn free when an outcome has just come does not lead: a flight has one outcome, and a second one would panic.
func TestNobodyLeadsAFlightThatHasAnOutcome(t *testing.T) {
	t.Parallel()
	r := &runRegistry{}
	r.mu.flights = make(map[string]*flight)
	leader, _ := r.join("a")
	leads, isDone := leader.tryTurn()
	require.Equal(t, []bool{true, false}, []bool{leads, isDone})
	late, since := r.join("a")
	require.Same(t, leader, late)
	leads, isDone = late.tryTurn()
	require.Equal(t, []bool{false, false}, []bool{leads, isDone}, "the leader has the turn")
	r.deliver(leader, r.nextRequest(leader), "x")
	leader.endTurn()
	r.leave(leader)
	leads, isDone = late.tryTurn()
	require.Equal(t, []bool{false, true}, []bool{leads, isDone})
	require.Equal(t, "x", late.value)
	require.Greater(t, late.request, since)
	require.Empty(t, late.turn)
	r.leave(late)
	require.Empty(t, r.mu.flights)
}
