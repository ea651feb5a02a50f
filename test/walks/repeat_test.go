// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-go/signalbox/internal/proto"
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

// latchWalk is a random use of a latch: what its rounds are is known at any time, since all is in
// one key.
type latchWalk struct {
	*walk

	rounds []*round // the rounds since the key was lost, the newest last
	starts int
}

// round is what ought to be known of a round.
type round struct {
	stamp, nonce string
	total        int
	ids          map[string]bool
	state        string // c counts, o open, x reset
}

// kept is for how long a latch is kept, in milliseconds, and remembered how many rounds are.
const kept, remembered = 600_000, 32

func (w *latchWalk) key() []string { return []string{w.name + "latch"} }

// newest returns the newest round, or nil.
func (w *latchWalk) newest() *round {
	if len(w.rounds) == 0 {
		return nil
	}
	return w.rounds[len(w.rounds)-1]
}

// start returns the request that starts a round.
func (w *latchWalk) start() *request {
	w.starts++
	nonce, total, notAfter := fmt.Sprintf("nonce%06d", w.starts), 1+w.IntN(4), w.clock+window
	read := func(_ *request, reply any) outcome {
		n, list := code(reply)
		begun, stamp := w.begun(nonce), ""
		switch {
		case w.clock > notAfter:
			w.expect("a late start", n, -1)
			return outcome{}
		case begun != nil:
			stamp = begun.stamp
		case w.newest() != nil && w.newest().state == "c":
			w.expect("a start while a round runs", n, 0)
			return outcome{}
		default:
			stamp = digits(w.clock)
			if last := w.newest(); last != nil && last.stamp >= stamp {
				stamp = text(list, 1) // later by what the nonce says
				w.expect("a stamp that rises by less than a second", stamp > last.stamp && stampOf(stamp) < stampOf(last.stamp)+second, true)
			}
			w.rounds = append(w.rounds, &round{stamp, nonce, total, make(map[string]bool), "c"})
		}
		w.expect("a start", n, 1)
		w.expect("the round's stamp", text(list, 1), stamp)
		return outcome{}
	}
	return w.request("start", nil, read, proto.CountdownStartScript, w.key(), nonce, fmt.Sprintf("%08d", total), fmt.Sprintf("%010d", kept), digits(notAfter), "")
}

// begun returns the round of a nonce, if it is the newest or among those that are remembered.
func (w *latchWalk) begun(nonce string) *round {
	for _, r := range w.rounds[max(len(w.rounds)-1-remembered, 0):] {
		if r.nonce == nonce {
			return r
		}
	}
	return nil
}

// count returns the request that counts an id for a round, mostly the newest.
func (w *latchWalk) count() *request {
	stamp, id := digits(w.clock), fmt.Sprintf("id%d", w.IntN(6))
	if len(w.rounds) > 0 {
		stamp = w.rounds[max(len(w.rounds)-1-w.IntN(2), 0)].stamp
	}
	read := func(_ *request, reply any) outcome {
		n, list := code(reply)
		newest := w.newest()
		if newest == nil || newest.stamp != stamp || newest.state == "x" {
			w.expect("a count for another round", n, 0)
			return outcome{}
		}
		newest.ids[id] = true
		left := max(newest.total-len(newest.ids), 0)
		if left == 0 {
			newest.state = "o"
		}
		w.expect("a count", n, 1)
		w.expect("how many are missing", list[1], int64(left))
		return outcome{}
	}
	return w.request("count", nil, read, proto.CountdownCountScript, w.key(), stamp, id, "PUBLISH", w.name+"ended")
}

// reset returns the request that ends a round, mostly the newest.
func (w *latchWalk) reset() *request {
	nonce := fmt.Sprintf("nonce%06d", max(w.starts-w.IntN(2), 0))
	read := func(_ *request, reply any) outcome {
		n, _ := code(reply)
		if newest := w.newest(); newest != nil && newest.nonce == nonce && newest.state == "c" {
			newest.state = "x"
			w.expect("a reset", n, 1)
		} else {
			w.expect("a reset of another round", n, 0)
		}
		return outcome{}
	}
	return w.request("reset", nil, read, proto.CountdownResetScript, w.key(), nonce, "PUBLISH", w.name+"ended")
}

// read returns the request for the state of the latch.
func (w *latchWalk) read() *request {
	read := func(_ *request, reply any) outcome {
		n, list := code(reply)
		newest := w.newest()
		if newest == nil {
			w.expect("a poll of no latch", n, 0)
			return outcome{}
		}
		w.expect("a poll", n, 1)
		w.expect("the round", text(list, 1)[3:31], newest.stamp+newest.state+newest.nonce)
		left := 0
		if newest.state == "c" {
			left = newest.total - len(newest.ids)
		}
		w.expect("how many are missing", list[3], int64(left))
		return outcome{}
	}
	return w.request(polls, nil, read, proto.CountdownReadScript, w.key())
}

func (w *latchWalk) expect(what string, got, want any) {
	w.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.fail("%s: %v, and not %v", what, got, want)
	}
}

// runs sends a request. A key that ended takes all rounds with it.
func (w *latchWalk) runs(r *request) {
	w.Helper()
	w.note("  %v %v", r, r.args)
	a, there := w.eval(r, w.key()[0])
	if there == -2 {
		w.rounds = nil
	}
	if a.err != "" {
		w.fail("%s failed: %s", r.script.Name, a.err)
	}
	r.read(r, a.reply)
}

func (w *latchWalk) step() {
	w.Helper()
	w.passes(1 + w.Int64N(500))
	switch n := w.IntN(20); {
	case n < 12:
		made := []func() *request{w.start, w.count, w.count, w.count, w.reset, w.read}
		r := made[w.IntN(len(made))]()
		w.sent = append(w.sent, r)
		if w.IntN(6) > 0 {
			w.runs(r)
		}
	case n < 16 && len(w.sent) > 0: // again, or late
		w.runs(w.sent[max(len(w.sent)-1-w.IntN(20), 0)])
	case n == 16:
		w.passes([]int64{second, 4 * second, 40 * second, kept * 1000}[w.IntN(4)])
	case n == 17 && w.seed&loses != 0:
		w.note("the latch is lost")
		w.do("DEL", w.key()[0])
	case n == 18 && w.seed&jumps != 0:
		w.jump()
	}
	at := w.expiries(w.key())[0]
	if at == -1 || at > w.high/1000+kept {
		w.fail("the latch has no expiry, or a late one: %d", at)
	}
	w.runs(w.read())
}

// P5: rounds are what they ought to be, whatever is lost, late or repeated.
func TestLatchWalksCountEachIDOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			none := scene{name: "Latch", kinds: func(*walk) []lockKind { return nil }}
			w := &latchWalk{walk: newWalk(t, none, seed)}
			for range 2 * steps() {
				w.step()
			}
		})
	}
}
