// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
)

// evenWorld returns a group that is even, whose members are all older than 30 s.
func evenWorld(tb testing.TB, count, members int) *world {
	tb.Helper()
	w := newWorld(newGroup(tb), count)
	for range members {
		w.add(defaults(count))
	}
	w.runs(40*second, second)
	w.requireEven()
	w.moves = 0
	return w
}

// Planned loads are even as soon as no member has come for two seconds, and the real ones when the functions have returned.
func TestLoadsAreEvenAsSoonAsMovesMayBegin(t *testing.T) { t.Parallel(); waitsForQuiet(t) }

func waitsForQuiet(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 1000, 4)
	w.add(defaults(1000)).polls()
	w.runs(2*second, second)
	require.Zero(tb, w.moves)
	for _, m := range w.alive() {
		m.polls()
	}
	for number, record := range w.hash(1) {
		if len(number) == len(never) {
			require.Equal(tb, "200", strings.Fields(record)[4], record)
		}
	}
	w.turn()
	w.turn()
	w.requireEven()
	require.Equal(tb, 200, w.moves)
}

func TestAJoinThatIsSentAgainIsTheSameMember(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	id := fmt.Sprintf("%041d", 7)
	reply := g.joinAs(id, defaults(4))
	g.clock += second
	require.Equal(t, reply[1], g.joinAs(id, defaults(4))[1])
	g.clock += second
	late := g.call(proto.ShardsJoinScript, fmt.Sprintf("%041d", 8), digits(g.clock-1), lease, 1, 4, 4, 0, calm, 0, 0, "", "", "", "l", "4", "")
	require.Equal(t, int64(-1), late[0])
	_, ends := g.sorted(2)
	require.Len(t, ends, 2, "the member, and the time of the last call")
}

func TestAGroupOfAnotherCountRefusesExactMembersAlone(t *testing.T) {
	t.Parallel()
	w := evenWorld(t, 4, 1)
	s := defaults(8)
	require.Equal(t, int64(4), w.join(s)[4])
	s.exact = 1
	require.Equal(t, []any{int64(-5), int64(4), int64(0)}, w.join(s))
	require.Equal(t, []any{int64(-5), int64(4), int64(0)}, w.join(defaults(0)))
}

// Members that start together all get shards before any is granted.
func TestANewGroupGrantsNothingForTwoSeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(newGroup(t), 64)
	w.add(defaults(64)).polls()
	w.passes(2*second - 1)
	w.turn()
	require.Equal(t, []int{0}, w.loads())
	for range 3 {
		w.add(defaults(64)).poll()
	}
	w.passes(1)
	w.turn()
	w.turn()
	require.Equal(t, []int{16, 16, 16, 16}, w.loads())
	require.Zero(t, w.moves)
}

// The server was away, or its clock jumped: members that come back within two seconds lose nothing.
func TestAfterSilenceNoMemberIsTakenForDead(t *testing.T) {
	t.Parallel()
	w := evenWorld(t, 12, 3)
	w.clock += 20 * second
	w.members[0].polls()
	w.passes(2*second - 2)
	w.runs(20*second, second)
	require.Equal(t, []int{4, 4, 4}, w.loads())
	require.Zero(t, w.moves)
}

func TestAYoungMembersLeaseGrowsWithItsAge(t *testing.T) {
	t.Parallel()
	w := newWorld(newGroup(t), 4)
	m := w.add(defaults(4))
	for age := range int64(14) {
		m.polls()
		require.InDelta(t, min(lease, 3*second+age*second)*2/3, m.deadline-w.time, 10)
		w.passes(second)
	}
}

// Members that die young make moves wait longer, and shards of the dead go to proven members.
func TestACrashLoopMovesLittle(t *testing.T) {
	t.Parallel()
	w := evenWorld(t, 60, 5)
	for range 30 {
		m := w.add(defaults(60))
		w.runs(10*second, second)
		m.kill()
	}
	w.runs(60*second, second)
	w.requireEven()
	require.Less(t, w.moves, 250)
	w.runs(600*second, 2*second) // the members that died young are long ago
	w.add(defaults(60))
	w.runs(2*calm, second)
	w.requireEven()
}

