// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// yield asks for hold, which used tokens until floor.
func (p *place) yield(hold string, floor int64) any {
	p.Helper()
	return p.run(scripts.ReentrantYield, hold, lease, digits(floor), "PUBLISH", p.channel, keepMS)
}

func TestAHoldGoesOnWhileNoOtherSessionWaits(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]string{"Nobody": "", "OwnSession": we} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.set(heldBy(ours, noon, mark), time.Second)
			p.clock = noon + 20_000
			listener := p.listen()
			require.Equal(t, []any{int64(1), digits(p.clock), block, digits(p.clock)}, p.yield(ours, noon+block))
			require.Equal(t, heldBy(ours, p.clock, mark), p.value())
			p.requireLife(lease * time.Millisecond)
			require.Empty(t, listener.heard())
		})
	}
}

func TestAHoldIsGivenBackWhereAnotherSessionWaits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.set(heldBy(ours, noon, they), time.Minute)
	listener := p.listen()
	require.Equal(t, []any{int64(2)}, p.yield(ours, noon+200))
	require.Equal(t, released(noon+200), p.value())
	p.requireLife(floorLife)
	require.Equal(t, []string{us}, listener.heard())
	unchanged := p.untouched()
	require.Equal(t, []any{int64(0)}, p.yield(ours, noon+200), "sent twice")
	unchanged()
}

// P3: a block that was used up is followed by a later one, whatever the clock says.
func TestTheNextBlockOfTokensIsBeyondTheLast(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]int64{"InStep": 0, "ALittleAhead": 50_000, "FarAhead": 3_600_000_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			last := noon + ahead // of the first block
			p.set(heldBy(ours, last, ""), time.Minute)
			for range 300 {
				reply := p.yield(ours, last).([]any)
				require.Greater(t, reply[1], digits(last))
				first, us := parseStamp(t, reply[1]), reply[2].(int64)
				require.Equal(t, first+us-block, parseStamp(t, p.value()[4:20]), "a script that takes the hold away continues behind it")
				require.Contains(t, []int64{0, block}, us)
				if us > 0 {
					require.LessOrEqual(t, first+us, p.clock+headroom, "a block runs too far ahead of the clock")
				}
				last = first + us
			}
			// The worst is a clock that stands. Every question needs a stamp of its own then, and no more.
			require.LessOrEqual(t, last, max(noon+ahead, noon+headroom)+300, "tokens run away from a clock that was set back")
		})
	}
}

func TestAYieldSentTwiceGoesOnTwice(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.set(heldBy(ours, noon, ""), time.Minute)
	p.clock = noon + 20_000
	first := p.yield(ours, noon+block).([]any)
	second := p.yield(ours, noon+block).([]any)
	require.Equal(t, int64(1), second[0])
	require.GreaterOrEqual(t, second[1], first[1], "its answer may be the one that is heard")
	require.Equal(t, heldBy(ours, parseStamp(t, second[1]), ""), p.value())
}
