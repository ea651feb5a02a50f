// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// costRow is what a script promises of its work beside a crowd of n: no more than base and each for
// every one of the crowd, of which a call does no more than most at once. A work that is constant
// has no each.
type costRow struct {
	script           *scripts.Script
	crowd            string
	base, each, most int
	sizes            []int // 10, 1,000 and 8,000 if empty, and in the long form 100,000
	fill             func(m *measured, n int)
	keys             func(m *measured, n int) []string
	args             func(m *measured, n int) []any
}

// on returns the keys of a row.
func on(ends ...string) func(m *measured, n int) []string {
	return func(m *measured, _ int) []string { return m.at(ends...) }
}

// with returns the arguments of a row.
func with(args ...any) func(m *measured, n int) []any {
	return func(*measured, int) []any { return args }
}

// many returns one key for all n of a call: a batch.
func many(end string) func(m *measured, n int) []string {
	return func(m *measured, n int) []string {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = m.name + end
		}
		return keys
	}
}

// each returns the arguments of a batch: the same for each of n.
func each(args ...any) func(m *measured, n int) []any {
	return func(_ *measured, n int) (all []any) {
		for range n {
			all = append(all, args...)
		}
		return all
	}
}

// batches are the sizes of batches.
func batches() []int { return []int{1, 10, 1000} }

// Each script has rows, and its work grows by no more than its header says under "cost".
func TestNoScriptCostsMoreThanItSays(t *testing.T) {
	t.Parallel()
	rows := costRows()
	all, err := scripts.All()
	require.NoError(t, err)
	for _, s := range all {
		require.Condition(t, func() bool {
			for _, row := range rows {
				if row.script.SHA1 == s.SHA1 {
					return true
				}
			}
			return false
		}, "%s has no row", s.Name)
	}
	for _, row := range rows {
		t.Run(row.script.Name+"/"+row.crowd, func(t *testing.T) {
			t.Parallel()
			sizes := row.sizes
			if sizes == nil {
				sizes = []int{10, 1000, 8000} // the last is more than any bound
			}
			for _, n := range sizes {
				row.requireHolds(t, n)
			}
		})
	}
}

// The same beside 100,000, for as many rows as there is time for.
func TestSoakScriptsCostNoMoreBesideLargeCrowds(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SIGNALBOX_SOAK"))
	if err != nil {
		t.Skip("a long test: set SIGNALBOX_SOAK to a time, such as 10m")
	}
	t.Parallel()
	rows, ends := costRows(), time.Now().Add(length)
	for _, i := range rand.Perm(len(rows)) { //nolint:paralleltest // one crowd at a time
		if row := rows[i]; row.sizes == nil && time.Now().Before(ends) {
			t.Run(row.script.Name+"/"+row.crowd, func(t *testing.T) { row.requireHolds(t, 100_000) })
		}
	}
}

// requireHolds runs the script beside a crowd of n.
func (c costRow) requireHolds(t *testing.T, n int) {
	t.Helper()
	m := newMeasured(t)
	if c.fill != nil {
		c.fill(m, n)
	}
	work := m.work(c.script, c.keys(m, n), c.args(m, n)...)
	if c.each > 0 && redistest.IsOld(t) {
		c.each += 2 // PTTL and its key: see part key/lengthen
	}
	most := c.base + c.each*n
	if c.most > 0 {
		most = min(most, c.base+c.each*c.most)
	}
	t.Logf("%d of %d for %d", work, most, n)
	require.LessOrEqual(t, work, most, "beside %d", n)
	for _, key := range c.keys(m, 1) {
		m.server.MustDo(t, "UNLINK", key)
	}
}