func TestALimitIsKept(t *testing.T) { t.Parallel(); keepsALimit(t) }

func keepsALimit(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 10)
	s := defaults(10)
	s.limit = 3
	for range 2 {
		w.add(s)
	}
	w.runs(5*second, second)
	require.Equal(tb, []int{3, 3}, w.loads())
	w.members[0].set(1, 1, "l")
	w.runs(5*second, second)
	require.Equal(tb, []int{1, 3}, w.loads())
	w.audit()
}

// A member with a limit of one takes no other shard while the one that was moved away by hand drains.
func TestADrainCountsForTheLimit(t *testing.T) { t.Parallel(); countsDrains(t) }

func countsDrains(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 2)
	s := defaults(2)
	s.limit = 1
	a := w.add(s)
	w.runs(20*second, second)
	require.Len(tb, a.owns, 1)
	b := w.add(s)
	b.poll()
	for shard := range b.owns { // it is for a third one
		require.True(tb, b.release(shard, "e", 3600*second))
	}
	for shard := range a.owns {
		require.Equal(tb, int64(1), w.call(proto.ShardsMoveScript, shard, b.number, digits(w.clock+second), "PUBLISH", channel)[0])
	}
	for range 90 {
		w.passes(second)
		a.polls()
		b.polls()
		require.Len(tb, a.owns, 1, "the shard that drains")
		require.Empty(tb, b.owns)
		w.audit()
	}
	w.runs(7*second, second) // the other shard is looked at every five seconds
	require.Equal(tb, []int{1, 1}, w.loads())
	w.audit()
}

// A promise of a drain that hung counts again after an outage. Its member has taken another shard meanwhile, and gets no second one for it.
func TestAPromiseThatHungExceedsNoLimit(t *testing.T) { t.Parallel(); keepsALimitWhatHung(t) }

func keepsALimitWhatHung(tb testing.TB) {
	tb.Helper()
	for _, isByHand := range []bool{false, true} {
		w := newWorld(newGroup(tb), 3)
		s := defaults(3)
		a := w.add(s)
		s.limit = 1
		b := w.add(s)
		w.runs(20*second, second)
		require.Equal(tb, []int{2, 1}, w.loads())
		for shard := range b.owns {
			require.True(tb, b.release(shard, "e", 3600*second))
		}
		a.polls()
		b.polls()
		require.Len(tb, a.due, 1, "it is promised to b")
		hung := slices.Collect(maps.Keys(a.due))[0]
		if isByHand {
			require.Equal(tb, int64(1), w.call(proto.ShardsMoveScript, hung, b.number, digits(w.clock+second), "PUBLISH", channel)[0])
		}
		for range 90 { // a drains but that one
			w.passes(second)
			a.polls()
			b.polls()
			for shard := range a.due {
				if shard != hung {
					a.release(shard, "r", 0)
				}
			}
		}
		require.Equal(tb, []int{2, 1}, w.loads())
		w.passes(5 * second) // the server was away
		if isByHand {
			b.polls()
		}
		require.True(tb, a.release(hung, "r", 0))
		a.polls()
		b.polls()
		require.Len(tb, b.owns, 1, "by hand: %v", isByHand)
		w.audit()
	}
}

// A poll says the version of the last change, and the number, of the shards that its member owns and that have not changed since.
func TestAPollSaysWhatItsMemberHasRead(t *testing.T) { t.Parallel(); saysWhatIsRead(t) }

func saysWhatIsRead(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 4)
	a := w.add(defaults(4))
	w.runs(5*second, second)
	said := func(seen string) string {
		return textOf(a.call(proto.ShardsPollScript, a.number, seen, "PUBLISH", channel)[8])
	}
	versions := func() (all []string) {
		for _, r := range w.rows() {
			if r.owner == a.number {
				all = append(all, r.version)
			}
		}
		slices.Sort(all)
		return all
	}
	first := versions()
	require.Equal(tb, never+"0", said(never))
	require.Equal(tb, first[1]+"2", said(first[1]))
	require.Equal(tb, first[3]+"4", said(a.seen))

	b := w.add(defaults(4))
	b.polls()
	w.passes(3 * second)
	b.polls() // which asks for two
	require.Equal(tb, first[1]+"2", said(a.seen), "two have news")
	a.polls()
	require.Equal(tb, versions()[3]+"4", said(a.seen))
	a.drains()
	require.Equal(tb, first[1]+"2", said(a.seen))
}

