// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P10: a release and a hand-off must work when nothing else does.
func TestPermitsAreHandedOnWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	mine, kept, next := permitRequest(ours, 3), permitRequest(nth("a", 9), 1), permitRequest(theirs, 2)
	for name, gives := range map[string]func(p *permits) []any{
		"Leave": func(p *permits) []any { return p.leaves(mine) },
		"Split": func(p *permits) []any { return p.splits(kept, mine) },
		"Yield": func(p *permits) []any { return p.yields(mine) },
		"PollAfterTheEnd": func(p *permits) []any {
			return p.polls(session("c"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPermitsAt(t, 3)
			p.has(mine)
			p.joins(next)
			if name == "PollAfterTheEnd" {
				p.clock += lease * 1000
				p.heartbeat(they, life, p.next())
				p.heartbeat(session("c"), life, p.next())
			}
			published := p.listens(they)
			p.fill()
			require.Contains(t, []any{int64(1), int64(4)}, gives(p)[0])
			require.Empty(t, p.inQueue())
			require.Contains(t, p.out(), holdFor(next))
			require.Len(t, published.received(), 1)
		})
	}
	p := newPermitsAt(t, 3)
	p.has(mine)
	p.fill()
	require.Equal(t, int64(1), p.renews(mine, time.Hour))
	require.Equal(t, []any{holdFor(mine), fmt.Sprint(noon + hour)}, p.out())
	require.Equal(t, int64(1), p.drops(mine))
	require.Equal(t, []any{int64(1), int64(3), int64(0)}, p.available())
}

// P4: what creates state does nothing when it comes too late.
func TestASemaphoreIsLeftAloneByWhatComesTooLate(t *testing.T) {
	t.Parallel()
	p := newPermits(t, 3)
	mine := permitRequest(ours, 3)
	p.has(mine)
	late := digits(noon - 1)
	join, resize, split := p.enterArgs(permitRequest(theirs, 1), "1", p.next()), p.resizeArgs(9), p.splitArgs(permitRequest(nth("a", 9), 1), mine)
	join[2], resize[1], split[2] = late, late, late
	unchanged := p.unchanged()
	for script, args := range map[*scripts.Script][]any{
		scripts.SemaphoreEnter: join, scripts.SemaphoreResize: resize, scripts.SemaphoreSplit: split,
	} {
		require.Equal(t, []any{int64(-1), digits(noon)}, p.mustRun(script, p.keys(), args...), script.Name)
	}
	unchanged()
}

// However many holds ended at once: a call takes out a thousand, and says that there are more.
func TestHoldsThatEndedAtOnceAreTakenOutByTheThousand(t *testing.T) {
	t.Parallel()
	const n = 4000
	p := newPermits(t, n)
	p.many(n, noon)
	all := permitRequest(ours, n)
	reply := p.joins(all)
	require.Equal(t, []any{int64(0), int64(0), int64(1), digits(noon)}, reply, "a poll is due at once")
	require.Equal(t, []any{int64(1), int64(n), int64(0)}, p.available(), "none of them is held, whichever session has polled")
	for calls := 1; ; calls++ {
		require.Equal(t, int64(n-1000*calls), p.score("used"))
		reply := p.polls(we, all)
		if calls == n/1000-1 {
			require.Equal(t, attempt(ours), reply[3].(string)[:19], "it has its permits with the last of them")
			require.Equal(t, int64(0), reply[2])
			break
		}
		require.Equal(t, []any{int64(1), int64(0), int64(1), "", "1", digits(noon)}, reply)
	}
	require.Equal(t, int64(n), p.score("used"))
}

// A call grants to 128 and says that there are more.
func TestManyAreGrantedByTheHundred(t *testing.T) {
	t.Parallel()
	const n = 300
	p := newPermits(t, n)
	all := permitRequest(ours, n)
	p.has(all)
	for i := range n {
		p.joins(permitRequest(nth("b", i), 1))
	}
	published := p.listens(they)
	require.Equal(t, []any{int64(1), digits(noon), "", int64(1)}, p.leaves(all))
	require.Equal(t, int64(128), p.score("used"))
	require.Equal(t, int64(1), p.polls(session("c"))[2])
	require.Equal(t, int64(0), p.polls(session("c"))[2])
	require.Equal(t, int64(n), p.score("used"))
	isListening := published.received()
	require.Len(t, isListening, 3, "a message a call, and not one a grant")
	require.Len(t, strings.Join(isListening, ""), n*len(grantOf(theirs, noon, 1)))
}

// A hold keeps its permits when its enter comes again, though the capacity is smaller now.
func TestAnEnterThatComesAgainKeepsItsPermitsThoughThereAreFewer(t *testing.T) {
	t.Parallel()
	p := newPermits(t, 3)
	mine := permitRequest(ours, 3)
	p.has(mine)
	p.resizes(2)
	require.Equal(t, int64(1), p.joins(mine)[0])
	require.Equal(t, []any{int64(-4), int64(2)}, p.joins(permitRequest(theirs, 3)))
	exact := p.enterArgs(permitRequest(theirs, 1), "1", p.next())
	exact[11] = "1"
	require.Equal(t, []any{int64(-5), int64(2)}, p.mustRun(scripts.SemaphoreEnter, p.keys(), exact...))
}

// P4: no key without an end. The key of a semaphore whose permits are all free is kept as long as
// the floor.
func TestAnIdleSemaphoreIsKeptAsLongAsTheFloor(t *testing.T) {
	t.Parallel()
	p := newPermits(t, 3)
	mine, other := permitRequest(ours, 1), permitRequest(theirs, 1)
	p.has(mine)
	p.requireLife(floorLife + lease*time.Millisecond)
	p.has(other)
	p.leaves(other)
	p.requireLife(floorLife + lease*time.Millisecond)
	p.leaves(mine)
	p.requireLife(floorLife)
	p.requireEnds()
}

// A capacity that was set is known for an hour after the last use, even if that is the end of a
// hold that was renewed for hours and whose process crashed.
func TestACapacityThatWasSetIsKeptForAnHour(t *testing.T) {
	t.Parallel()
	p := newPermits(t, 3)
	mine := permitRequest(ours, 3)
	p.resizes(5)
	p.requireLife(time.Hour)
	p.has(mine)
	p.requireLife(time.Hour + lease*time.Millisecond)
	p.server.MustDo(t, "PEXPIRE", p.key, 45_000) // as after hours of renewals
	require.Equal(t, int64(1), p.renews(mine, lease*time.Millisecond))
	p.requireLife(time.Hour + lease*time.Millisecond)
	p.leaves(mine)
	p.requireLife(time.Hour)
	require.Equal(t, []any{int64(1), int64(5), int64(0)}, p.available())
	p.requireEnds()
}
