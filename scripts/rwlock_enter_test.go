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
	r := newRWLock(t)
	r.has(ours, reads)
	r.has(nth("a", 5), reads)
	require.Equal(t, []any{int64(1), digits(noon + 2), digits(noon)}, r.joins(theirs, reads), "a token each")
	require.Equal(t, int64(0), r.tries(holdOf("w"), writes)[0])
	r.requireHave(reads, ours, nth("a", 5), theirs)
	for _, hold := range []string{ours, nth("a", 5), theirs} {
		r.leaves(hold)
	}
	r.has(holdOf("w"), writes)
	require.Equal(t, int64(0), r.tries(ours, reads)[0])
	require.Equal(t, int64(0), r.tries(theirs, writes)[0])
	r.requireHave(writes, holdOf("w"))
}

// P6: the reply has no field for grants, so its own session gets a message, as others do.
func TestAnEnterNotifiesItsOwnSessionOfGrants(t *testing.T) {
	t.Parallel()
	for name, enter := range map[string]func(r *rwlock) []any{
		"Try":  func(r *rwlock) []any { return r.tries(nth("a", 9), writes) },
		"Join": func(r *rwlock) []any { return r.joins(nth("a", 9), writes) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRWLock(t)
			r.has(holdOf("z"), writes)
			r.queues(nth("a", 1), reads)
			r.queues(theirs, reads)
			r.queues(nth("a", 2), reads)
			r.drops(holdOf("z"))
			published, others := r.listens(we), r.listens(they)
			require.Equal(t, int64(0), enter(r)[0])
			paid := map[string]int{"Try": 3, "Join": 4}[name]
			require.Equal(t, []string{grantOf(nth("a", 1), noon+1, paid) + grantOf(nth("a", 2), noon+3, paid)}, published.received(), "all of a session in one")
			require.Equal(t, []string{grantOf(theirs, noon+2, 2)}, others.received())
			r.requireHave(reads, nth("a", 1), nth("a", 2), theirs)
		})
	}
}

// P8: a hold with a short lease does not shorten the life of a key that has a long one.
func TestALongHoldIsNotShortenedByOthers(t *testing.T) {
	t.Parallel()
	const long = 10 * time.Hour
	r := newRWLock(t)
	args := r.enterArgs(ours, reads, "0", "")
	args[1] = long.Microseconds()
	r.mustRun(scripts.RWLockEnter, r.keys(), args...)
	r.has(theirs, reads)
	r.joins(theirs, reads)
	r.renews(theirs, 1000)
	r.queues(holdOf("w"), writes)
	r.polls(they, theirs)
	r.leaves(theirs)
	r.clock += lease * 1000
	r.polls(session("w"), holdOf("w"))
	r.requireLife(long + keeps)
	require.Equal(t, map[string]int64{ours: noon + long.Microseconds()}, r.until())
}