// No more shards than Moves are on their way at once.
func TestMovesAreBounded(t *testing.T) { t.Parallel(); boundsMoves(t) }

func boundsMoves(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 40)
	s := defaults(40)
	s.moves = 5
	w.add(s)
	w.runs(5*second, second)
	w.add(s).polls()
	w.runs(2*second, second)
	for range 4 {
		for range 3 { // none is released meanwhile
			for _, m := range w.members {
				m.polls()
			}
			w.passes(second)
		}
		require.Len(tb, w.members[0].due, 5)
		w.turn()
	}
	w.runs(second, second)
	w.requireEven()
}

// Shards of the dead go to members that are older than 30 s.
func TestShardsOfTheDeadGoToProvenMembers(t *testing.T) { t.Parallel(); prefersTheProven(t) }

func prefersTheProven(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 12, 3)
	s := defaults(12)
	s.calm = 60 * second
	w.add(s).polls()
	w.members[0].kill()
	w.runs(20*second, second)
	require.Equal(tb, []int{6, 6, 0}, w.loads())
}

// What a member said before, and the network delivers late, does not undo what it said last.
func TestLateSettingsChangeNothing(t *testing.T) {
	t.Parallel()
	w := evenWorld(t, 8, 2)
	m := w.members[0]
	m.set(1, unlimited, "p")
	m.set(3, unlimited, "l")
	w.runs(5*second, second)
	require.Equal(t, []int{6, 2}, w.loads())
	m.said -= 2
	m.set(1, unlimited, "p")
	w.runs(5*second, second)
	require.Equal(t, []int{6, 2}, w.loads())
	m.said++
	m.set(1, unlimited, "l") // newer
	w.runs(5*second, second)
	require.Equal(t, []int{4, 4}, w.loads())
}

// The shard does not come back before the pause is over.
func TestAShardThatIsReleasedForElsewhereGoesElsewhere(t *testing.T) { t.Parallel(); goesElsewhere(t) }

func goesElsewhere(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 4, 2)
	m := w.members[0]
	for shard := range m.owns {
		require.True(tb, m.release(shard, "e", 30*second))
		w.runs(20*second, second)
		require.NotContains(tb, m.owns, shard)
		require.Contains(tb, w.members[1].owns, shard)
		w.requireEven()
		break
	}
}

// A member that has not taken shards up takes no others for them, until it is set again, and no other shard moves.
func TestAMemberTakesNoneForShardsThatItDoesNotTakeUp(t *testing.T) {
	t.Parallel()
	takesNoneInstead(t)
}

func takesNoneInstead(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 12, 2)
	m, n := w.members[0], 0
	for shard := range m.owns {
		if n++; n <= 4 {
			require.True(tb, m.release(shard, "u", 2*second))
		}
	}
	w.runs(20*second, second)
	require.Equal(tb, []int{2, 10}, w.loads())
	require.Equal(tb, 4, w.moves)
	m.set(1, 65536, "l")
	w.runs(20*second, second)
	w.requireEven()
}

// A release that arrives twice does not end a later grant.
func TestALateReleaseEndsNoLaterGrant(t *testing.T) { t.Parallel(); ignoresALateRelease(t) }

func ignoresALateRelease(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 1, 1)
	m := w.members[0]
	require.True(tb, m.release("0", "r", 0))
	again := w.sent[len(w.sent)-1]
	m.polls()
	require.NotEmpty(tb, m.owns["0"])
	again()
	require.Equal(tb, m.owns["0"], w.rows()["0"].token)
	require.Equal(tb, m.number, w.rows()["0"].owner)
}

