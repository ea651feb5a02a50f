// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// tiny is enough to see that a work runs. No lease ends in it, on whatever machine.
func tiny() scale {
	return scale{
		rounds: 1, warmUp: 5 * time.Millisecond, window: 20 * time.Millisecond,
		contendedRounds: 1, contended: 40 * time.Millisecond,
		lease: 30 * time.Second, patience: 5 * time.Millisecond,
		crowd: 5, gridProcesses: []int{1, 2}, gridGoroutines: []int{1, 3}, gridSections: []time.Duration{0, time.Millisecond},
		gridWindow: 20 * time.Millisecond, restarted: 4, restartEvery: 20 * time.Millisecond, fewQueued: 2, manyQueued: 20,
		parties: 20, counted: 50, pairs: 64, fewHeldPermits: 2, manyHeldPermits: 20, readers: 20, releases: 5,
		javaWarmUp: 20 * time.Millisecond, javaHeld: 10, javaReleases: 3, javaLease: 30 * time.Second, javaHeldFor: 100 * time.Millisecond,
		shards: []int{8}, shardMembers: []int{2}, shardKilled: []int{2}, shardRolled: 2,
		shardLease: 5 * time.Second, shardDelay: 20 * time.Millisecond, shardIdle: 20 * time.Millisecond,
		held: 70, heldLease: 30 * time.Second, heldFor: 20 * time.Millisecond,
		outageProcesses: 2, outageHeld: 5, outageAfter: time.Millisecond, outage: 20 * time.Millisecond,
		waiters: 20, waited: 5, quietFor: 10 * time.Millisecond, idle: 20 * time.Millisecond,
	}
}

// slow says why works take real time, however small they are.
func slow() map[string]string {
	const rivals = "rivals that fail to get a lock try again after pauses of their own"
	return map[string]string{
		"instructions": "valgrind makes a server fifty times slower",
		"processes":    rivals, "handoff": rivals, "crowd": rivals, "grid": rivals, "permits": rivals, "quorum": rivals,
		"restart": "a process that is killed holds the lock until its lease ends",
		"queued":  "the lines of two sessions form while others are served",
		"outage":  "the first two seconds after an outage are counted",
		"several": "the nodes of a cluster serve two seconds after their start",
		"shards":  "a new group grants nothing for two seconds",
		"java":    "three programs in Java start, and are warmed up",
	}
}

// The works use the whole process for their figures, so that none of them is parallel.

func TestEveryWorkReportsEveryImplementation(t *testing.T) { //nolint:paralleltest // see above
	benchTime := flag.Lookup("test.benchtime").Value.String()
	require.NoError(t, flag.Set("test.benchtime", "10ms")) // of testing.Benchmark
	t.Cleanup(func() { _ = flag.Set("test.benchtime", benchTime) })
	b := &bench{server: redistest.Start(t), scale: tiny(), chosen: implementations()}
	rows := map[string]int{"uncontended": 6, "instructions": 6, "uncontended-kinds": 3, "enter-again": 2, "several": 4, "handoff": 6, "held": 2, "outage": 2, "queued": 2, "latch": 2, "quorum": 4, "permits-out": 2, "read": 3, "grid": 12, "restart": 4, "read-release": 2, "drain": 1, "shards": 1}
	for _, w := range works() { //nolint:paralleltest // see above
		t.Run(w.name, func(t *testing.T) {
			if why, is := slow()[w.name]; is {
				redistest.Slow(t, why)
			}
			tables, err := w.run(b)
			require.NoError(t, err)
			require.NotEmpty(t, tables)
			if w.name == "java" {
				acrossTables(t, tables)
				return
			}
			want, special := rows[w.name]
			if !special {
				want = 5 // the limit is no lock
			}
			for _, table := range tables {
				rows := want
				if w.name == "uncontended" && strings.HasSuffix(table.title, "the same name each time") {
					rows++ // a lock that is kept
				}
				require.Len(t, table.rows, rows, table.title)
				requireNumbers(t, table)
			}
		})
	}
}

// requireNumbers requires that whatever a table reports is a number. It can be 0: on a machine that stalls nothing fits in a
// short window.
func requireNumbers(t *testing.T, table table) {
	t.Helper()
	var text strings.Builder
	require.NoError(t, table.write(&text))
	require.NotContains(t, text.String(), "NaN")
	require.NotContains(t, text.String(), "Inf")
}

// acrossTables requires the tables of the work that a Java program takes part in, or, if that is not built, a table that
// says so.
func acrossTables(t *testing.T, tables []table) {
	t.Helper()
	has, err := hasJava()
	require.NoError(t, err)
	if !has {
		require.Len(t, tables, 1)
		require.Contains(t, tables[0].note, "make interop")
		return
	}
	require.Len(t, tables[0].rows, len(pairings()))
	require.Len(t, tables[1].rows, 3)
	for _, table := range tables {
		requireNumbers(t, table)
	}
}

func TestHeldLocksAreNotLost(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the leases of rivals are renewed by timers of their own")
	for _, impl := range only(implementations(), ownName, "rueidislock") {
		t.Run(impl.name, func(t *testing.T) {
			t.Parallel()
			b := &bench{server: redistest.Start(t), scale: tiny()}
			b.scale.heldLease, b.scale.heldFor = 6*time.Second, 4*time.Second // renewed once, with time for a machine that stalls
			one, err := b.hold(impl)
			require.NoError(t, err)
			require.Zero(t, one.figures["lost"])
			require.Zero(t, one.figures["gone"])
			require.Positive(t, one.used.requests)
		})
	}
}

func TestTheCommandLineNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	c, err := parseOptions([]string{"-short", "-works", "held,remote", "-impl", "limit", "-rounds", "7", "-held", "9"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "held", c.works[0].name)
	require.Equal(t, "remote", c.works[1].name)
	require.Len(t, c.impls, 1)
	require.Equal(t, 7, c.scale.rounds)
	require.Equal(t, 9, c.scale.held)
	require.Equal(t, short().window, c.scale.window)

	_, err = parseOptions([]string{"-works", "nothing"}, io.Discard)
	require.ErrorContains(t, err, "nothing")
	_, err = parseOptions([]string{"-impl", "nobody"}, io.Discard)
	require.ErrorContains(t, err, "nobody")
}
