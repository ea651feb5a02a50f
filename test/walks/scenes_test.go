// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// scene is what kinds of locks a walk meets on its name.
type scene struct {
	name    string
	kinds   func(w *walk) []lockKind
	endless []string // ends of the keys that may live for ever
	reads   bool
	counts  bool // tokens are counted and do not come from the clock
	// frail are the suffixes of keys without which the layout cannot say what is held: walks do not
	// lose them.
	frail []string
	// patience is for how much longer than usual the name may stay in use after a crash.
	patience int64
}

func scenes() []scene {
	return []scene{
		{name: "Exclusive", reads: true, kinds: func(w *walk) []lockKind { return []lockKind{&exclusiveKind{walk: w}} }},
		{name: "Quorum", reads: true, patience: longestLease, kinds: func(w *walk) []lockKind { return []lockKind{&quorumKind{walk: w}} }},
		{name: "ReadWrite", reads: true, kinds: func(w *walk) []lockKind { return []lockKind{&rwKind{walk: w}} }},
		{name: "Semaphore", reads: true, kinds: func(w *walk) []lockKind { return []lockKind{&permitKind{walk: w}} }},
		{name: "All", reads: true, patience: longestLease, kinds: func(w *walk) []lockKind {
			return []lockKind{&exclusiveKind{walk: w}, &rwKind{walk: w}, &quorumKind{walk: w}}
		}},
		{name: "Redisson", reads: true, kinds: func(w *walk) []lockKind {
			return []lockKind{&sharedKind{javaKind: javaKind{walk: w}}}
		}},
		{name: "SetNX", reads: true, kinds: func(w *walk) []lockKind { return []lockKind{&valueKind{javaKind{walk: w}}} }},
		{name: "RedissonFenced", reads: true, counts: true, endless: []string{"token"}, kinds: func(w *walk) []lockKind {
			return []lockKind{&sharedKind{javaKind: javaKind{walk: w}, fenced: true}}
		}},
		{
			name: "RedissonFair", reads: true, endless: []string{"queue", "deadlines"}, patience: redissonPatience,
			kinds: func(w *walk) []lockKind { return []lockKind{&javaFairKind{javaKind{walk: w}}} },
		},
		{name: "RedissonReadWrite", reads: true, kinds: func(w *walk) []lockKind {
			return []lockKind{&javaRWKind{javaKind{walk: w}}}
		}},
		{
			// Java counts the free permits down. If the times of held permits are lost, no client
			// counts them up again.
			name: "RedissonSemaphore", reads: true, endless: []string{"permits", "timeouts"}, frail: []string{"timeouts"},
			kinds: func(w *walk) []lockKind { return []lockKind{&javaPermitKind{javaKind{walk: w}}} },
		},
		{
			name: "RedissonAll", reads: true, endless: []string{"queue", "deadlines"}, patience: redissonPatience,
			kinds: func(w *walk) []lockKind {
				return []lockKind{&sharedKind{javaKind: javaKind{walk: w}}, &javaFairKind{javaKind{walk: w}}, &javaRWKind{javaKind{walk: w}}}
			},
		},
	}
}

// redissonPatience is how long the tickets of Redisson's dead waiters may keep others out: each is valid
// for 300 s.
const redissonPatience = 40 * 300 * second

// steps is how many steps a walk has before its end.
func steps() int { return redistest.Rounds(60, 150) }

// run takes one walk.
func (s scene) run(tb testing.TB, seed uint64) {
	tb.Helper()
	s.walk(tb, seed)
}

// walk takes one walk, and returns it.
func (s scene) walk(tb testing.TB, seed uint64) *walk {
	tb.Helper()
	w := newWalk(tb, s, seed)
	for range steps() {
		w.step()
	}
	w.end()
	tally.Add("seeds", "walks", 1)
	tally.Add("virtual", "steps of walks", steps())
	return w
}

