// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/inspect"
)

// held returns the entry of a name that one session holds, and for which others wait.
func held(name, holder string, waiters ...string) inspect.Entry {
	e := inspect.Entry{Name: name, Kind: inspect.Fair, HolderCount: 1, Holders: []inspect.Holder{{Session: holder, Label: holder}}, WaiterCount: len(waiters)}
	for _, w := range waiters {
		e.Waiters = append(e.Waiters, inspect.Waiter{Session: strings.TrimPrefix(w, "-"), Label: w, Alive: w[0] != '-'})
	}
	return e
}

// lines writes trees with two blanks for each level.
func lines(trees []*waitTree, indent string) (text string) {
	for _, t := range trees {
		text += indent + t.Session
		if t.Name != "" {
			text += " for " + t.Name
		}
		if t.Mutual {
			text += " mutual"
		}
		if t.Elsewhere {
			text += " elsewhere"
		}
		text += "\n" + lines(t.Waiters, indent+"  ")
	}
	return text
}

func TestTreesShowWhoMayWaitForWhom(t *testing.T) {
	t.Parallel()
	for want, entries := range map[string][]inspect.Entry{
		"":                                   {held("a", "p"), held("b", "p", "p"), held("c", "p", "-q")}, // its own goroutines, and the dead
		"p\n  q for a\n    r for b\n":        {held("b", "q", "r"), held("a", "p", "q")},
		"p\n  q for a\n    p for b mutual\n": {held("a", "p", "q"), held("b", "q", "p")},
		"o\n  p for z\n    q for a\n      p for b mutual\n":             {held("a", "p", "q"), held("b", "q", "p"), held("z", "o", "p")},
		"p\n  q for a\n    s for c\n  r for a\n    q for b elsewhere\n": {held("a", "p", "q", "r"), held("b", "r", "q"), held("c", "q", "s")},
	} {
		trees, incomplete := treesOf(entries)
		require.Equal(t, want, lines(trees, ""))
		require.False(t, incomplete)
	}
}

func TestTreesAreBounded(t *testing.T) {
	t.Parallel()
	var chain, cycle, many []inspect.Entry
	for i := range 2 * maxEdges {
		chain = append(chain, held("n", fmt.Sprint(i), fmt.Sprint(i+1)))
		cycle = append(cycle, held("n", fmt.Sprint(i%50), fmt.Sprint((i+1)%50)))
		many = append(many, held("n", "p", fmt.Sprint(i)))
	}
	cut := held("n", "p", "q")
	cut.WaiterCount = 20
	for what, entries := range map[string][]inspect.Entry{"chain": chain, "cycle": cycle, "many": many, "cut": {cut}} {
		trees, incomplete := treesOf(entries)
		require.True(t, incomplete, what)
		var count func(trees []*waitTree, depth int) int
		count = func(trees []*waitTree, depth int) (n int) {
			for _, tree := range trees {
				require.LessOrEqual(t, depth, maxDepth, what)
				n += 1 + count(tree.Waiters, depth+1)
			}
			return n
		}
		require.LessOrEqual(t, count(trees, 0), maxNodes, what)
	}
}
