// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// P6: the dead of both lines hold up nobody, however many there are: a call is short, and where one is not enough
// it says so, and the next goes on where it ended.
func TestTheDeadOfBothLinesArePassedOverInShortCalls(t *testing.T) {
	t.Parallel()
	const longest = 2*(2*1024+300) + 50 // commands: two searches
	for _, n := range []int{1, 128, 1024, 1025, 2500} {
		for _, dead := range [][]string{{writes}, {reads}, {reads, writes}} {
			for name, mode := range modes {
				t.Run(fmt.Sprint(n, dead, name), func(t *testing.T) {
					t.Parallel()
					p := newRWLockAt(t)
					p.has(theirs, writes)
					for _, line := range dead {
						p.dead(n, line, noon-second)
					}
					p.queues(ours, mode)
					p.beat(we, longestLife, p.next())
					var more any
					require.LessOrEqual(t, p.cost(func() { more = p.leaves(theirs)[3] }), longest)
					calls := 1
					for ; more == int64(1); calls++ {
						if mode == writes || dead[0] == reads {
							require.Empty(t, p.until(), "nobody has it meanwhile")
							p.requireLife(keeps)
						}
						require.LessOrEqual(t, p.cost(func() { more = p.looks(we, ours)[2] }), longest)
					}
					p.requireHave(mode, ours)
					require.LessOrEqual(t, calls, 2*(n/1024+1))
					require.Len(t, p.inLines(), n, "they keep their places")

					// Whoever comes next does not pass over them again.
					p.queues(holdOf("c"), writes)
					require.Less(t, p.cost(func() { p.leaves(ours) }), 4*256+50)
					p.requireHave(writes, holdOf("c"))
					p.requireEnds()
				})
			}
		}
	}
}

func TestNobodyTriesAReadWriteLockWhileTheSearchIsNotDone(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(holdOf("z"), reads)
			p.dead(3000, writes, noon-second)
			p.queues(ours, writes)
			p.drops(holdOf("z"))
			require.Equal(t, []any{int64(0), int64(0), int64(1), digits(noon)}, p.tries(theirs, mode))
			require.Empty(t, p.until())
			require.Equal(t, []any{int64(0), int64(life), int64(0), digits(noon)}, p.tries(theirs, mode))
			p.requireHave(writes, ours)
		})
	}
}

// Order: a session that was not heard of for a while comes back to its place, for ten seconds.
func TestADeadReaderOrWriterKeepsItsPlaceForTenSeconds(t *testing.T) {
	t.Parallel()
	for when, c := range map[string]struct {
		dead int64
		kept bool
	}{"Passed": {0, true}, "Kept": {keepsPlace - 1, true}, "Lost": {keepsPlace, false}} {
		for name, mode := range modes {
			t.Run(when+name, func(t *testing.T) {
				t.Parallel()
				p := newRWLock(t)
				p.has(holdOf("z"), reads)
				p.queues(holdOf("d"), writes) // lives all the time
				p.beat(session("d"), longestLife, p.next())
				p.queues(ours, mode)
				p.clock += life + c.dead
				p.queues(theirs, mode)
				p.leaves(holdOf("z"))
				p.requireHave(writes, holdOf("d"))
				p.leaves(holdOf("d"))
				p.requireHave(mode, theirs)
				reply := p.looks(we, ours)
				if !c.kept {
					require.Equal(t, "0", reply[4])
					return
				}
				require.Equal(t, "1", reply[4])
				p.leaves(theirs)
				require.Contains(t, p.until(), ours, "it came back")
			})
		}
	}
}

// Order: the memories of both lines do not hide one that came back.
func TestAReaderOrWriterThatComesBackIsFoundAmongTheDead(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(theirs, writes)
			p.dead(300, mode, noon-second)
			p.queues(ours, mode)
			p.leaves(theirs)
			p.requireHave(mode, ours)
			field := map[string]string{writes: "from", reads: "from2"}[mode]
			require.Equal(t, digits(noon)+deadHold(300), p.said(field))
			p.looks(deadHold(200)[:22], deadHold(200))
			p.leaves(ours)
			p.requireHave(mode, deadHold(200))
		})
	}
}

// Order: a writer may live behind the dead that are not passed over yet.
func TestNoReaderComesInWhileItIsNotKnownWhetherAWriterLives(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(holdOf("z"), reads)
	p.dead(3000, writes, noon-second)
	p.queues(holdOf("w"), writes)
	require.Equal(t, int64(1), p.joins(ours, reads)[2])
	for more := any(int64(1)); more == int64(1); {
		p.requireHave(reads, holdOf("z"))
		more = p.looks(we, ours)[2]
	}
	p.requireHave(reads, holdOf("z"))
	p.leaves(holdOf("z"))
	p.requireHave(writes, holdOf("w"))
}