// trace returns a hash of all requests, replies and messages of a walk.
func (w *walk) trace() string {
	sum := sha256.Sum256([]byte(strings.ReplaceAll(strings.Join(w.history, "\n"), w.name, "")))
	return hex.EncodeToString(sum[:])
}

// The same seed is the same walk, to the last byte of each request and reply.
func TestASeedIsAWalk(t *testing.T) {
	t.Parallel()
	seed := locktest.Seed(t) | loses | jumps
	for _, s := range scenes()[:5] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			first := s.walk(t, seed).trace()
			require.NotEqual(t, first, s.walk(t, seed+1<<20).trace(), "another seed is the same walk")
			for range redistest.Rounds(20, 100) - 1 {
				require.Equal(t, first, s.walk(t, seed).trace(), "SIGNALBOX_SEED=%d go test ./walks -run %s", seed, t.Name())
			}
			tally.Add("replays", s.name, redistest.Rounds(20, 100))
		})
	}
}

// P1, P2, P4 and P9, whatever is lost, late or repeated: each value that a script wrote can be read
// by every script that may meet it, and the name becomes usable again.
func TestEveryWalkEndsWithAUsableName(t *testing.T) {
	t.Parallel()
	walks := uint64(redistest.Rounds(4, 8)) // one or two for each combination of disturbances
	for _, s := range scenes() {
		for seed := range walks {
			t.Run(fmt.Sprintf("%s/%d", s.name, seed), func(t *testing.T) {
				t.Parallel()
				s.run(t, seed)
			})
		}
	}
}

// The long form: walks from the seed of SIGNALBOX_SEED on, or of one that is drawn. A failure names its own. With
// SIGNALBOX_WALK=Exclusive/123 only that walk is taken.
func TestSoakEveryWalkEndsWithAUsableName(t *testing.T) {
	t.Parallel()
	length, err := time.ParseDuration(os.Getenv("SIGNALBOX_SOAK"))
	only := os.Getenv("SIGNALBOX_WALK")
	if err != nil && only == "" {
		t.Skip("a long test: set SIGNALBOX_SOAK to a time, such as 10m")
	}
	seed := locktest.Seed(t)
	for ends := time.Now().Add(length); ; seed++ {
		t.Run("Walks", func(t *testing.T) {
			for _, s := range scenes() {
				name, its, _ := strings.Cut(only, "/")
				if n, err := strconv.ParseUint(its, 10, 64); err == nil {
					seed = n
				}
				t.Run(fmt.Sprintf("%s/%d", s.name, seed), func(t *testing.T) {
					t.Parallel()
					if only == "" || name == s.name {
						s.run(t, seed)
					}
				})
			}
		})
		if t.Failed() || !time.Now().Before(ends) {
			return
		}
	}
}

// check is what must be true after each step.
func (w *walk) check() {
	w.Helper()
	keys := w.keys()
	for i, at := range w.expiries(keys) {
		if at == -1 && !slices.Contains(w.scene.endless, keys[i][len(w.name):]) {
			w.fail("%s has no expiry", keys[i])
		}
		if i == 0 {
			w.misses(at)
		}
	}
	if !w.scene.reads {
		return
	}
	var requests []*request
	for _, k := range w.kinds {
		requests = append(requests, k.probes(w.fresh(k))...)
	}
	kinds := make(map[string]bool)
	for i, a := range w.probe(requests) {
		r := requests[i]
		if a.err != "" && w.mayRefuse(r, a) {
			continue
		} else if a.err != "" {
			w.fail("%s cannot read what is there: %s", r.script.Name, a.err)
		}
		o := r.read(r, a.reply)
		w.understood(r, o, a.reply)
		w.honest(r, o.kind)
		if o.kind != "" && r.verb != describes {
			kinds[o.kind] = true
		}
	}
	if len(kinds) > 1 {
		w.fail("scripts report different kinds: %v", kinds)
	}
}