// From the third owner that dies on a shard waits: 1 s, 2 s, 4 s and so on.
func TestAShardWhoseOwnersDieWaits(t *testing.T) { t.Parallel(); keepsPoisonAway(t) }

func keepsPoisonAway(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 1)
	w.add(defaults(1))
	for death := 1; death <= 5; death++ {
		m := w.alive()[0]
		for m.owns["0"] == "" {
			w.passes(second / 10)
			m.polls()
			require.Less(tb, w.time, 100*second)
		}
		require.Equal(tb, fmt.Sprint(death-1), w.rows()["0"].losses)
		m.kill()
		next := w.add(defaults(1))
		for w.rows()["0"].owner == m.number {
			w.passes(second / 10)
			next.poll()
		}
		r := w.rows()["0"]
		if death < 3 {
			require.Equal(tb, "o", r.state)
		} else {
			require.Equal(tb, "w", r.state)
			require.Equal(tb, int64(1)<<(death-3)*second, stampOf(r.till)-w.clock)
		}
	}
	m := w.alive()[0]
	w.runs(5*second, second)
	m.release("0", "r", 0)
	require.Equal(tb, "0", w.rows()["0"].losses)
}

// A drain that takes longer than its limit ends without its owner, with a greater token.
func TestADrainLimitMovesTheShard(t *testing.T) { t.Parallel(); limitsDrains(t) }

func limitsDrains(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 2)
	s := defaults(2)
	s.drain = 10 * second
	hung := w.add(s)
	w.runs(5*second, second)
	m := w.add(s)
	for range 13 {
		hung.polls()
		m.polls()
		w.passes(second)
	}
	require.Len(tb, hung.due, 1)
	for shard, token := range hung.owns {
		if hung.due[shard] {
			delete(hung.owns, shard) // it runs on, and the store must refuse its token
			w.passes(3 * second)     // it heard a second after it was asked
			m.polls()
			require.Greater(tb, m.owns[shard], token)
			hung.owns[shard] = token
			require.False(tb, hung.release(shard, "r", 0))
		}
	}
}

// A process that lost its lease joins anew, and releases what still runs there under its old number.
func TestAMemberThatCameBackReleasesUnderItsOldNumber(t *testing.T) {
	t.Parallel()
	w := evenWorld(t, 4, 1)
	m := w.members[0]
	w.passes(60 * second)
	s := defaults(4)
	s.old = m.number
	w.session = 1
	next := w.add(s)
	next.polls()
	m.isGone = true
	for shard := range m.owns {
		require.True(t, m.release(shard, "r", 0))
	}
	w.runs(3*second, second)
	require.Equal(t, []int{4}, w.loads())
	for _, r := range w.rows() {
		require.Equal(t, "0", r.losses)
	}
}

// A member that leaves waits for no drain of another one, however long that takes: what it was promised is promised to others.
func TestAMemberLeavesBesideADrainThatHangs(t *testing.T) { t.Parallel(); leavesBesideHung(t) }

func leavesBesideHung(tb testing.TB) {
	tb.Helper()
	for _, drains := range []int64{5 * second, 100 * second} {
		w := evenWorld(tb, 2, 1)
		hung, next := w.members[0], w.add(defaults(2))
		for range drains/second + 5 {
			hung.polls()
			next.polls()
			w.passes(second)
		}
		require.Len(tb, hung.due, 1)
		require.Zero(tb, next.leave())
		w.audit()
		hung.drains()
		w.runs(5*second, second)
		w.requireEven()
		w.drop()
	}
}

