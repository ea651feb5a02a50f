// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

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
