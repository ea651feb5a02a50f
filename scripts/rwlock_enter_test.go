// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// modes are the modes with their names in tests.
var modes = map[string]string{"Reader": reads, "Writer": writes}

// P1.
func TestReadersShareTheLockAndWritersDoNot(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, reads)
	p.has(nth("a", 5), reads)
	require.Equal(t, []any{int64(1), digits(noon + 2), digits(noon)}, p.joins(theirs, reads), "a token each")
	require.Equal(t, int64(0), p.tries(holdOf("w"), writes)[0])
	p.requireHave(reads, ours, nth("a", 5), theirs)
	for _, hold := range []string{ours, nth("a", 5), theirs} {
		p.leaves(hold)
	}
	p.has(holdOf("w"), writes)
	require.Equal(t, int64(0), p.tries(ours, reads)[0])
	require.Equal(t, int64(0), p.tries(theirs, writes)[0])
	p.requireHave(writes, holdOf("w"))
}

// P6: the reply has no field for grants, so its own session gets a message, as others do.
func TestAnEnterNotifiesItsOwnSessionOfGrants(t *testing.T) {
	t.Parallel()
	for name, enter := range map[string]func(p *rwlock) []any{
		"Try":  func(p *rwlock) []any { return p.tries(nth("a", 9), writes) },
		"Join": func(p *rwlock) []any { return p.joins(nth("a", 9), writes) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(holdOf("z"), writes)
			p.queues(nth("a", 1), reads)
			p.queues(theirs, reads)
			p.queues(nth("a", 2), reads)
			p.drops(holdOf("z"))
			published, others := p.listens(we), p.listens(they)
			require.Equal(t, int64(0), enter(p)[0])
			paid := map[string]int{"Try": 3, "Join": 4}[name]
			require.Equal(t, []string{grantOf(nth("a", 1), noon+1, paid) + grantOf(nth("a", 2), noon+3, paid)}, published.received(), "all of a session in one")
			require.Equal(t, []string{grantOf(theirs, noon+2, 2)}, others.received())
			p.requireHave(reads, nth("a", 1), nth("a", 2), theirs)
		})
	}
}

// P8: a hold with a short lease does not shorten the life of a key that has a long one.
func TestALongHoldIsNotShortenedByOthers(t *testing.T) {
	t.Parallel()
	const long = 10 * time.Hour
	p := newRWLock(t)
	args := p.enterArgs(ours, reads, "0", "")
	args[1] = long.Microseconds()
	p.ask(scripts.RWLockEnter, p.keys(), args...)
	p.has(theirs, reads)
	p.joins(theirs, reads)
	p.renews(theirs, 1000)
	p.queues(holdOf("w"), writes)
	p.polls(they, theirs)
	p.leaves(theirs)
	p.clock += lease * 1000
	p.polls(session("w"), holdOf("w"))
	p.requireLife(long + keeps)
	require.Equal(t, map[string]int64{ours: noon + long.Microseconds()}, p.until())
}