// While a slot moves, the existing renewal of one key makes the lease of a member last. It renews none that is over.
func TestTheRenewalOfHoldsRenewsAMember(t *testing.T) {
	t.Parallel()
	w := evenWorld(t, 12, 3)
	ends := *w.group
	ends.keys = w.keys[2:3]
	dead := w.members[2]
	dead.kill()
	for range 12 {
		for _, m := range w.members[:2] {
			require.Equal(t, []any{int64(1)}, ends.call(proto.HoldsRenewScript, m.number, lease/millisecond))
		}
		w.passes(2 * second)
		ends.clock = w.clock
	}
	require.Equal(t, []any{int64(0)}, ends.call(proto.HoldsRenewScript, dead.number, lease/millisecond))
	for _, m := range w.members[:2] {
		require.Equal(t, int64(1), w.call(proto.ShardsPollScript, m.number, m.seen, "PUBLISH", channel)[0])
	}
	require.Zero(t, w.moves)

	// A renewal for more than 30 s notes that beside the members, which an observer does not take for one.
	w.passes(5 * second)
	ends.clock = w.clock
	require.Equal(t, []any{int64(1)}, ends.call(proto.HoldsRenewScript, w.members[0].number, 60_000))
	rest := textOf(w.call(proto.ShardsReadScript, never, never, never, "")[12])
	require.Len(t, rest, 2*len(never)+2*len(never), "the numbers, and the dead member")
}

// The limit of a drain counts from when the owner has heard of it, and an end by force is no earlier than the lease: until then the
// owner trusts its contexts.
func TestNoLimitBeginsBeforeItsOwnerHears(t *testing.T) { t.Parallel(); waitsUntilRead(t) }

func waitsUntilRead(tb testing.TB) {
	tb.Helper()
	for what, take := range map[string]func(w *world, cut, next *member){
		"a move": func(_ *world, _, next *member) { next.polls() },
		"a move by hand": func(w *world, cut, next *member) {
			for shard := range cut.owns {
				w.call(proto.ShardsMoveScript, shard, next.number, digits(w.clock+second), "PUBLISH", channel)
			}
		},
		"an end by force": func(w *world, cut, _ *member) { w.call(proto.ShardsEndScript, cut.number, "PUBLISH", channel) },
		"a leave": func(w *world, cut, _ *member) {
			w.call(proto.ShardsLeaveScript, cut.number, 0, "PUBLISH", channel) // its reply is lost
		},
	} {
		w := newWorld(newGroup(tb), 8)
		s := defaults(8)
		s.drain, s.calm = second, 0
		cut := w.add(s)
		w.runs(20*second, second)
		next := w.add(s)
		next.poll()
		take(w, cut, next)
		for range 14 { // granted checks that the owner's deadline has passed
			w.passes(second)
			next.polls()
		}
		require.Empty(tb, cut.due, what)
		w.passes(3 * second)
		next.polls()
		require.Len(tb, next.owns, 8, what)
		w.audit()
		w.drop()
	}
}

// Shards that hang in drains count neither as moves under way nor for the member that is to have them, so they keep no others from moving.
func TestHungDrainsKeepNoOthersFromMoving(t *testing.T) { t.Parallel(); movesBesideHungDrains(t) }

func movesBesideHungDrains(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 60)
	s := defaults(60)
	s.moves = 5
	hung, good := w.add(s), w.add(s)
	w.runs(8*second, second)
	next := w.add(s)
	for range 300 {
		hung.polls()
		good.polls()
		good.drains()
		next.polls()
		w.passes(second)
	}
	require.Equal(tb, []int{30, 15, 15}, w.loads(), "the hung one was asked for what it has too much, and gave none; the others are even")
}

// A drain of up to a minute costs no move more: the member that it is for counts it.
func TestSlowDrainsCostNoMove(t *testing.T) { t.Parallel(); movesTheFewestWithSlowDrains(t) }

func movesTheFewestWithSlowDrains(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 60, 2)
	w.moves = 0
	w.add(defaults(60))
	for range 6 {
		for range 55 {
			for _, m := range w.members {
				m.polls()
			}
			w.passes(second)
		}
		w.turn()
	}
	require.Equal(tb, []int{20, 20, 20}, w.loads())
	require.Equal(tb, 20, w.moves)
}

// Whatever asks a member for its shards, if it hangs the others are even with what they own. Nothing moves then, and only what it releases in the end.
func TestMembersAreEvenBesideOneThatHangs(t *testing.T) { t.Parallel(); areEvenBesideHung(t) }

