// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// states are groups in each state that differs by what its keys have.
func states() map[string]func(testing.TB) *world {
	even := func(tb testing.TB) *world {
		tb.Helper()
		return evenWorld(tb, 12, 3)
	}
	return map[string]func(testing.TB) *world{
		"New": func(tb testing.TB) *world {
			tb.Helper()
			w := newWorld(newGroup(tb), 12)
			w.add(defaults(12)).polls()
			return w
		},
		"Even": even,
		"Draining": func(tb testing.TB) *world {
			tb.Helper()
			w := even(tb)
			w.add(defaults(12))
			for range 5 {
				for _, m := range w.members {
					m.polls()
				}
				w.passes(second)
			}
			require.NotEmpty(tb, w.members[0].due)
			return w
		},
		"Dead": func(tb testing.TB) *world {
			tb.Helper()
			w := even(tb)
			w.members[0].kill()
			return w
		},
		"Paused": func(tb testing.TB) *world {
			tb.Helper()
			w := even(tb)
			w.members[0].set(1, unlimited, "p")
			w.runs(3*second, second)
			return w
		},
		"Waiting": func(tb testing.TB) *world {
			tb.Helper()
			w := even(tb)
			for _, m := range w.members {
				m.set(1, 3, "l")
			}
			w.runs(3*second, second)
			return w
		},
		"Resizing": func(tb testing.TB) *world {
			tb.Helper()
			w := even(tb)
			w.resize(20)
			w.count = 20
			for _, m := range w.members {
				m.poll() // one that has heard of the count says it again
			}
			return w
		},
	}
}

// comeBack lets members that learnt that they are lost join again, with what they know of the group.
func (w *world) comeBack() {
	w.Helper()
	for _, m := range w.members {
		if m.isLost && !m.isBack {
			m.isBack = true
			s := defaults(12)
			s.weight, s.limit, s.old, s.known = m.weight, m.limit, m.number, m.known
			w.add(s)
		}
	}
}

// older replaces a key by a copy of some time ago, since when a member has joined. Nothing happens if there was no such key.
func (w *world) older(key int, age int64) {
	w.Helper()
	name, _ := w.keys[key].(string)
	kept := strings.Replace(name, "}:", "}:kept:", 1)
	w.server.MustDo(w, "COPY", name, kept)
	w.add(defaults(12)).polls()
	w.runs(age, second)
	w.server.MustDo(w, "COPY", kept, name, "REPLACE")
	w.server.MustDo(w, "DEL", kept)
}

// Any key of a group is lost, or is one of an earlier time, in any state: within two polls the group is mended, or its members know that it
// is lost. Then it is whole again, and even, with the count that it had.
func TestALostKeyIsSeenByTheNextPoll(t *testing.T) {
	t.Parallel()
	for name, state := range states() {
		for key := range 8 {
			for fault, happens := range map[string]func(w *world){
				"lost":              func(w *world) { w.server.MustDo(w, "DEL", w.keys[key]) },
				"of a second ago":   func(w *world) { w.older(key, second) },
				"of 30 seconds ago": func(w *world) { w.older(key, 30*second) },
			} {
				t.Run(fmt.Sprintf("%s/%d/%s", name, key, fault), func(t *testing.T) {
					t.Parallel()
					w := state(t)
					happens(w)
					for range 2 {
						w.passes(second)
						for _, m := range w.alive() {
							m.polls()
						}
					}
					isLost := len(w.hash(0)) == 0
					for _, m := range w.members {
						isLost = isLost || m.isLost
					}
					if isLost {
						for _, m := range w.alive() {
							require.Fail(t, "a member does not know that the group is lost", m.number)
						}
					} else {
						w.audit()
					}
					w.comeBack()
					for _, m := range w.alive() {
						m.set(1, unlimited, "l")
					}
					w.runs(40*second, second)
					w.requireEven()
					w.audit()
				})
			}
		}
	}
}

