// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"cmp"
	"maps"
	"slices"

	"github.com/signalbox-go/signalbox/inspect"
)

// The limits of the trees of a page.
const (
	maxEdges = 10_000
	maxNodes = 1_000
	maxDepth = 20
)

// waitTree is a session, with those that may wait for it.
type waitTree struct {
	Label   string `json:"label"`
	Session string `json:"session"`
	// Name and Kind are what it may wait for; empty at a root, which waits for nothing.
	Name string `json:"name,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Mutual reports that the session above may wait for it, too, directly or through others. Elsewhere reports that the sessions
	// that wait for it stand at its first place on the page.
	Mutual    bool `json:"mutual,omitempty"`
	Elsewhere bool `json:"elsewhere,omitempty"`

	Waiters []*waitTree `json:"waiters,omitempty"`

	above *waitTree
	depth int
}

// wait is one session that may wait for another.
type wait struct{ session, label, name, kind string }

// waitsOf returns who may wait for each session, in the order of the entries, and the labels of the sessions that hold. It reports
// whether all are there: lists are cut.
func waitsOf(entries []inspect.Entry) (waits map[string][]wait, holders map[string]string, complete bool) {
	waits, holders, complete = make(map[string][]wait), make(map[string]string), true
	edges := 0
	for _, e := range entries {
		if e.WaiterCount == 0 {
			continue
		}
		complete = complete && e.HolderCount == len(e.Holders) && e.WaiterCount == len(e.Waiters)
		for _, h := range e.Holders {
			holders[h.Session] = h.Label
			for _, w := range e.Waiters {
				if w.Session == h.Session || !w.Alive || h.Session == "" {
					continue
				}
				if edges++; edges > maxEdges {
					return waits, holders, false
				}
				waits[h.Session] = append(waits[h.Session], wait{w.Session, w.Label, e.Name, e.Kind})
			}
		}
	}
	return waits, holders, complete
}

// treesOf returns the sessions for which others may wait, those first that wait for nothing themselves; and whether some are missing.
func treesOf(entries []inspect.Entry) (trees []*waitTree, incomplete bool) {
	waits, labels, complete := waitsOf(entries)
	waiting := make(map[string]bool)
	for _, all := range waits {
		for _, w := range all {
			waiting[w.session] = true
		}
	}
	byLabel := func(a, b string) int { return cmp.Or(cmp.Compare(labels[a], labels[b]), cmp.Compare(a, b)) }
	sorted := slices.SortedFunc(maps.Keys(waits), byLabel)
	g := grower{waits: waits, grown: make(map[string]bool)}
	trees = []*waitTree{}
	for _, first := range []bool{true, false} { // a cycle has no root if its sessions wait for each other alone
		for _, s := range sorted {
			if first && waiting[s] || g.grown[s] {
				continue
			}
			if g.nodes++; g.nodes > maxNodes {
				return trees, true
			}
			root := &waitTree{Label: labels[s], Session: s}
			trees = append(trees, root)
			g.grow(root)
		}
	}
	return trees, !complete || g.cut
}

// grower makes trees. A session is grown once, where it is met first.
type grower struct {
	waits map[string][]wait
	grown map[string]bool
	nodes int
	cut   bool // something is missing
}

// grow adds to a root the sessions that wait for it. A chain of waits may be long, so it does not call itself.
func (g *grower) grow(root *waitTree) {
	for left := []*waitTree{root}; len(left) > 0; {
		t := left[len(left)-1]
		left = left[:len(left)-1]
		waiters := g.waits[t.Session]
		switch {
		case t.Mutual || len(waiters) == 0:
			continue
		case g.grown[t.Session]:
			t.Elsewhere = true
			continue
		case t.depth == maxDepth:
			g.cut = true
			continue
		}
		g.grown[t.Session] = true
		for _, w := range waiters {
			if g.nodes++; g.nodes > maxNodes {
				g.cut = true
				break
			}
			t.Waiters = append(t.Waiters, &waitTree{
				Label: w.label, Session: w.session, Name: w.name, Kind: w.kind, Mutual: t.isBelow(w.session), above: t, depth: t.depth + 1,
			})
		}
		for _, below := range slices.Backward(t.Waiters) { // the first is grown first
			left = append(left, below)
		}
	}
}

// isBelow reports whether t or one above it is of the session.
func (t *waitTree) isBelow(session string) bool {
	for ; t != nil; t = t.above {
		if t.Session == session {
			return true
		}
	}
	return false
}