// misses records, by its expiry, whether the key with the floor of the tokens is missing.
func (w *walk) misses(at int64) {
	if at == -2 {
		w.gap = true
		w.sizes = append(w.sizes, sized{w.now, capacity}) // a semaphore has as many permits as callers say
	}
}

// fresh returns an attempt of a session that the walk has not used.
func (w *walk) fresh(k lockKind) *attempt {
	a := k.newcomer(sessionOf(20))
	a.kind, a.session, a.lease = k, sessionOf(20), second
	return a
}

// mayRefuse reports whether a script may return an error: only the server's, because a lock of
// another kind has the name, and only one that needs a hold.
func (w *walk) mayRefuse(r *request, a result) bool {
	switch r.verb {
	case tries, enters, polls, describes, heartbeats, acquiresMany:
		return false
	}
	return len(w.kinds) > 1 && strings.HasPrefix(a.err, "WRONGTYPE ")
}

// understood checks that the reader of a reply knows its code: codes may change with the scripts.
func (w *walk) understood(r *request, o outcome, reply any) {
	w.Helper()
	if o.unknown {
		w.fail("%s replied %v, which the walk cannot read", r.script.Name, reply)
	}
}

// honest checks what a script reports as the kind of the lock that has the name.
func (w *walk) honest(r *request, kind string) {
	w.Helper()
	if kind == "" {
		return
	}
	for _, k := range w.kinds {
		if k.letter() == kind && (r.who == nil || r.who.kind != k) {
			return
		}
	}
	w.fail("%s reports a lock of the kind %q, which was never made", r.script.Name, kind)
}

// issue checks the tokens that a call granted: each is greater than all before. If the key that knows them
// is lost, that holds only if the clock has advanced.
func (w *walk) issue(r *request, grants []grant) {
	w.Helper()
	slices.SortFunc(grants, func(a, b grant) int { return cmp.Compare(a.stamp, b.stamp) })
	for _, g := range grants {
		a := w.byHold[g.hold]
		if a == nil {
			w.fail("a grant without a waiter: %v", g)
		}
		first := a.issued == 0
		if first {
			a.issued = w.now
			a.origin = min(cmp.Or(a.origin, w.now), w.now)
		}
		if g.stamp == "" {
			continue
		}
		stamp, err := strconv.ParseInt(g.stamp, 10, 64)
		if err != nil {
			w.fail("%s gave the token %q", r.script.Name, g.stamp)
		}
		forgotten := w.gap && (w.scene.counts || w.clock <= w.top && (w.back || w.clock < w.topAt+second/10))
		if first && stamp <= w.top && !forgotten {
			w.fail("%s gave %s the token %d, which is not after %d", r.script.Name, g.hold, stamp, w.top)
		}
		if a.blocks && first {
			stamp += block
		}
		if stamp > w.top || forgotten {
			w.top, w.topAt, w.gap = stamp, w.clock, false
		}
	}
}

// sized is how many permits there were from a true time on.
type sized struct {
	at      int64
	permits int
}

// mostPermits returns the greatest number of permits at any time since then: fewer permits take
// nothing from those who have some.
func (w *walk) mostPermits(since int64) int {
	most := 0
	for _, s := range slices.Backward(w.sizes) {
		if most = max(most, s.permits); s.at <= since {
			break
		}
	}
	return most
}

// finder is a test that may fail: that is what finds a mistake.
type finder struct {
	testing.TB

	found string
}

// Helper implements testing.TB.
func (*finder) Helper() {}

