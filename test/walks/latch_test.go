// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"
	"testing"

	"github.com/signalbox-go/signalbox/scripts"
)

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
	return w.request("start", nil, read, scripts.CountdownStart, w.key(), nonce, fmt.Sprintf("%08d", total), fmt.Sprintf("%010d", kept), digits(notAfter), "")
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
	return w.request("count", nil, read, scripts.CountdownCount, w.key(), stamp, id, "PUBLISH", w.name+"ended")
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
	return w.request("reset", nil, read, scripts.CountdownReset, w.key(), nonce, "PUBLISH", w.name+"ended")
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
	return w.request(polls, nil, read, scripts.CountdownRead, w.key())
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
