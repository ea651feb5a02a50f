// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
)

func (w *world) resize(count int) []any {
	w.Helper()
	w.ids++
	return w.resizeAs(w.ids, count)
}

// resizeAs sends a request of a caller, again if the id has been there.
func (w *world) resizeAs(id int, known any) []any {
	w.Helper()
	return w.call(proto.ShardsResizeScript, known, fmt.Sprintf("%041d", id), digits(w.clock+second), "PUBLISH", channel)
}

// None of the new set is granted before all of the old one are released.
func TestAResizeGrantsNothingBeforeAllIsReleased(t *testing.T) { t.Parallel(); resizesAtOnce(t) }

func resizesAtOnce(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 40, 2)
	require.Equal(tb, int64(24), w.resize(50)[3].(int64)-16)
	hung := w.members[0]
	for range 10 {
		for _, m := range w.members {
			m.polls()
		}
		w.members[1].drains()
		w.passes(second)
	}
	require.Equal(tb, []int{20, 0}, w.loads())
	require.Len(tb, hung.due, 20)
	require.Equal(tb, int64(20), w.resize(50)[3])
	hung.drains()
	w.count = 50
	w.runs(5*second, second)
	w.requireEven()
	require.Equal(tb, int64(0), w.resize(50)[3])
}

// A Resize that is sent again, to learn what is left, undoes none that began after it. One that the server has lost is set again.
func TestAResizeThatIsSentAgainUndoesNoLaterOne(t *testing.T) { t.Parallel(); resizesTwice(t) }

func resizesTwice(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 40, 2)
	first := w.resize(50)
	id := w.ids
	again := func(first []any) []any { return w.resizeAs(id, textOf(first[4])+"50") }
	require.Equal(tb, int64(40), again(first)[3])
	require.Positive(tb, w.resize(30)[3])
	require.Equal(tb, int64(0), again(first)[3])
	require.Equal(tb, int64(0), w.resizeAs(id, 50)[3], "its first reply was lost")
	w.count = 30
	w.runs(5*second, second)
	w.requireEven()
	require.Equal(tb, int64(0), again(first)[3])
	require.Equal(tb, int64(0), w.resizeAs(id, 50)[3])
	id = 0
	lost := []any{nil, nil, nil, nil, digits(w.clock + second)}
	require.Positive(tb, again(lost)[3])
	w.count = 50
	w.runs(5*second, second)
	w.requireEven()
}

// Two deployments: the count changes when the last member that wishes the old one has left.
func TestTheCountThatAllMembersWishReplacesTheSet(t *testing.T) {
	t.Parallel()
	waitsForTheLastRequest(t)
}

func waitsForTheLastRequest(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 8, 2)
	w.add(defaults(16))
	w.members[0].leave()
	w.runs(5*second, second)
	w.requireEven()
	w.members[1].leave()
	w.count = 16
	w.runs(5*second, second)
	w.requireEven()
	require.Equal(tb, int64(0), w.resize(4)[3].(int64)-16)
	w.count = 4
	w.runs(5*second, second)
	w.requireEven()
	w.add(defaults(16)) // what all wished before is not wished again
	w.runs(5*second, second)
	w.requireEven()
}

// What all members request is not forgotten if a resize is under way when the last member leaves that requests something else.
func TestARequestDuringAResizeReplacesTheSet(t *testing.T) { t.Parallel(); remembersRequests(t) }

func remembersRequests(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 8, 2)
	w.add(defaults(16))
	w.resize(4)
	for _, m := range w.members {
		m.polls()
	}
	w.members[0].goes()
	require.Positive(tb, w.members[1].leave())
	w.count = 16
	w.runs(5*second, second)
	w.requireEven()
	require.Len(tb, w.members[2].owns, 16)
}

// round is one round over all names.
type round struct {
	*world

	id     int
	of     int      // the session
	names  []string // those of the pages that are not sent yet
	digest string
	since  string // of the first page: what callers list later counts; "" if a caller lists them
	begun  string
	after  string
	calls  int
}

func (w *world) round(id int, names ...string) *round {
	slices.Sort(names)
	return &round{world: w, id: id, names: names, digest: fmt.Sprintf("%d of %s", len(names), strings.Join(names[:min(len(names), 3)], ","))}
}

