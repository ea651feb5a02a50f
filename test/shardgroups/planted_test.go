// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// mistake is a change of the scripts that a rule has to find.
type mistake struct {
	name     string
	was, is  string
	rule     func(testing.TB) // what finds it
	isInside atomic.Bool      // a script had the text
}

// in returns a script with the mistake.
func (m *mistake) in(source string) string {
	if m == nil || !strings.Contains(source, m.was) {
		return source
	}
	m.isInside.Store(true)
	return strings.ReplaceAll(source, m.was, m.is)
}

// finder is a test that may fail: that is what finds a mistake.
type finder struct {
	testing.TB

	mistake *mistake
	found   atomic.Bool
}

// Helper implements testing.TB.
func (*finder) Helper() {}

// Errorf implements testing.TB.
func (f *finder) Errorf(string, ...any) { f.found.Store(true) }

// Fatalf implements testing.TB.
func (f *finder) Fatalf(string, ...any) { f.FailNow() }

// Fatal implements testing.TB.
func (f *finder) Fatal(...any) { f.FailNow() }

// FailNow implements testing.TB.
func (f *finder) FailNow() {
	f.found.Store(true)
	runtime.Goexit()
}

// finds reports whether the rule finds the mistake.
func (m *mistake) finds(t *testing.T) bool {
	t.Helper()
	f, over := &finder{TB: t, mistake: m}, make(chan struct{})
	go func() {
		defer close(over)
		m.rule(f)
	}()
	<-over
	return f.found.Load()
}

