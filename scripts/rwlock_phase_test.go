// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// writerEnds are the ways in which a writer's phase ends.
var writerEnds = map[string]func(p *rwlock, hold string){
	"Leave":     func(p *rwlock, hold string) { require.Equal(p, int64(1), p.leaves(hold)[0]) },
	"Force":     func(p *rwlock, hold string) { require.Equal(p, int64(1), p.forces(hold)) },
	"DropLook":  func(p *rwlock, hold string) { p.drops(hold); p.polls(session("y")) },
	"DropEnter": func(p *rwlock, hold string) { p.drops(hold); p.queues(holdOf("y"), writes); p.leaves(holdOf("y")) },
	"DropTry":   func(p *rwlock, hold string) { p.drops(hold); p.tries(holdOf("y"), writes) },
	"DropCancel": func(p *rwlock, hold string) {
		p.queues(holdOf("y"), writes)
		p.drops(hold)
		p.leaves(holdOf("y"))
	},
	"Expiry": func(p *rwlock, hold string) {
		p.clock += lease * 1000
		for _, waits := range p.inQueues() {
			p.heartbeat(waits.(string)[:22], life, p.next())
		}
		p.polls(session("y"))
	},
}

// Order: behind a writer come all readers that wait, also those behind the next writer; then that one.
func TestAllReadersComeInBetweenTwoWriters(t *testing.T) {
	t.Parallel()
	for name, end := range writerEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(holdOf("z"), writes)
			p.queues(holdOf("w"), writes)
			p.queues(ours, reads)
			p.queues(holdOf("x"), writes)
			p.queues(theirs, reads)
			end(p, holdOf("z"))
			p.requireHave(reads, ours, theirs)
			require.Equal(t, []any{holdOf("w"), holdOf("x")}, p.inQueues())
			p.queues(holdOf("d"), reads)
			p.leaves(ours)
			p.requireHave(reads, theirs)
			p.leaves(theirs)
			p.requireHave(writes, holdOf("w"))
			p.leaves(holdOf("w"))
			p.requireHave(reads, holdOf("d"))
			p.leaves(holdOf("d"))
			p.requireHave(writes, holdOf("x"))
		})
	}
}

// P6: readers may share again when no live writer waits, whichever call finds that out.
func TestReadersShareAgainWhenTheWriterGivesUpOrDies(t *testing.T) {
	t.Parallel()
	for name, opens := range map[string]func(p *rwlock){
		"Leaves": func(p *rwlock) { require.Equal(p, int64(2), p.leaves(holdOf("w"))[0]) },
		"DiesLook": func(p *rwlock) {
			p.clock += life
			p.polls(they, theirs)
		},
		"DiesEnter": func(p *rwlock) {
			p.clock += life - 1
			p.heartbeat(they, life, p.next())
			p.clock++
			p.has(holdOf("y"), reads)
			p.leaves(holdOf("y"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(ours, reads)
			p.queues(holdOf("w"), writes)
			p.queues(theirs, reads)
			opens(p)
			p.requireHave(reads, ours, theirs)
			require.True(t, p.isOpen(ours))
		})
	}
}

// P6: a call grants to 128 readers at most, and reports that a poll is due. Readers that waited for
// the writer's end are granted the lock before the next writer, whichever session polls.
func TestManyReadersComeInOverSeveralCalls(t *testing.T) {
	t.Parallel()
	const n, perCall = 300, 128 // beside the one that listens
	p := newRWLock(t)
	p.has(ours, writes)
	p.queues(holdOf("w"), writes)
	p.many(n, p.readers)
	p.queues(theirs, reads)
	require.Equal(t, []any{int64(1), digits(noon), "", int64(1)}, p.leaves(ours))
	require.Len(t, p.until(), perCall)
	require.Equal(t, int64(2), p.scores(p.key)["phase"])
	require.Equal(t, int64(1), p.tries(nth("a", 9), writes)[2], "whoever tries lets more in")
	require.Len(t, p.until(), 2*perCall)
	published := p.listens(they)
	reply := p.polls(they, theirs)
	require.Equal(t, []any{int64(0), grantOf(theirs, noon+n+1, 3), "1"}, []any{reply[2], reply[3], reply[4]})
	require.Empty(t, published.received(), "the reply tells it")
	require.Len(t, p.until(), n+1)
	require.Equal(t, int64(0), p.scores(p.key)["phase"])
	require.Equal(t, int64(0), p.tries(nth("a", 9), reads)[0], "and then the door is closed")
	require.Equal(t, []any{holdOf("w")}, p.inQueues())
}

// P6: where all that came in are gone before the rest has, the rest comes first all the same.
func TestTheRestComesInBeforeTheNextWriter(t *testing.T) {
	t.Parallel()
	const n = 200
	p := newRWLock(t)
	p.has(ours, writes)
	p.queues(holdOf("w"), writes)
	p.many(n, p.readers)
	p.leaves(ours)
	var first []string
	for hold := range p.until() {
		first = append(first, hold)
	}
	require.Equal(t, int64(len(first)), p.forces(first...))
	require.Len(t, p.until(), n-len(first))
	p.requireHave(reads, slices.Collect(maps.Keys(p.until()))...)
	require.Equal(t, []any{holdOf("w")}, p.inQueues())
}
