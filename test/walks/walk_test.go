// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// walk is a random use of one name by several sessions and kinds of locks.
type walk struct {
	*stage
	*rand.Rand

	scene    scene
	seed     uint64
	kinds    []lockKind
	sessions []string
	attempts []*attempt
	byHold   map[string]*attempt

	sent         []*request // the requests that were sent, for repetitions
	late         []*request // the requests that are on their way
	unsubscribed []message  // the messages that are on their way to sessions

	count        int              // holds so far
	hasHeartbeat int              // heartbeats so far
	heartbeatAt  map[string]int64 // the true time of each
	polledAt     map[string]int64 // when the last poll, or call that queues, of a session was executed, by the clock
	sizes        []sized          // the sizes that a semaphore had
	history      []string
	ends         bool // the walk ends: sessions leave nothing to chance

	calm  int64 // the true time of the last disturbance: a lost key, or a clock that was set
	top   int64 // the greatest token so far
	topAt int64 // when it was given, by the clock
	back  bool  // the clock was set back at some time
	gap   bool  // the key that stores top was lost since
}

// The disturbances of a walk, by its seed: every fourth walk has no disturbances, and checks most.
const (
	loses = 1 << iota // keys
	jumps             // of the clock
)

func newWalk(tb testing.TB, s scene, seed uint64) *walk {
	tb.Helper()
	w := &walk{
		stage: newStage(tb), Rand: rand.New(rand.NewPCG(seed, 3)), scene: s, seed: seed,
		byHold: make(map[string]*attempt), heartbeatAt: make(map[string]int64), polledAt: make(map[string]int64), sizes: []sized{{0, capacity}},
	}
	for n := range 4 {
		w.sessions = append(w.sessions, sessionOf(n))
	}
	w.kinds = s.kinds(w)
	return w
}

// fail ends the walk, with its last steps.
func (w *walk) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\nSIGNALBOX_SOAK=1ns SIGNALBOX_WALK=%s/%d go test ./walks -run TestSoakEvery\nclock %s, after\n%s", fmt.Sprintf(format, args...), w.scene.name, w.seed, digits(w.clock),
		strings.Join(w.history[max(len(w.history)-60, 0):], "\n"))
}

func (w *walk) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%d ", w.clock-noon)+fmt.Sprintf(format, args...))
}

// step is one step.
func (w *walk) step() {
	w.Helper()
	w.passes(1 + w.Int64N(500))
	switch n := w.IntN(20); {
	case n < 10:
		w.operate()
	case n == 10 && len(w.sent) > 0:
		r := w.sent[max(len(w.sent)-1-w.IntN(30), 0)]
		w.note("again:")
		w.send(r)
	case n <= 12 && len(w.late) > 0:
		i := w.IntN(len(w.late))
		r := w.late[i]
		w.late = slices.Delete(w.late, i, i+1)
		w.note("late:")
		w.send(r)
	case n <= 14:
		w.listen()
	case n <= 17:
		us := []int64{w.Int64N(2 * second), w.Int64N(second / 10), second, 4 * second, 15 * second, 40 * second}
		w.passes(us[min(w.IntN(9), 5)%6])
		w.note("time passes")
	case n == 18 && w.seed&loses != 0 && w.IntN(2) == 0:
		w.lose()
	case n == 19 && w.seed&jumps != 0 && w.IntN(2) == 0:
		w.jump()
	}
	w.check()
}

// operate lets a session do something: at once, late, or twice.
func (w *walk) operate() {
	w.Helper()
	kind := w.kinds[w.IntN(len(w.kinds))]
	verbs := kind.verbs()
	v := verbs[w.IntN(len(verbs))]
	a := w.pick(kind, v)
	if a == nil {
		return
	}
	r := kind.requestOf(v, a)
	if r == nil {
		return
	}
	w.expects(r)
	w.sent = append(w.sent, r)
	switch w.IntN(8) {
	case 0:
		w.note("sent, and late: %v", r)
		w.late = append(w.late, r)
	case 1:
		w.send(r)
		w.passes(1 + w.Int64N(second))
		w.note("twice:")
		w.send(r)
	default:
		w.send(r)
	}
}

// pick returns a late attempt of the kind, or a fresh one.
func (w *walk) pick(kind lockKind, v verb) *attempt {
	var recent []*attempt
	for i := len(w.attempts) - 1; i >= 0 && len(recent) < 8; i-- {
		if w.attempts[i].kind == kind {
			recent = append(recent, w.attempts[i])
		}
	}
	acquires := v == tries || v == enters
	if acquires && (len(recent) == 0 || w.IntN(3) > 0) {
		return w.attempt(kind, w.sessions[w.IntN(len(w.sessions))], kind.fresh)
	}
	if len(recent) == 0 {
		return nil
	}
	return recent[w.IntN(len(recent))]
}

// attempt returns a new one.
func (w *walk) attempt(kind lockKind, session string, made func(session string) *attempt) *attempt {
	a := made(session)
	a.kind, a.session, a.lease = kind, session, leases[w.IntN(len(leases))]
	w.add(a)
	return a
}

// made counts the holds that were named.
func (w *walk) made() int {
	w.count++
	return w.count
}

func (w *walk) add(a *attempt) {
	w.attempts = append(w.attempts, a)
	w.byHold[a.hold] = a
	if len(a.hold) > 41 {
		w.byHold[a.hold[:41]] = a // a message has no number of permits
	}
}