// mistakes are those of the rules that the models leave out.
func mistakes() []*mistake {
	return []*mistake{
		{name: "a member above its limit takes", was: "if member.state == 'l' and has_room(owner, member, 0) then", is: "if member.state == 'l' then", rule: keepsALimit},
		{name: "a drain is not in the limit", was: "load + count_of('n:' .. owner) - count_of('k:' .. owner) < member.limit", is: "load < member.limit", rule: countsDrains},
		{name: "room that a drain leaves is not seen", was: "n < 3 and -1 or 0)", is: "n < 3 and -1 or 0)\n      break", rule: countsDrains},
		{name: "a lower limit takes nothing away", was: "elseif member.state ~= 'l' or load > member.limit then", is: "elseif member.state ~= 'l' then", rule: keepsALimit},
		{name: "moves are not bounded", was: "return moving < most", is: "return true", rule: boundsMoves},
		{name: "moves of one call are not counted", was: "row.class, moving = '1', moving and moving + 1", is: "row.class = '1'", rule: boundsMoves},
		{name: "joins are not awaited", was: "if now_us < state.quiet or not may_grant() then\n    return false\n  end", is: "", rule: waitsForQuiet},
		{name: "poison is granted at once", was: "is_counted and losses >= 3", is: "is_counted and losses >= 3000", rule: keepsPoisonAway},
		{name: "poison waits as long each time", was: " * 2 ^ (losses - 3)", is: "", rule: keepsPoisonAway},
		{name: "poison is never forgiven", was: "row.since, row.losses = digits(released_at(row.owner)), '0'", is: "row.since = digits(released_at(row.owner))", rule: keepsPoisonAway},
		{name: "shards of the dead go to the young", was: "or read_member(taker).is_proven == '1' then", is: "or true then", rule: prefersTheProven},
		{name: "the young do not count", was: "with_share and score < least", is: "false", rule: movesOrphansAlone},
		{name: "a promise to the young is broken", was: "if promised and promised.state == 'l' and", is: "if promised and promised.state == 'l' and promised.is_proven == '1' and", rule: movesOrphansAlone},
		{name: "a late poll makes a member silent", was: "polled_at[owner] = at >= now_us - 3000000 and at", is: "polled_at[owner] = at >= now_us - 2000000 and at", rule: movesOrphansAlone},
		{name: "a new set beside the old one", was: "if budget > 0 and not find('n', 1)[1] then", is: "if budget > 0 then", rule: resizesAtOnce},
		{name: "grants while the set is replaced", was: "now_us >= state.first_grant and state.resize == 0", is: "now_us >= state.first_grant", rule: resizesAtOnce},
		{name: "grants before the names come", was: "state.asked > 0 and now_us < state.names_due", is: "false", rule: awaitsNames},
		{name: "names that never come are awaited", was: "state.asked > 0 and now_us < state.names_due", is: "state.asked > 0", rule: awaitsNames},
		{name: "who leaves is asked for names", was: "or member.state == 'g' then\n    return 0", is: "then\n    return 0", rule: awaitsNames},
		{name: "the dead request a set", was: "drop_requested(owner, member) -- first,", is: "-- first,", rule: awaitsNames},
		{name: "a count that one member wishes", was: "and count_of('c:' .. common) == count_of('c') and common", is: "and common", rule: waitsForTheLastRequest},
		{name: "a late release of an earlier grant", was: "row.owner == number and row.token == entry.token", is: "row.owner == number", rule: ignoresALateRelease},
		{name: "drains have no limit", was: "while state.drain > 0 and budget > 0 do", is: "while false do", rule: limitsDrains},
		{name: "drains end at once", was: "now_us - tonumber(since) <= state.drain", is: "false", rule: limitsDrains},
		{name: "drains that no owner heard of end", was: "local first = find('h', 1)[1]\n    local since, shard = string.match(first or '', '^h:(%d+):(.*)$')", is: "local first = find('a', 1)[1]\n    local since, shard = string.match(first or '', '^a:(%d+):(.*)$')", rule: waitsUntilRead},
		{name: "an end by force ends at once", was: "redis.call('ZADD', ends, decimal(-lease_end), number)", is: "redis.call('ZADD', ends, 0, number)", rule: waitsUntilRead},
		{name: "hung drains count for who is to have them", was: "':' .. hung_before, 'p:' .. owner)", is: "':', 'p:' .. owner)", rule: areEvenBesideHung},
		{name: "slow drains count for nobody", was: "drains_before(60000000)", is: "drains_before(10000000)", rule: movesTheFewestWithSlowDrains},
		{name: "hung drains count as moves", was: "'[a:' .. slow_before", is: "'[a:0'", rule: movesBesideHungDrains},
		{name: "only the youngest shards are looked at", was: "local pages = math.ceil(", is: "do return nil end\n  local pages = math.ceil(", rule: searchesBehindBans},
		{name: "only the first takers are looked at", was: "2 + turn(math.max(size - 1 - 2, 1), step)", is: "2", rule: searchesAllTakers},
		{name: "what all gave away sleeps for as long as it is banned", was: "again < first and again or first", is: "first", rule: rests},
		{name: "the newest ban is dropped", was: "if #left > 64 then", is: "if #left > 8 then", rule: rests},
		{name: "a promise by hand outlives a resize", was: "row.promised = '0000000000000000' -- also of", is: "budget = budget - 1 -- also of", rule: restsWhileItDrains},
		{name: "a shard comes back at once", was: "return at and string.sub(row.bans", is: "return false and string.sub(row.bans", rule: goesElsewhere},
		{name: "a member takes another shard for one that it does not take up", was: "member.limit = math.min(member.limit, member.load) - 1", is: "member.limit = member.limit + 0", rule: takesNoneInstead},
		{name: "a finished name stays", was: "if row.state == 'x' or ending == 'x' and state.names == 1 then", is: "if row.state == 'x' then", rule: removesFinished},
		{name: "time without an owner begins with each state", was: "  row.version = next_version()\n  row.state, row.owner, row.promised,", is: "  row.version = next_version()\n  row.since = row.version\n  row.state, row.owner, row.promised,", rule: countsUnowned},
		{name: "a grant that is declined made an owner", was: "if ending ~= 'd' then", is: "if true then", rule: countsUnowned},
		{name: "an owner ends when that is noticed", was: "member.state == 'd', group_time(till))", is: "member.state == 'd', now_us)", rule: countsUnowned},
		{name: "a shard of a count comes when it is looked at", was: "new_row(state.began)", is: "new_row(now_us)", rule: countsUnowned},
		{name: "a name that comes back was there", was: "row.losses, row.since, row.bans = '0', digits(now_us), ''", is: "row.losses, row.bans = '0', ''", rule: countsUnowned},
		{name: "what is left of the dead lives again after a step of the clock", was: "(member.state == 'd' and 0 or member.lease)", is: "member.lease", rule: reapsAfterAStepBack},
		{name: "what has news counts as read", was: "'(n:' .. owner .. ':' .. since .. ';'\n  local last", is: "'(n:' .. owner .. ';'\n  local last", rule: saysWhatIsRead},
		{name: "a poll says no version", was: "return version .. decimal(redis", is: "return '0000000000000000' .. decimal(redis", rule: saysWhatIsRead},
		{name: "a poll says another version", was: "index, finish, start, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]", is: "index, start, finish, 'BYLEX', 'LIMIT', 0, 1)[1]", rule: saysWhatIsRead},
		{name: "a move by hand is undone", was: "local by_hand = is_live and row.class == '0'", is: "local by_hand = false", rule: keepsAMoveByHand},
		{name: "a move by hand leaves a promise as it is", was: "if row.promised ~= number and (not", is: "if row.promised == number then return {1, now, 0} end\nif row.promised ~= number and (not", rule: keepsAPromise},
		{name: "who leaves waits for drains that hang", was: "if not find('n:' .. number, 1)[1] then", is: "if false then", rule: leavesBesideHung},
		{name: "a round of names continues beside a later one", was: "if round ~= id then", is: "if not round then", rule: countsTheLastRound},
		{name: "a lost round of names continues", was: "if round ~= id then", is: "if round and round ~= id then", rule: countsTheLastRound},
		{name: "names that left by themselves are listed", was: "if redis.call('HGET', group, 'digest') == '-' then", is: "if true then", rule: countsTheLastRound},
		{name: "a round that the server had before counts for a later one", was: "is_overtaken and 1 or 0", is: "1", rule: countsTheLastRound},
		{name: "a round whose reply was lost begins again behind a later one", was: " or former == id)", is: ")", rule: countsTheLastRound},
		{name: "names that members request undo those of a caller", was: "if is_late or since ~= '' and", is: "if is_late or false and", rule: countsTheLastRound},
		{name: "a name that has left comes back", was: "not redis.call('HGET', rows, name) then", is: "not redis.call('ZSCORE', index, 's:' .. name) then", rule: undoesNoRound},
		{name: "names that come back stay behind one that left by itself", was: "if listed == '-' or listed == '+' then", is: "if listed == '-' then", rule: undoesNoRound},
		{name: "names that come back undo a set", was: "if state.set_at > tonumber(digest) then", is: "if false then", rule: undoesNoRound},
		{name: "names that come back stay beside a round", was: "redis.call('HDEL', group, 'round')", is: "", rule: undoesNoRound},
		{name: "a resize that is sent again undoes a later one", was: "elseif not is_overtaken and", is: "elseif", rule: resizesTwice},
		{name: "a resize whose reply was lost undoes a later one", was: " or id == former\n", is: "\n", rule: resizesTwice},
		{name: "a resize that was lost is not set again", was: "local is_overtaken = is_again and", is: "local is_overtaken = is_again or", rule: resizesTwice},
		{name: "requests during a resize are forgotten", was: "  read_requested() -- what all members request since then\n", is: "", rule: remembersRequests},
	}
}

// Each rule that the models leave out finds its mistakes: limits, moves at once, poison, drains, and sets that change.
func TestEachMistakeIsFound(t *testing.T) {
	t.Parallel()
	for _, m := range mistakes() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			require.True(t, m.finds(t), "the rule holds with the mistake")
			require.True(t, m.isInside.Load(), "no script has this text: %s", m.was)
		})
	}
}
