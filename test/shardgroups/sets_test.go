// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func (w *world) resize(count int) []any {
	w.Helper()
	return w.call(scripts.ShardsResize, count, digits(w.clock+second), "PUBLISH", channel)
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

// sync makes the names of a group these, and returns how many calls that took.
func (w *world) sync(id int, names ...string) (calls int) {
	w.Helper()
	slices.Sort(names)
	digest, after := fmt.Sprintf("%d of %s", len(names), strings.Join(names[:min(len(names), 3)], ",")), ""
	for {
		page := names[:min(len(names), 128)]
		var text strings.Builder
		for _, name := range page {
			fmt.Fprintf(&text, "%02d%s", len(name), name)
		}
		last := 0
		if len(page) == len(names) {
			last = 1
		}
		reply := w.call(scripts.ShardsSync, fmt.Sprintf("%041d", id), digest, after, text.String(), last, digits(w.clock+second), "PUBLISH", channel)
		calls++
		require.Less(w, calls, 100)
		switch {
		case integer(reply[0]) == 2:
		case integer(reply[3]) == 1:
			return calls
		default:
			require.Zero(w, last, "%v", reply)
			after, names = page[len(page)-1], names[len(page):]
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
			m.call(scripts.ShardsEnd, m.number, "PUBLISH", channel)
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
	require.Equal(tb, int64(1), w.call(scripts.ShardsMove, shard, to.number, digits(w.clock), "PUBLISH", channel)[0])
	require.Subset(tb, w.messages, []string{channel + sessionOf(w, from), from.number})
	w.runs(10*second, second)
	require.Contains(tb, to.owns, shard)
	w.requireEven()
	require.Equal(tb, int64(0), w.call(scripts.ShardsMove, "9", to.number, digits(w.clock), "PUBLISH", channel)[0])
}

// sessionOf returns the session of a member.
func sessionOf(w *world, m *member) string {
	fields := strings.Fields(w.hash(1)[m.number])
	return fields[len(fields)-1][:22]
}
