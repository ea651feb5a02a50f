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
func (p *fixture) writes() string {
	p.Helper()
	info, _ := p.server.MustDo(p, "INFO", "persistence").(string)
	_, rest, found := strings.Cut(info, "rdb_changes_since_last_save:")
	require.True(p, found)
	count, _, _ := strings.Cut(rest, "\r\n")
	return count
}

// P1: a replica that has a rewrite has all that was written before.
func TestARewriteIsAlwaysAWrite(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func(p *fixture){
		"String":    func(p *fixture) { p.set(votedFor(ours, noon, ""), time.Minute) },
		"SortedSet": func(p *fixture) { p.server.MustDo(p, "ZADD", p.key, noon, ours); p.expires(p.key, time.Minute) },
		"Endless":   func(p *fixture) { p.server.MustDo(p, "HSET", p.key, ours, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFixtureAt(t)
			p.isTimed = true
			keep(p)
			unchanged := p.untouched()
			for range 2 {
				before := p.writes()
				require.Equal(t, int64(1), first(p.run(scripts.SessionRewrite)))
				require.NotEqual(t, before, p.writes())
				unchanged()
			}
		})
	}
}

func TestARewriteMakesNoKey(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	unchanged := p.untouched()
	require.Equal(t, int64(0), first(p.run(scripts.SessionRewrite)))
	unchanged()
}

// P4, P10: a key without an end gets none, whichever right is missing.
func TestADeniedRewriteChangesNothing(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"+pttl", "+pexpire", "+persist"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			p := newFixtureAt(t)
			p.server.MustDo(t, "SET", p.key, votedFor(ours, noon, ""))
			unchanged := p.untouched()
			_, err := p.as("+@all", "-"+right[1:]).try(scripts.SessionRewrite)
			requireDenied(t, err)
			unchanged()
		})
	}
}
