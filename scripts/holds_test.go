// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P8: a renewal lengthens its own hold and only that, never creates one, and never makes it shorter.
func TestARenewalLengthensItsOwnOfManyHolds(t *testing.T) {
	t.Parallel()
	p := newPermits(t, 5)
	mine, other := permitRequest(ours, 2), permitRequest(theirs, 1)
	p.has(mine)
	p.has(other)
	until := fmt.Sprint(noon + lease*1000)
	p.clock += second
	require.Equal(t, int64(1), p.renews(mine, time.Hour))
	require.Equal(t, []any{holdFor(other), until, holdFor(mine), fmt.Sprint(p.clock + hour)}, p.out())
	require.Equal(t, int64(1), p.renews(mine, time.Second), "a shorter one, late")
	require.Equal(t, int64(1), p.renews(mine, 0), "asks only")
	require.Equal(t, []any{holdFor(other), until, holdFor(mine), fmt.Sprint(p.clock + hour)}, p.out())
	for _, name := range []string{permitRequest(nth("a", 5), 2), permitRequest(ours, 1), "", "used", "capacity", "sb1s"} {
		unchanged := p.unchanged()
		require.Equal(t, int64(0), p.renews(name, time.Hour), name)
		unchanged()
	}
	for _, member := range []string{"used", "capacity", "sb1s"} {
		before := p.score(member)
		require.Equal(t, int64(0), p.mustRun(scripts.HoldsRenew, []string{p.key}, member, 1000)[0], "no hold")
		require.Equal(t, int64(0), p.mustRun(scripts.HoldsDrop, []string{p.key}, member)[0], "no hold")
		require.Equal(t, before, p.score(member))
	}
}

// P10: one key of another program, or one that is refused, does not sink the others of its batch.
func TestABadKeyDoesNotSinkABatchOfRenewals(t *testing.T) {
	t.Parallel()
	p, other := newPermits(t, 1), newPermits(t, 1)
	mine := permitRequest(ours, 1)
	p.has(mine)
	other.has(mine)
	list, absent := p.key+"x", p.key+"y"
	p.server.MustDo(t, "RPUSH", list, "x")
	reply := p.mustRun(scripts.HoldsRenew, []string{p.key, list, absent, other.key},
		holdFor(mine), 1000, holdFor(mine), 1000, holdFor(mine), 1000, holdFor(mine), 1000)
	require.Equal(t, []any{int64(1), int64(0), int64(0), int64(1)}, reply)
}

func TestHoldsAreReturnedAPageAtATime(t *testing.T) {
	t.Parallel()
	p := newPermits(t, 100)
	list := func(from, count int) []any {
		return p.mustRun(scripts.HoldsList, []string{p.key}, "sb1s", from, count)
	}
	require.Equal(t, []any{"", ""}, list(0, 10))
	var want []any
	for n := range 25 {
		p.clock = noon + int64(n)
		hold := permitRequest(nth("a", 100-n), 1+n%3)
		p.has(hold)
		want = append(want, holdFor(hold), digits(p.clock+lease*1000))
	}
	unchanged := p.unchanged()
	var got []any
	for from := 0; ; from += 10 {
		page := list(from, 10)
		require.Equal(t, []any{digits(p.clock), ""}, page[:2])
		got = append(got, page[2:]...)
		if len(page) < 22 {
			break
		}
	}
	require.Equal(t, want, got)
	p.clock = noon + 4 + lease*1000
	require.Equal(t, want[10:20], list(0, 5)[2:], "those that have ended are not told")
	unchanged()
}