func areEvenBesideHung(tb testing.TB) {
	tb.Helper()
	for what, begins := range map[string]func(m *member){
		"leaves":        func(m *member) { m.leave() },
		"pauses":        func(m *member) { m.set(1, unlimited, "p") },
		"lowers limit":  func(m *member) { m.set(1, 5, "l") },
		"shares evenly": func(*member) {},
	} {
		w := newWorld(newGroup(tb), 60)
		hung, others := w.add(defaults(60)), []*member{w.add(defaults(60)), w.add(defaults(60))}
		runs := func(seconds int) {
			for range seconds {
				hung.polls()
				for _, m := range others {
					m.polls()
					m.drains()
				}
				w.passes(second)
			}
		}
		w.runs(8*second, second)
		begins(hung)
		runs(10)
		others = append(others, w.add(defaults(60)))
		runs(400)
		least, most := 60, 0
		for _, m := range others {
			least, most = min(least, len(m.owns)), max(most, len(m.owns))
		}
		require.LessOrEqual(tb, most-least, 1, "%s: %v", what, w.loads())
		require.GreaterOrEqual(tb, least, 13, "%s: %v", what, w.loads())
		w.audit()
		w.counted()
		runs(60)
		require.Zero(tb, w.moves, what)
		due := len(hung.due)
		require.GreaterOrEqual(tb, due, 5, what)
		hung.drains()
		w.runs(5*second, second)
		require.LessOrEqual(tb, w.moves, due, what)
		w.audit()
		w.drop()
	}
}

// Shards that are banned from a taker keep no others from moving to it.
func TestBannedShardsKeepNoOthersFromMoving(t *testing.T) { t.Parallel(); searchesBehindBans(t) }

func searchesBehindBans(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 60, 2)
	a, b := w.members[0], w.members[1]
	for n := range 24 {
		for shard := range a.owns {
			a.release(shard, "e", 3600*second)
			break
		}
		w.runs(2*second, second)
		require.Len(tb, b.owns, 30, "after %d", n)
	}
	b.set(1, unlimited, "p")
	w.runs(20*second, second)
	require.Equal(tb, []int{36, 24}, w.loads(), "all but those that A gave away")
	w.add(defaults(60)).polls()
	w.runs(20*second, second)
	require.Equal(tb, []int{30, 0, 30}, w.loads(), "what all gave away is for the one that comes")
}

// Nine members to which no shard can move keep it from no tenth one.
func TestAShardMovesPastAllThatGaveItAway(t *testing.T) { t.Parallel(); searchesAllTakers(t) }

func searchesAllTakers(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 4)
	joins := func(owns int) *member {
		m := w.add(defaults(4))
		w.runs(20*second, second)
		require.Len(tb, m.owns, owns)
		return m
	}
	for range 9 {
		m := joins(4)
		for shard := range m.owns {
			m.release(shard, "e", 3600*second)
		}
	}
	joins(4)
	joins(2)
}

// A shard that each of many members gives away rests, and the least time between two of its grants is a second.
func TestAShardThatAllGiveAwayRests(t *testing.T) { t.Parallel(); rests(t) }

func rests(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 24, 12)
	w.moves = 0
	for range 120 {
		w.turn()
		for _, m := range w.members {
			if m.owns["7"] != "" {
				m.release("7", "e", 3600*second)
			}
		}
		w.passes(second / 4)
	}
	require.Equal(tb, "w", w.rows()["7"].state)
	require.LessOrEqual(tb, w.moved["7"], 12)
	next := w.add(defaults(24))
	w.runs(8*second, second)
	require.NotEmpty(tb, next.owns["7"], "it wakes for a member that did not give it away")
}

// A resize ends all promises, also those of moves by hand, and polls rest while shards drain.
func TestPollsRestWhileAResizeDrains(t *testing.T) { t.Parallel(); restsWhileItDrains(t) }

func restsWhileItDrains(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 60, 1)
	next := w.add(defaults(60))
	next.polls()
	for shard := range 20 {
		w.call(proto.ShardsMoveScript, shard, next.number, digits(w.clock+second), "PUBLISH", channel)
	}
	for range 10 {
		w.resize(50)
	}
	w.passes(second)
	next.polls() // which fails if there is always more
	require.False(tb, next.poll())
}