// page sends the next page until it is done, and returns whether the round is.
func (r *round) page() (whole bool) {
	r.Helper()
	page := r.names[:min(len(r.names), 128)]
	var text strings.Builder
	for _, name := range page {
		fmt.Fprintf(&text, "%02d%s", len(name), name)
	}
	last := 0
	if len(page) == len(r.names) {
		last = 1
	}
	since := r.since
	if r.after != "" {
		since = r.begun
	}
	for {
		reply := r.call(proto.ShardsSyncScript, fmt.Sprintf("%022d%019d", r.of, r.id), r.digest, since, r.after, text.String(), last, digits(r.clock+second), "PUBLISH", channel)
		r.calls++
		require.Less(r, r.calls, 100)
		if integer(reply[0]) == 1 {
			whole, r.begun = integer(reply[3]) == 1, textOf(reply[4])
			break
		}
	}
	if last == 0 {
		r.after, r.names = page[len(page)-1], r.names[len(page):]
	}
	return whole
}

// copies keeps the group as it is, and returns what restores that: the server has lost all later writes.
func (g *group) copies() (restore func()) {
	g.Helper()
	kept := make([]any, len(g.keys))
	for n, key := range g.keys {
		kept[n] = strings.Replace(fmt.Sprint(key), "}:", "}:kept:", 1)
		g.server.MustDo(g, "COPY", key, kept[n])
	}
	return func() {
		g.Helper()
		for n, key := range g.keys {
			g.server.MustDo(g, "COPY", kept[n], key, "REPLACE")
		}
		g.server.MustDo(g, append([]any{"DEL"}, kept...)...)
	}
}

// sync makes the names of a group these, and returns how many calls that took.
func (w *world) sync(id int, names ...string) (calls int) {
	w.Helper()
	r := w.round(id, names...)
	for !r.page() {
		require.NotEmpty(w, r.names)
	}
	return r.calls
}

// numbered returns the names with the numbers from first on.
func numbered(first, count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("name %03d", first+i)
	}
	return all
}

