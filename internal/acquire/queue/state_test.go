// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// stateNames are the states by the names that the table in the doc of attemptState has.
func stateNames() []string {
	return []string{"trying", "entering", "queued", "granted", "begun", "ticketLost", "over", "withdrawn"}
}

// An attempt makes the steps that the doc of attemptState names, and no others.
func TestAttempt_EachStep_IsInTheTable(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("state.go")
	require.NoError(t, err)
	steps := make(map[[2]string]bool)
	for _, row := range regexp.MustCompile(`(?m)^//\t(\w+) +-> (\w+) `).FindAllStringSubmatch(string(source), -1) {
		steps[[2]string{row[1], row[2]}] = true
	}
	names := stateNames()
	require.Len(t, names, int(stateCount))
	for from, fromName := range names {
		for next, nextName := range names {
			step := [2]string{fromName, nextName}
			require.Equal(t, steps[step], attemptState(from).leadsTo(attemptState(next)), step)
			delete(steps, step)
		}
	}
	require.Empty(t, steps, "rows of states that do not exist")
}

// A step that the table does not have is refused in tests.
func TestAttempt_ImpossibleStep_IsRefused(t *testing.T) {
	t.Parallel()
	for _, a := range []*Attempt{{state: over}, {state: withdrawn}, {state: begun}} {
		require.Panics(t, func() { a.toLocked(granted) })
	}
}

// An attempt of which nothing follows is over or withdrawn, and every other one can get there.
func TestAttempt_EveryState_Ends(t *testing.T) {
	t.Parallel()
	for s := range stateCount {
		require.Equal(t, s == over || s == withdrawn, s.isEnded(), stateNames()[s])
		reached := []attemptState{s}
		for i := 0; i < len(reached); i++ {
			for next := range stateCount {
				if reached[i].leadsTo(next) && !slices.Contains(reached, next) {
					reached = append(reached, next)
				}
			}
		}
		require.True(t, slices.ContainsFunc(reached, attemptState.isEnded), stateNames()[s])
	}
}