// Fatalf implements testing.TB.
func (f *finder) Fatalf(format string, args ...any) {
	f.found = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// The rules of a walk find two holders, more permits than there are, a token that falls, and a key that never ends.
func TestAWalkFindsPlantedMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plant func(w *walk, next *attempt)
		found string
		in    string
	}{
		"a key that never ends": {func(w *walk, _ *attempt) {
			w.do("PERSIST", w.keys()[0])
			w.check()
		}, "has no expiry", "Exclusive"},
		"a token that falls": {func(w *walk, next *attempt) {
			w.issue(next.kind.requestOf(tries, next), []grant{{hold: next.hold, stamp: digits(1)}})
		}, "which is not after", "Exclusive"},
		"two holders": {func(w *walk, next *attempt) {
			w.holds(grant{hold: next.hold, since: w.now, life: second})
		}, "has the lock, and so has", "Exclusive"},
		"too many permits": {func(w *walk, next *attempt) {
			w.holds(grant{hold: next.hold, since: w.now, life: second})
		}, "permits are held of", "Semaphore"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, over := &finder{TB: t}, make(chan struct{})
			go func() { // ends at the first failure
				defer close(over)
				all := scenes()
				w := newWalk(f, all[slices.IndexFunc(all, func(s scene) bool { return s.name == c.in })], 0)
				a, next := w.full(w.kinds[0], 0), w.full(w.kinds[0], 1)
				w.uses(tries, a)
				c.plant(w, next)
			}()
			<-over
			if !strings.Contains(f.found, c.found) {
				t.Errorf("%q was not found, but %q", c.found, f.found)
			}
		})
	}
}

// end checks that the name becomes usable again after everything that happened: all sessions are
// gone, and none of their requests is on its way.
func (w *walk) end() {
	w.Helper()
	w.late, w.unsubscribed, w.calm, w.ends = nil, nil, w.now+1, true
	for _, a := range w.attempts {
		a.ended = true
	}
	// By the clock: a hold that was given before the clock was set back ends when it has caught up.
	deadline := w.high + longestLease + 15*second + w.scene.patience
	if w.IntN(2) == 0 {
		w.note("all are gone, and sessions wait")
		w.endsForWaiters(deadline)
		return
	}
	w.note("all are gone, and a newcomer arrives after the longest lease")
	w.passes(deadline - w.scene.patience - w.clock)
	for _, k := range w.kinds {
		a := w.attempt(k, sessionOf(10), k.newcomer)
		w.send(k.requestOf(tries, a))
		a.ended = true
		w.send(k.requestOf(withdraws, a))
	}
	w.passes(w.scene.patience)
	w.endsForNewcomers()
}

// endsForNewcomers checks that an attempt of each kind gets the lock at once.
func (w *walk) endsForNewcomers() {
	w.Helper()
	for _, k := range w.kinds {
		for _, v := range []verb{tries, enters} {
			a := w.fresh(k)
			r := k.requestOf(v, a)
			got := w.probe([]*request{r})[0]
			if got.err != "" || len(r.read(r, got.reply).has) == 0 {
				w.fail("%s does not get the free lock: %v %s", r.script.Name, got.reply, got.err)
			}
		}
	}
}

// endsForWaiters checks that one of several waiters, of each kind two, gets the lock in time.
func (w *walk) endsForWaiters(deadline int64) {
	w.Helper()
	var waiters []*attempt
	for n := range 2 {
		for _, k := range w.kinds {
			waiters = append(waiters, w.attempt(k, sessionOf(10+n), k.newcomer))
		}
	}
	for _, a := range waiters {
		w.send(a.kind.requestOf(enters, a))
	}
	for w.clock <= deadline {
		for _, a := range waiters {
			if a.issued > 0 {
				return
			}
			w.wait(a)
		}
		w.passes(second + w.scene.patience/400)
	}
	w.fail("no waiter gets the lock")
}

// wait is what a waiter does once a second: it polls, and acquires again if it has no ticket.
func (w *walk) wait(a *attempt) {
	w.Helper()
	poll := a.kind.requestOf(polls, a)
	if !slices.Contains(a.kind.verbs(), heartbeats) || poll == nil {
		w.send(a.kind.requestOf(enters, a))
		return
	}
	for range 100 { // as long as there is more to do
		if o := w.send(poll); !o.more {
			if slices.Contains(o.missing, a.hold) && a.issued == 0 {
				w.send(a.kind.requestOf(enters, a))
			}
			return
		}
	}
	w.fail("a poll is due at once, and again, and again")
}
