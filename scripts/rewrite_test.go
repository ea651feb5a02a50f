// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// writes returns how many writes the server has counted. A write that changes nothing counts.
func (f *fixture) writes() string {
	f.Helper()
	info, _ := f.server.MustDo(f, "INFO", "persistence").(string)
	_, rest, found := strings.Cut(info, "rdb_changes_since_last_save:")
	require.True(f, found)
	count, _, _ := strings.Cut(rest, "\r\n")
	return count
}

// P1: a replica that has a rewrite has all that was written before.
func TestARewriteIsAlwaysAWrite(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func(f *fixture){
		"String":    func(f *fixture) { f.set(votedFor(ours, noon, ""), time.Minute) },
		"SortedSet": func(f *fixture) { f.server.MustDo(f, "ZADD", f.key, noon, ours); f.expires(f.key, time.Minute) },
		"Endless":   func(f *fixture) { f.server.MustDo(f, "HSET", f.key, ours, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureAt(t)
			f.isTimed = true
			keep(f)
			unchanged := f.untouched()
			for range 2 {
				before := f.writes()
				require.Equal(t, int64(1), first(f.run(scripts.SessionRewrite)))
				require.NotEqual(t, before, f.writes())
				unchanged()
			}
		})
	}
}