// present returns the names of the set.
func (w *world) present() (names []string) {
	w.Helper()
	for name, r := range w.rows() {
		if r.state != "g" && r.state != "x" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Of two rounds over all names that one counts which began last, also if pages of the other one come later, of one session the first page
// too: its names are the set, and are known to be. A name that leaves by itself meanwhile is not known to the caller, and one that was lost
// with the group is sent again.
func TestOneOfTwoRoundsOfNamesCounts(t *testing.T) { t.Parallel(); countsTheLastRound(t) }

func countsTheLastRound(tb testing.TB) {
	tb.Helper()
	for order, pages := range map[string][]int{"between": {0, 1, 0, 1}, "behind": {0, 1, 1, 0}} {
		w := newWorld(newGroup(tb), 0)
		w.add(defaults(0))
		rounds := []*round{w.round(1, numbered(0, 200)...), w.round(2, numbered(100, 200)...)}
		over := make([]bool, 2)
		for _, n := range pages {
			over[n] = rounds[n].page()
		}
		require.Equal(tb, numbered(100, 200), w.present(), order)
		require.Equal(tb, 1, w.sync(3, numbered(100, 200)...), order)
		require.Equal(tb, []bool{true, true}, over, order)
		w.drop()
	}
	w := newWorld(newGroup(tb), 0)
	m := w.add(defaults(0))
	w.sync(1, numbered(0, 20)...)
	w.sync(2, numbered(10, 20)...)
	require.True(tb, w.round(1, numbered(0, 20)...).page(), "a first page that is late")
	require.Equal(tb, numbered(10, 20), w.present())
	w.sync(3, numbered(0, 20)...)
	w.runs(3*second, second)
	finishes := w.round(4, numbered(0, 200)...)
	require.False(tb, finishes.page())
	require.True(tb, m.release("name 007", "x", 0))
	require.True(tb, finishes.page())
	require.NotContains(tb, w.present(), "name 007")
	w.sync(5, numbered(0, 200)...)
	require.Contains(tb, w.present(), "name 007")

	requested, caller := w.round(6, numbered(0, 10)...), w.round(7, numbered(10, 20)...)
	requested.since, caller.of = digits(w.clock), 1
	require.True(tb, caller.page())
	require.True(tb, requested.page(), "a caller came since")
	require.Equal(tb, numbered(10, 20), w.present())
	next := w.round(8, numbered(20, 20)...)
	next.of = 2
	require.True(tb, next.page())
	require.True(tb, caller.page(), "it is sent again")
	require.Equal(tb, numbered(20, 20), w.present())
	w.passes(second)
	requested.since = digits(w.clock)
	require.True(tb, requested.page())
	require.Equal(tb, numbered(0, 10), w.present())

	older := w.copies()
	overtakes := w.round(9, numbered(0, 200)...)
	overtakes.of = 3
	require.False(tb, overtakes.page())
	older()
	require.False(tb, overtakes.page(), "the server has the round before it again")
	require.Equal(tb, numbered(0, 10), w.present())

	lost := w.round(10, numbered(0, 300)...)
	require.False(tb, lost.page())
	w.drop()
	w.add(defaults(0))
	for range 2 {
		require.False(tb, lost.page())
	}
	require.Empty(tb, w.present())
}

// Names that a member sets again, since the server has lost them, come during a round over all names, and the round begins again; they do not
// come if a later set is there.
func TestNamesThatComeBackUndoNoRound(t *testing.T) { t.Parallel(); undoesNoRound(t) }

func undoesNoRound(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 0)
	m := w.add(defaults(0))
	w.sync(1, "a", "b", "c")
	w.runs(3*second, second)
	set := m.known[:16]
	comeBack := func(name string) {
		tb.Helper()
		reply := w.call(proto.ShardsSyncScript, fmt.Sprintf("%041d", 2), set, "", "", fmt.Sprintf("%02d%s", len(name), name), "a", digits(w.clock+second), "PUBLISH", channel)
		require.Equal(tb, int64(1), integer(reply[0]))
	}
	comeBack("d")
	require.Equal(tb, []string{"a", "b", "c", "d"}, w.present())
	round := w.round(3, numbered(100, 200)...)
	require.False(tb, round.page())
	comeBack("e")
	require.Contains(tb, w.present(), "e")
	require.False(tb, round.page(), "it begins again")
	w.sync(4, numbered(100, 200)...)
	require.Equal(tb, numbered(100, 200), w.present())
	comeBack("f")
	require.Equal(tb, numbered(100, 200), w.present())
	w.runs(3*second, second)
	set = m.known[:16]
	round = w.round(5, numbered(100, 200)...)
	round.digest = "another one"
	require.False(tb, round.page())
	require.True(tb, m.release("name 200", "x", 0), "a name that leaves by itself")
	comeBack("g")
	require.False(tb, round.page(), "it begins again")
	require.Contains(tb, w.present(), "g")
	comeBack("name 200")
	require.NotContains(tb, w.present(), "name 200", "it was not lost")
}

// A set is later than the one that members remember, also if the server's clock was set back and then the group was lost.
func TestALaterSetIsLater(t *testing.T) {
	t.Parallel()
	w := newWorld(newGroup(t), 0)
	m := w.add(defaults(0))
	w.sync(1, "a", "b", "c")
	w.runs(3*second, second)
	w.passes(3600 * second)
	w.runs(3*second, second)
	w.sync(2, "a") // no shard is granted after it
	w.runs(3*second, second)
	known := m.known
	require.NotEmpty(t, known)
	w.clock -= 7200 * second
	w.runs(3*second, second)
	w.drop()
	m.lose()
	again := defaults(0)
	again.old, again.known = m.number+w.tokens["a"], known
	m = w.add(again)
	w.runs(3*second, second)
	w.sync(3, "a", "d")
	m.polls()
	require.Greater(t, m.known[:16], known[:16])
}

// No two memberships have one number, whichever member makes a lost group anew, and however often: by a number alone a member polls.
func TestNoTwoMembershipsHaveOneNumber(t *testing.T) {
	t.Parallel()
	for _, step := range []int64{0, -second, -7200 * second} {
		w := newWorld(newGroup(t), 4)
		first := w.add(defaults(4))
		w.runs(5*second, second)
		again := defaults(4)
		again.old, again.known = first.number+w.tokens["0"], first.known
		w.clock += step
		given := map[string]bool{first.number: true}
		for range 20 {
			w.drop()
			for range 3 { // members that have seen the same: those of one poll, or one that comes back
				reply := w.join(again)
				number := textOf(reply[1])
				require.NotContains(t, given, number, "the clock was set by %d s", step/second)
				given[number] = true
				again.old = number + again.old[len(number):]
			}
			w.passes(millisecond)
		}
	}
}

func TestNamesComeAndGoAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(newGroup(t), 0)
	for range 2 {
		w.add(defaults(0))
	}
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("name %03d: of %d", i, i)
	}
	require.Equal(t, 7, w.sync(1, many...))
	w.audit()
	require.Equal(t, 1, w.sync(2, many...))
	w.count = 300
	w.runs(40*second, second)
	w.requireEven()
	w.moves = 0
	w.sync(3, append([]string{"a", "b"}, many[10:]...)...)
	require.Equal(t, 1, w.sync(4, append([]string{"a", "b"}, many[10:]...)...))
	w.count = 292
	w.runs(5*second, second)
	w.requireEven()
	require.LessOrEqual(t, w.moves, 5)
	for _, m := range w.members {
		require.NotContains(t, m.owns, many[0])
	}
	w.runs(70*second, second)
	require.NotContains(t, w.rows(), many[0])
	w.sync(5, append([]string{"a", "b"}, many...)...)
	w.count = 302
	w.runs(5*second, second)
	w.requireEven()
}

