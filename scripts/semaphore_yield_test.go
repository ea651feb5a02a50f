// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// A hold keeps its permits, for longer and with new tokens, if the queue has no tickets but those that it names.
func TestPermitsAreKeptIfNoOtherTicketIsQueued(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string][]string{"NoTicket": nil, "Named": {permitRequest(nth("a", 7), 2), permitRequest(nth("a", 8), 2)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPermits(t, 3)
			mine := permitRequest(ours, 2)
			p.has(mine)
			for _, w := range waits {
				p.joins(w)
			}
			p.clock = noon + 20_000
			published := p.listens(they)
			first := (p.clock + longestBlock - 1) / longestBlock * longestBlock
			require.Equal(t, []any{int64(1), digits(p.clock), digits(first)}, p.yields(mine, append(waits, permitRequest(nth("a", 9), 2))...))
			require.Equal(t, []any{holdFor(mine), fmt.Sprint(p.clock + lease*1000)}, p.out())
			require.Equal(t, -(first + longestBlock - 1), p.score("sb1s"), "the block is its own")
			require.Equal(t, int64(2), p.score("used"))
			require.Len(t, p.inQueue(), len(waits))
			p.requireLife(floorLife + lease*time.Millisecond)
			require.Empty(t, published.received())
		})
	}
}

// They are released, to the first ticket, if the queue has another one.
func TestPermitsAreReleasedIfAnotherTicketIsQueued(t *testing.T) {
	t.Parallel()
	named := permitRequest(nth("a", 7), 2)
	for name, other := range map[string]string{
		"Another": permitRequest(theirs, 2), "AnotherNumber": permitRequest(nth("a", 8), 3), "NotNamed": permitRequest(nth("a", 9), 2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPermits(t, 3)
			mine := permitRequest(ours, 2)
			p.has(mine)
			p.joins(named)
			p.joins(other)
			published := p.listens(they)
			paid := 1
			if other[:22] == we {
				paid = 2 // by the heartbeat of either
			}
			grant := grantOf(named[:41], noon+longestBlock, paid)
			require.Equal(t, []any{int64(4), digits(noon), grant, int64(0)}, p.yields(mine, named), "the named ticket was first")
			require.Equal(t, []any{other}, p.inQueue())
			require.Equal(t, int64(4), p.yields(named)[0])
			require.Empty(t, p.inQueue())
			require.Equal(t, holdFor(other), p.out()[0])
			if other[:22] == they {
				require.Len(t, published.received(), 1)
			}
			require.Equal(t, []any{int64(0), digits(noon)}, p.yields(named), "sent twice")
		})
	}
}

// P3: however permits are acquired, and whatever the clock does, no token has two holds, a later hold has later tokens,
// and blocks do not run further ahead of the clock than they may.
func TestBlocksOfTokensAreTheirHoldersAlone(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]int64{"TheClockStands": 0, "Slow": 7, "Fast": 300, "Back": -11} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPermits(t, 3)
			type span struct{ first, last int64 }
			var spans []span
			takes := func(reply any, mayBeBlock bool) {
				first := parseStamp(t, reply)
				s := span{first, first}
				if mayBeBlock {
					s.last = first + permitBlock(first) - 1
				}
				if s.last > s.first {
					require.Less(t, s.last, p.clock+headroom, "it runs too far ahead")
				}
				spans = append(spans, s)
			}
			blocks := 0
			for n := range redistest.Rounds(60, 250) {
				p.clock += step
				mine, next := permitRequest(nth("a", 2*n), 3), permitRequest(nth("a", 2*n+1), 3)
				takes(p.joins(mine)[1], false)
				p.joins(next)
				takes(p.leaves(mine)[2].(string)[19:35], true)
				takes(p.yields(next)[2], true)
				takes(p.polls(we, next)[3].(string)[19:35], true)
				p.leaves(next)
			}
			require.True(t, slices.IsSortedFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) }))
			for i, s := range spans[1:] {
				require.Greater(t, s.first, spans[i].last, "a token of two")
				if s.last > s.first {
					blocks++
				}
			}
			require.Greater(t, blocks, 100)
			if step == 0 {
				require.Less(t, spans[len(spans)-1].last, noon+headroom+2000, "tokens run away from a clock that stands")
			}
		})
	}
}
