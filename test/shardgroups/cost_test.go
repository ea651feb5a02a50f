// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
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

// TestFigures prints what calls take: SIGNALBOX_SHARD_FIGURES=1 go test ./shardgroups -run TestFigures -v.
func TestFigures(t *testing.T) { //nolint:paralleltest // it measures
	if os.Getenv("SIGNALBOX_SHARD_FIGURES") == "" {
		t.Skip("SIGNALBOX_SHARD_FIGURES is not set")
	}
	for _, count := range []int{64, 1000, 10_000, 65_536} {
		w := newWorld(newGroup(t), count)
		for range 4 {
			w.add(defaults(count)).polls()
		}
		w.passes(2 * second)
		polls := func() { w.call(scripts.ShardsPoll, w.members[0].number, w.members[0].seen, "PUBLISH", channel) }
		line := fmt.Sprintf("%6d shards:", count) + figure(w, "16 grants", 4, polls)
		w.runs(40*second, second)
		w.requireEven()
		line += figure(w, "idle poll", 500, func() { w.members[0].poll() })
		view := newObserver(w.group)
		line += figure(w, "first read", 1, view.reads) + figure(w, "idle read", 500, view.reads)
		last := w.add(defaults(count))
		last.polls()
		w.runs(second, second)
		w.passes(second - 1)
		for _, m := range w.members {
			m.polls()
		}
		w.passes(1)
		line += figure(w, "16 asks", 1, func() { w.call(scripts.ShardsPoll, last.number, last.seen, "PUBLISH", channel) })
		w.turn()
		w.members[0].leave()
		line += figure(w, "asks of a leaver", 1, func() { w.members[0].leave() })
		t.Log(line)
		w.drop()
	}
}

// figure returns what a call takes, in commands and microseconds at the server.
func figure(w *world, what string, times int, call func()) string {
	w.Helper()
	server.MustDo(w, "CONFIG", "RESETSTAT")
	for range times {
		call()
	}
	var calls, us int64
	_, rest, _ := strings.Cut(textOf(server.MustDo(w, "INFO", "commandstats")), "cmdstat_evalsha:")
	_, err := fmt.Sscanf(rest, "calls=%d,usec=%d", &calls, &us)
	require.NoError(w, err)
	return fmt.Sprintf(" %s %d commands, %.0f us;", what, w.commands, float64(us)/float64(calls))
}