// Members of a new release have other names: from the last member of the old one on, no shard is granted before the names have come,
// and all are granted if they do not come for 5 s.
func TestNoShardIsGrantedBeforeTheNamesOfItsSet(t *testing.T) { t.Parallel(); awaitsNames(t) }

func awaitsNames(tb testing.TB) {
	tb.Helper()
	named := defaults(0)
	named.requested = "old"
	for what, ends := range map[string]func(m *member){
		"leaves": (*member).goes,
		"dies":   (*member).kill,
		"is ended": func(m *member) {
			m.call(proto.ShardsEndScript, m.number, "PUBLISH", channel)
			m.kill()
		},
	} {
		for _, isFirst := range []bool{true, false} {
			for _, comes := range []bool{true, false} {
				w := newWorld(newGroup(tb), 0)
				old := w.add(named)
				w.runs(3*second, second)
				w.sync(1, "a", "b", "c")
				w.runs(3*second, second)
				require.Len(tb, old.owns, 3)
				settings := named
				settings.requested = "new"
				if isFirst {
					ends(old)
				}
				next := w.add(settings)
				for n := 0; !next.wanted; n++ {
					next.polls()
					require.Less(tb, n, 20)
					if n == 0 && !isFirst {
						require.Empty(tb, next.owns, "moves wait for a while")
						ends(old)
					}
					w.passes(second)
				}
				next.polls()
				require.Empty(tb, next.owns, what)
				w.count = 3
				if comes {
					w.sync(2, "b", "c", "d")
					next.polls()
					require.NotEmpty(tb, next.owns["d"], what)
					require.Empty(tb, next.owns["a"], what)
				} else {
					w.runs(6*second, second)
				}
				if what == "is ended" {
					w.runs(lease, second)
				}
				require.Len(tb, next.owns, 3, what)
				w.audit()
				w.drop()
			}
		}
	}
}

func TestAFinishedNameLeavesTheSet(t *testing.T) { t.Parallel(); removesFinished(t) }

func removesFinished(tb testing.TB) {
	tb.Helper()
	w := newWorld(newGroup(tb), 0)
	m := w.add(defaults(0))
	w.sync(1, "a", "b", "c")
	w.runs(3*second, second)
	require.True(tb, m.release("b", "x", 0))
	w.count = 2
	w.runs(3*second, second)
	w.requireEven()
	require.Equal(tb, "g", w.rows()["b"].state)
	require.Equal(tb, 1, w.sync(2, "a", "c"))
	w.sync(3, "a", "b", "c")
	w.count = 3
	w.runs(3*second, second)
	w.requireEven()
}

// A shard that is moved by hand stays where it is, although another one moves back for it.
func TestAMoveByHandIsNotUndone(t *testing.T) { t.Parallel(); keepsAMoveByHand(t) }

func keepsAMoveByHand(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 8, 2)
	from, to := w.members[0], w.members[1]
	var shard string
	for shard = range from.owns {
		break
	}
	require.Equal(tb, int64(1), w.call(proto.ShardsMoveScript, shard, to.number, digits(w.clock), "PUBLISH", channel)[0])
	require.Subset(tb, w.messages, []string{channel + sessionOf(w, from), from.number})
	w.runs(10*second, second)
	require.Contains(tb, to.owns, shard)
	w.requireEven()
	require.Equal(tb, int64(0), w.call(proto.ShardsMoveScript, "9", to.number, digits(w.clock), "PUBLISH", channel)[0])
}

// So does one that was promised to the member before.
func TestAMoveByHandKeepsAPromise(t *testing.T) { t.Parallel(); keepsAPromise(t) }

func keepsAPromise(tb testing.TB) {
	tb.Helper()
	w := evenWorld(tb, 12, 1)
	from, to := w.members[0], w.add(defaults(12))
	for range 4 {
		from.polls()
		to.polls()
		w.passes(second)
	}
	require.Len(tb, from.due, 6)
	moved := ""
	for shard, r := range w.rows() { // the one that would be promised to another member first
		if r.promised == to.number && (moved == "" || r.version < w.rows()[moved].version) {
			moved = shard
		}
	}
	require.Equal(tb, int64(1), w.call(proto.ShardsMoveScript, moved, to.number, digits(w.clock), "PUBLISH", channel)[0])
	w.audit()
	third := w.add(defaults(12))
	for range 4 {
		from.polls()
		to.polls()
		third.polls()
		w.passes(second)
	}
	w.runs(5*second, second)
	w.requireEven()
	require.Len(tb, third.owns, 4)
	require.Contains(tb, to.owns, moved)
}

// sessionOf returns the session of a member.
func sessionOf(w *world, m *member) string {
	fields := strings.Fields(w.hash(1)[m.number])
	return fields[len(fields)-1][:22]
}