// ages are all that a group waits for by a time that it has stored: what begins it, and what is true when it is over. Each takes the time
// that it takes without a step of the clock.
func ages() map[string]struct {
	most  int64 // how long it takes
	begin func(testing.TB) *world
	over  func(w *world) bool
} {
	type age = struct {
		most  int64
		begin func(testing.TB) *world
		over  func(w *world) bool
	}
	fresh := func(tb testing.TB) *world {
		tb.Helper()
		w := newWorld(newGroup(tb), 12)
		w.add(defaults(12)).polls()
		w.add(defaults(12)).polls()
		return w
	}
	owned := func(w *world) bool {
		sum := 0
		for _, load := range w.loads() {
			sum += load
		}
		return sum == w.count
	}
	return map[string]age{
		"FirstGrant": {3 * second, fresh, owned},
		"End": {lease + second, func(tb testing.TB) *world {
			tb.Helper()
			w := evenWorld(tb, 12, 3)
			w.members[0].kill()
			return w
		}, owned},
		"Quiet": {calm + second, func(tb testing.TB) *world {
			tb.Helper()
			w := evenWorld(tb, 12, 2)
			w.add(defaults(12)).polls()
			return w
		}, func(w *world) bool { return len(w.members[2].owns) == 4 }},
		"Ban": {31 * second, func(tb testing.TB) *world {
			tb.Helper()
			w := evenWorld(tb, 1, 1)
			w.members[0].release("0", "e", 30*second)
			return w
		}, owned},
		"Poison": {9 * second, func(tb testing.TB) *world {
			tb.Helper()
			w := evenWorld(tb, 1, 1)
			for range 6 {
				w.members[len(w.members)-1].kill()
				m := w.add(defaults(1))
				for w.clock += lease; w.rows()["0"].state == "o" && w.rows()["0"].owner != m.number; w.passes(second) {
					m.polls()
				}
				if w.rows()["0"].state == "w" && w.rows()["0"].losses == "6" {
					break
				}
				for ; w.rows()["0"].owner != m.number; w.passes(second) {
					m.polls()
				}
			}
			return w
		}, owned},
		"DrainLimit": {11 * second, func(tb testing.TB) *world {
			tb.Helper()
			w := newWorld(newGroup(tb), 2)
			s := defaults(2)
			s.drain = 10 * second
			w.add(s)
			w.runs(5*second, second)
			w.add(s)
			for len(w.members[0].due) == 0 {
				for _, m := range w.members {
					m.polls()
				}
				w.passes(second)
			}
			w.members[0].hangs = true
			clear(w.members[0].owns) // after the limit it owns it beside another member
			return w
		}, func(w *world) bool { return w.rows()[w.hung()].owner == w.members[1].number }},
	}
}

// hung returns the shard that the first member does not release.
func (w *world) hung() string {
	for shard := range w.members[0].due {
		return shard
	}
	return ""
}

// A step of the server's clock costs one age at the most of all that a group waits for: forwards it may be over at once, and backwards it
// takes twice as long at the most, whatever the steps were. No living member loses what it owns.
func TestAStepOfTheClockCostsOneAge(t *testing.T) {
	t.Parallel()
	const hours, year int64 = 2 * 60 * 60, 365 * 24 * 60 * 60
	for name, age := range ages() {
		for _, steps := range [][]int64{
			{},
			{1},
			{-1},
			{100},
			{-100},
			{hours},
			{-hours},
			{year},
			{-year},
			{hours, -hours},
			{-hours, hours},
			{100, -hours},
			{-hours, 100},
			{4, -2},
			{-2, 4},
			{-10, -10},
		} {
			t.Run(fmt.Sprint(name, steps), func(t *testing.T) {
				t.Parallel()
				w := age.begin(t)
				began, left := w.time, steps
				for !age.over(w) {
					if len(left) > 0 { // another one each half second
						w.clock, left = w.clock+left[0]*second, left[1:]
					}
					for _, m := range w.alive() {
						m.polls()
						require.False(t, m.isLost, "%s lost its lease", m.number)
						if !m.hangs {
							m.drains()
						}
					}
					w.passes(second / 2)
					require.Less(t, w.time-began, 2*age.most+4*second, "%v", w.hash(0))
				}
				t.Logf("%d ms", (w.time-began)/millisecond)
			})
		}
	}
}