// expects is what a session believes from the moment on at which it sends something.
func (w *walk) expects(r *request) {
	switch r.verb {
	case leaves, drops, withdraws, releasesMany, frees:
		r.who.ended = true
	case requeues:
		r.old.ended = true
	case yields:
		r.who.until = 0
	case downgrades:
		r.who.side = reads
	}
}

// send runs a request, and lets its session know the reply.
func (w *walk) send(r *request) outcome {
	w.Helper()
	w.note("  %v", r)
	if r.verb == yields {
		r.who.until = 0
	}
	a, there := w.eval(r, w.kinds[0].keys()[0])
	switch {
	case r.verb == enters, r.verb == requeues:
		w.polledAt[r.who.session] = w.clock
	case r.verb == polls && there != -2: // a poll keeps a mark, and makes none: tickets without one are no tickets any more
		w.polledAt[fmt.Sprint(r.args[0])] = w.clock
	}
	w.misses(there)
	w.history[len(w.history)-1] += fmt.Sprintf(" -> %v %s %v", a.reply, a.err, a.said)
	if a.err != "" && !w.mayRefuse(r, a) {
		w.fail("%s failed: %s", r.script.Name, a.err)
	}
	if a.err != "" {
		return outcome{}
	}
	w.recalls(r, &a)
	o := r.read(r, a.reply)
	w.understood(r, o, a.reply)
	w.believe(r, o, a.said)
	return o
}

// believe lets sessions know what a request led to, and checks it.
func (w *walk) believe(r *request, o outcome, said []message) {
	w.Helper()
	w.honest(r, o.kind)
	issued := slices.Clone(o.has)
	for _, m := range said {
		if session, isGrant := w.grantee(m); isGrant {
			issued = append(issued, w.grantsIn(session, m.text)...)
			w.unsubscribed = append(w.unsubscribed, m)
		}
	}
	w.issue(r, issued)
	for _, g := range o.has {
		w.holds(g)
	}
	if o.lost {
		r.who.ended = true
	}
	if o.taken && r.verb == forces {
		r.who.ended = true
	}
}

// grantee returns the session that a message is for, if it is about grants.
func (w *walk) grantee(m message) (string, bool) {
	return strings.CutPrefix(m.channel, w.name+"grants:")
}

// listen delivers a message, or loses it.
func (w *walk) listen() {
	w.Helper()
	if len(w.unsubscribed) == 0 {
		return
	}
	i := w.IntN(len(w.unsubscribed))
	m := w.unsubscribed[i]
	w.unsubscribed = slices.Delete(w.unsubscribed, i, i+1)
	if w.IntN(4) == 0 {
		return
	}
	session, _ := w.grantee(m)
	w.note("hears %v", m)
	for _, g := range w.grantsIn(session, m.text) {
		w.holds(g)
	}
}

// holds lets a session believe that it has the lock, for as long as it may count.
func (w *walk) holds(g grant) {
	w.Helper()
	a := w.byHold[g.hold]
	if a == nil {
		w.fail("a grant without a waiter: %v", g)
	}
	if g.stamp != "" {
		a.stamp = g.stamp
	}
	if until := g.since + g.life; !a.ended && g.since > 0 && until > a.until {
		a.since, a.until = g.since, until
	}
	w.exclude(a)
}

// believed reports whether the session of an attempt may rightly believe that it has the lock:
// nothing that disturbs happened since its lease began.
func (w *walk) believed(a *attempt) bool {
	return !a.ended && a.until > w.now && a.since >= w.calm
}

// exclude checks that a new holder is alone, or among those that it may be with.
func (w *walk) exclude(a *attempt) {
	w.Helper()
	if !w.believed(a) {
		return
	}
	sum, since := 0, w.now
	for _, other := range w.attempts {
		if !w.believed(other) {
			continue
		}
		sum, since = sum+other.weight, min(since, other.since, other.origin)
		if other != a && (other.side == "" || other.side != a.side) {
			w.fail("%s has the lock, and so has %s", a.hold, other.hold)
		}
	}
	if most := w.mostPermits(since); a.side == permit && sum > most {
		w.fail("%d permits are held of %d", sum, most)
	}
}

// disturbed records that what the model knew before no longer counts.
func (w *walk) disturbed() { w.calm = w.now + 1 }

// lose loses a key: it is deleted or evicted, or expires soon.
func (w *walk) lose() {
	w.Helper()
	keys := slices.DeleteFunc(w.keys(), func(key string) bool { return slices.Contains(w.scene.frail, key[len(w.name):]) })
	key := keys[w.IntN(len(keys))]
	if w.IntN(3) == 0 {
		at := w.clock + w.Int64N(2*second)
		w.note("%s expires at %d", key, at-noon)
		w.expires(key, at)
		w.passes(at - w.clock + 1000)
	} else {
		w.note("%s is lost", key)
		w.do("DEL", key)
	}
	w.disturbed()
}

// jump sets the clock.
func (w *walk) jump() {
	us := []int64{w.Int64N(100*second) - 50*second, -50 * second, 50 * second, -second, w.Int64N(2000) - 1000}[w.IntN(5)]
	w.steps(us)
	w.note("the clock is set by %d", us)
	w.back = w.back || us < 0
	w.disturbed()
}

// keys returns the keys of all kinds.
func (w *walk) keys() (all []string) {
	for _, k := range w.kinds {
		for _, key := range k.keys() {
			if !slices.Contains(all, key) {
				all = append(all, key)
			}
		}
	}
	return all
}
