// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// idle is how many commands a poll takes at which nothing changes.
const idle = 16

// An idle poll takes as many commands whatever the number of shards is.
func TestAnIdlePollCostsTheSameForAnyCount(t *testing.T) {
	t.Parallel()
	for _, count := range []int{64, 1000, 4096} {
		w := evenWorld(t, count, 4)
		for _, m := range w.members {
			w.passes(millisecond)
			require.False(t, m.poll())
			require.Equal(t, idle, w.commands, "%d shards", count)
		}
		w.drop()
	}
}

// No call does the work of more than 16 shards.
func TestNoCallTakesMoreThan400Commands(t *testing.T) {
	t.Parallel()
	w := newWorld(newGroup(t), 1000)
	most := make(map[string]int)
	count := func(what string) { most[what] = max(most[what], w.commands) }
	for range 2 {
		w.add(defaults(1000)).polls()
	}
	w.passes(2 * second)
	for range 20 {
		w.members[0].poll()
		count("grants")
	}
	w.runs(40*second, second)
	w.add(defaults(1000)).polls()
	for _, m := range w.members {
		m.polls()
	}
	w.passes(2 * second)
	for w.members[0].poll() {
		count("asks")
	}
	w.members[1].leave()
	count("leave")
	w.members[1].kill()
	for range 20 {
		w.passes(second)
		w.members[0].poll()
		w.members[2].poll()
		count("reaps")
	}
	t.Log(most)
	for what, commands := range most {
		require.Less(t, commands, 400, what)
	}
}
