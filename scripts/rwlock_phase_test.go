// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// writerEnds are the ways in which a writer's phase ends.
var writerEnds = map[string]func(r *rwlock, hold string){
	"Leave":     func(r *rwlock, hold string) { require.Equal(r, int64(1), r.leaves(hold)[0]) },
	"Force":     func(r *rwlock, hold string) { require.Equal(r, int64(1), r.forces(hold)) },
	"DropPoll":  func(r *rwlock, hold string) { r.drops(hold); r.polls(session("y")) },
	"DropEnter": func(r *rwlock, hold string) { r.drops(hold); r.queues(holdOf("y"), writes); r.leaves(holdOf("y")) },
	"DropTry":   func(r *rwlock, hold string) { r.drops(hold); r.tries(holdOf("y"), writes) },
	"DropCancel": func(r *rwlock, hold string) {
		r.queues(holdOf("y"), writes)
		r.drops(hold)
		r.leaves(holdOf("y"))
	},
	"Expiry": func(r *rwlock, hold string) {
		r.clock += lease * 1000
		for _, waits := range r.inQueues() {
			r.heartbeat(waits.(string)[:22], life, r.next())
		}
		r.polls(session("y"))
	},
}

// Order: behind a writer come all readers that wait, also those behind the next writer; then that one.
func TestAllReadersComeInBetweenTwoWriters(t *testing.T) {
	t.Parallel()
	for name, end := range writerEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRWLock(t)
			r.has(holdOf("z"), writes)
			r.queues(holdOf("w"), writes)
			r.queues(ours, reads)
			r.queues(holdOf("x"), writes)
			r.queues(theirs, reads)
			end(r, holdOf("z"))
			r.requireHave(reads, ours, theirs)
			require.Equal(t, []any{holdOf("w"), holdOf("x")}, r.inQueues())
			r.queues(holdOf("d"), reads)
			r.leaves(ours)
			r.requireHave(reads, theirs)
			r.leaves(theirs)
			r.requireHave(writes, holdOf("w"))
			r.leaves(holdOf("w"))
			r.requireHave(reads, holdOf("d"))
			r.leaves(holdOf("d"))
			r.requireHave(writes, holdOf("x"))
		})
	}
}

// P6: readers may share again when no live writer waits, whichever call finds that out.
func TestReadersShareAgainWhenTheWriterGivesUpOrDies(t *testing.T) {
	t.Parallel()
	for name, opens := range map[string]func(r *rwlock){
		"Leaves": func(r *rwlock) { require.Equal(r, int64(2), r.leaves(holdOf("w"))[0]) },
		"DiesPoll": func(r *rwlock) {
			r.clock += life
			r.polls(they, theirs)
		},
		"DiesEnter": func(r *rwlock) {
			r.clock += life - 1
			r.heartbeat(they, life, r.next())
			r.clock++
			r.has(holdOf("y"), reads)
			r.leaves(holdOf("y"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRWLock(t)
			r.has(ours, reads)
			r.queues(holdOf("w"), writes)
			r.queues(theirs, reads)
			opens(r)
			r.requireHave(reads, ours, theirs)
			require.True(t, r.isOpen(ours))
		})
	}
}

// P6: a call grants to 128 readers at most, and reports that a poll is due. Readers that waited for
// the writer's end are granted the lock before the next writer, whichever session polls.
func TestManyReadersComeInOverSeveralCalls(t *testing.T) {
	t.Parallel()
	const n, perCall = 300, 128 // beside the one that listens
	r := newRWLock(t)
	r.has(ours, writes)
	r.queues(holdOf("w"), writes)
	r.many(n, r.readers)
	r.queues(theirs, reads)
	require.Equal(t, []any{int64(1), digits(noon), "", int64(1)}, r.leaves(ours))
	require.Len(t, r.until(), perCall)
	require.Equal(t, int64(2), r.scores(r.key)["phase"])
	require.Equal(t, int64(1), r.tries(nth("a", 9), writes)[2], "whoever tries lets more in")
	require.Len(t, r.until(), 2*perCall)
	published := r.listens(they)
	reply := r.polls(they, theirs)
	require.Equal(t, []any{int64(0), grantOf(theirs, noon+n+1, 3), "1"}, []any{reply[2], reply[3], reply[4]})
	require.Empty(t, published.received(), "the reply tells it")
	require.Len(t, r.until(), n+1)
	require.Equal(t, int64(0), r.scores(r.key)["phase"])
	require.Equal(t, int64(0), r.tries(nth("a", 9), reads)[0], "and then no reader enters")
	require.Equal(t, []any{holdOf("w")}, r.inQueues())
}

// P6: where all that came in are gone before the rest has, the rest comes first all the same.
func TestTheRestComesInBeforeTheNextWriter(t *testing.T) {
	t.Parallel()
	const n = 200
	r := newRWLock(t)
	r.has(ours, writes)
	r.queues(holdOf("w"), writes)
	r.many(n, r.readers)
	r.leaves(ours)
	var first []string
	for hold := range r.until() {
		first = append(first, hold)
	}
	require.Equal(t, int64(len(first)), r.forces(first...))
	require.Len(t, r.until(), n-len(first))
	r.requireHave(reads, slices.Collect(maps.Keys(r.until()))...)
	require.Equal(t, []any{holdOf("w")}, r.inQueues())
}
