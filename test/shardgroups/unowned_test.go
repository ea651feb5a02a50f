// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
)

// P3: the time of a shard without an owner begins when its last owner ended, or when it came into the set, and passes through every
// state without an owner. Health counts by it.
func TestTimeWithoutAnOwnerBeginsOnce(t *testing.T) { t.Parallel(); countsUnowned(t) }

func countsUnowned(tb testing.TB) {
	tb.Helper()
	for _, named := range []bool{false, true} {
		countsThroughAllStates(tb, named)
	}
	comesBack(tb)
}

// countsThroughAllStates plays a shard that has no owner in all states, and that no member gets for good.
func countsThroughAllStates(tb testing.TB, named bool) { //nolint:revive // two sets
	tb.Helper()
	count := 1
	if named {
		count = 0
	}
	w := newWorld(newGroup(tb), count)
	s := defaults(count)
	s.mode = "p"
	came := w.clock
	paused := w.add(s)
	s.mode, s.limit = "l", 0
	taker := w.add(s)
	w.runs(20*second, second)
	if named {
		w.sync(1, "0")
		came = w.clock
	}
	requires := func(state string, since int64) {
		w.audit()
		require.Equal(tb, state, w.rows()["0"].state, "named: %v", named)
		require.InDelta(tb, since, stampOf(w.rows()["0"].since), 10, "named: %v, %s", named, state)
	}
	// It waits for a taker that was heard 2.5 s ago, and is free when that is silent.
	w.passes(2500 * millisecond)
	taker.set(1, unlimited, "l")
	requires("w", came)
	w.passes(2 * second)
	paused.polls()
	requires("f", came)

	// It is granted, and no function begins.
	taker.polls()
	require.NotEmpty(tb, taker.owns["0"])
	require.True(tb, taker.release("0", "d", 0))
	requires("w", came) // it rests for a second
	w.passes(second)
	taker.polls()
	w.passes(5 * second)
	taker.polls()
	require.NotEmpty(tb, taker.owns["0"])
	released := w.clock
	require.True(tb, taker.release("0", "e", 3600*second))
	requires("w", released)
	for range 40 {
		w.passes(second)
		taker.polls()
		paused.polls()
	}
	requires("w", released)

	// By hand it does not get it either, and another member declines it.
	require.Equal(tb, int64(0), w.call(proto.ShardsMoveScript, "0", taker.number, digits(w.clock+second), "PUBLISH", channel)[0])
	requires("w", released)
	s.limit = unlimited
	other := w.add(s)
	w.runs(10*second, second) // what each taker gave away is looked at again after 5 s
	require.NotEmpty(tb, other.owns["0"])
	require.True(tb, other.release("0", "d", 3600*second))
	requires("w", released)

	// An owner dies, and no script runs for an hour.
	owner := w.add(defaults(count))
	owner.polls()
	w.runs(20*second, second)
	require.NotEmpty(tb, owner.owns["0"])
	died := w.clock + lease
	owner.polls()
	owner.kill()
	taker.kill()
	other.kill()
	w.passes(3600 * second)
	s.mode = "p"
	w.add(s)
	w.runs(5*second, second)
	requires("f", died)
	w.drop()
}

// P3: a member that lost its lease in silence releases its shards late. They have had no owner since its lease ended, and not since then.
func TestALateReleaseBeginsNoNewTimeWithoutAnOwner(t *testing.T) { t.Parallel(); releasesLate(t) }

func releasesLate(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 3, 1)
	m := w.members[0]
	m.polls()
	ended := w.clock + lease
	w.passes(lease - second)
	require.True(tb, m.release("0", "r", 0))
	released := w.clock
	w.passes(20 * second) // no script runs, so that no member is taken for dead for two seconds more
	require.True(tb, m.release("1", "r", 0))
	require.True(tb, m.release("2", "e", 3600*second))
	rows := w.rows()
	for shard, since := range map[string]int64{"0": released, "1": ended, "2": ended} {
		require.InDelta(tb, since, stampOf(rows[shard].since), 10, "shard %s", shard)
	}
}

// comesBack requires that a name that comes into the set again has had no owner since then.
func comesBack(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 0)
	s := defaults(0)
	s.mode = "p"
	m := w.add(s)
	w.sync(1, "a")
	w.runs(10*second, second)
	w.sync(2)
	w.runs(10*second, second)
	w.sync(3, "a")
	came := w.clock
	m.polls()
	require.InDelta(tb, came, stampOf(w.rows()["a"].since), 10)
	w.drop()
}

// All shards of a member that is over are granted, also if the clock is set back meanwhile.
func TestAStepBackRevivesNoMemberThatIsOver(t *testing.T) { t.Parallel(); reapsAfterAStepBack(t) }

func reapsAfterAStepBack(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 40, 2)
	w.members[0].kill()
	m := w.members[1]
	for len(m.owns) == 20 {
		w.passes(second / 2)
		m.poll()
	}
	require.Len(tb, m.owns, 36)
	w.clock -= 10 * second
	m.polls()
	w.clock++
	m.polls()
	require.Len(tb, m.owns, 40)
	for _, r := range w.rows() {
		require.LessOrEqual(tb, stampOf(r.since), stampOf(r.token))
	}
}
