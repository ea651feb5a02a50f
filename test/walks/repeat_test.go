// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// entries returns where each hold stands: by key and hold.
func (w *walk) entries() map[string]bool {
	w.Helper()
	all := make(map[string]bool)
	for i, at := range w.expiries(w.keys()) {
		key := w.keys()[i]
		if at == -2 {
			continue
		}
		end := strings.TrimPrefix(key, w.name)
		switch kind := fmt.Sprint(w.do("TYPE", key)); kind {
		case "string":
			if value := fmt.Sprint(w.do("GET", key)); len(value) >= 63 && value[20] != '-' {
				all[end+" "+value[20:61]] = true
			}
		case "zset":
			members, _ := w.do("ZRANGE", key, 0, -1).([]any)
			for _, member := range members {
				if name := fmt.Sprint(member); len(name) >= 41 {
					all[end+" "+name[:41]] = true
				}
			}
		}
	}
	return all
}

// before has the states in which a verb is used: those of the attempt, and of another attempt of another
// session.
var before = map[string]func(w *walk, a, other *attempt){
	"Free": func(*walk, *attempt, *attempt) {},
	"Has": func(w *walk, a, _ *attempt) {
		w.uses(tries, a)
	},
	"Waits": func(w *walk, a, other *attempt) {
		w.uses(tries, other)
		w.uses(enters, a)
	},
	"HasBeforeAnother": func(w *walk, a, other *attempt) {
		w.uses(tries, a)
		w.uses(enters, other)
	},
}

// uses sends a verb now, if it makes sense.
func (w *walk) uses(v verb, a *attempt) *request {
	w.Helper()
	w.passes(1000)
	r := a.kind.requestOf(v, a)
	if r != nil {
		w.expects(r)
		w.send(r)
	}
	return r
}

// full returns an attempt that excludes all others.
func (w *walk) full(k lockKind, n int) *attempt {
	return w.attempt(k, sessionOf(n), func(session string) *attempt {
		if p, isSemaphore := k.(*permitKind); isSemaphore {
			return p.weighs(session, capacity)
		}
		return k.newcomer(session)
	})
}

// repeats takes a verb in a state, lets something happen, and sends the same request again.
func repeats(t *testing.T, s scene, v verb, state string, meanwhile func(w *walk)) (w *walk, first, then map[string]bool, who string) {
	t.Helper()
	w = newWalk(t, s, 0)
	w.ends = true
	w.note("%s: %s", state, v)
	w.uses(tries, w.full(w.kinds[0], 3)) // a server of a quorum has its data only since then
	w.passes(2 * longestLease)
	a, other := w.full(w.kinds[0], 0), w.full(w.kinds[0], 1)
	before[state](w, a, other)
	r := w.uses(v, a)
	if r == nil {
		return nil, nil, nil, ""
	}
	w.check()
	meanwhile(w)
	w.check()
	first = w.entries()
	w.passes(1000)
	w.send(r)
	w.check()
	return w, first, w.entries(), a.hold[:41]
}

// each runs a check for each verb and state of each native kind.
func eachRepeat(t *testing.T, check func(t *testing.T, s scene, v verb, state string)) {
	t.Helper()
	for _, s := range scenes()[:4] {
		w := newWalk(t, s, 0)
		verbs := slices.Compact(slices.Sorted(slices.Values(w.kinds[0].verbs())))
		for _, v := range verbs {
			t.Run(s.name+"/"+v, func(t *testing.T) {
				t.Parallel()
				for _, state := range slices.Sorted(maps.Keys(before)) {
					check(t, s, v, state)
				}
			})
		}
	}
}

// P5: a request that is sent twice changes no more than one.
func TestRepeatedRequestChangesNothing(t *testing.T) {
	t.Parallel()
	eachRepeat(t, func(t *testing.T, s scene, v verb, state string) {
		t.Helper()
		w, first, then, _ := repeats(t, s, v, state, func(*walk) {})
		if w != nil && !maps.Equal(first, then) {
			w.fail("the second request changed %v to %v", first, then)
		}
	})
}

// P5, P9: what the first request wrote is lost in part. The second fails for none of that, and
// writes what can be read.
func TestRepeatedRequestOutlivesALostKey(t *testing.T) {
	t.Parallel()
	eachRepeat(t, func(t *testing.T, s scene, v verb, state string) {
		t.Helper()
		for i := range newWalk(t, s, 0).keys() {
			w, _, then, who := repeats(t, s, v, state, func(w *walk) {
				w.note("%s is lost", w.keys()[i])
				w.do("DEL", w.keys()[i])
				w.disturbed()
				w.gap = true
			})
			if w == nil {
				continue
			}
			places := 0
			for entry := range then {
				if strings.HasSuffix(entry, who) {
					places++
				}
			}
			if places > 1 {
				w.bothAreLeft(who, then)
			}
		}
	})
}

// bothAreLeft checks an attempt that has both a hold and a ticket. Only an exclusive lock may have that: a
// free lock without a mark is acquired without a check of the queue, which still has the ticket. The leave
// ends both.
func (w *walk) bothAreLeft(who string, entries map[string]bool) {
	w.Helper()
	k, isExclusive := w.kinds[0].(*exclusiveKind)
	if !isExclusive {
		w.fail("%s has both a hold and a ticket: %v", who, entries)
	}
	w.send(k.requestOf(leaves, w.byHold[who]))
	for entry := range w.entries() {
		if strings.HasSuffix(entry, who) {
			w.fail("%s has left, and is still there: %v", who, entry)
		}
	}
}

// P5: another session has the lock by the time of the second request, which takes nothing from it.
func TestRepeatedRequestTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	eachRepeat(t, func(t *testing.T, s scene, v verb, state string) {
		t.Helper()
		var third *attempt
		w, first, then, who := repeats(t, s, v, state, func(w *walk) {
			for _, a := range slices.Clone(w.attempts) {
				w.uses(leaves, a)
				a.ended = true
				w.uses(withdraws, a)
			}
			third = w.full(w.kinds[0], 2)
			w.uses(tries, third)
		})
		if w == nil {
			return
		}
		for entry := range then {
			if strings.HasSuffix(entry, who) {
				delete(then, entry) // a ticket of its own
			}
		}
		if third.issued > 0 && !maps.Equal(first, then) {
			w.fail("the second request changed %v to %v", first, then)
		}
	})
}
