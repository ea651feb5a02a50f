// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// forcing is a call that ends permits by force, and notifies the session 0a0b0c0d.
func (p *sharedPermits) forcing(ids ...string) []any {
	return []any{"PUBLISH", p.channel, p.channel + ":forced:", "0a0b0c0d", strings.Join(ids, "")}
}

func (p *sharedPermits) forces(ids ...string) any {
	p.Helper()
	list := p.mustRun(scripts.Load("redisson/permit-force", 1), p.forcing(ids...)...)
	require.Len(p, list, 1)
	return list[0]
}

// counts are how many permits are free and held.
func (p *sharedPermits) counts() []any { return []any{p.free(), p.out()} }

// P1, P2, P5: force ends the permits that it names and no others, once, and notifies waiters and sessions.
func TestSharedPermitsAreEndedByForce(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 6)
	a, b := permitsHold("a", 2), permitsHold("b", 1)
	require.Equal(t, p.taken(), p.acquires(a))
	require.Equal(t, p.taken(), p.acquires(b))
	const java = "\x00\n \xffjava permit."
	p.server.MustDo(t, "ZADD", p.timeouts, "922337203685477", java)
	p.server.MustDo(t, "DECRBY", p.key, 1)
	waiters, session := p.listen(), p.listenTo(p.channel+":forced:0a0b0c0d")
	ids := []string{permitID("a", 1), permitID("a", 2), permitID("unknown", 1), java, java}
	require.Equal(t, int64(3), p.forces(ids...))
	require.Equal(t, []any{"5", int64(1)}, p.counts())
	require.Equal(t, int64(0), p.forces(ids...), "again")
	require.Equal(t, []any{"5", int64(1)}, p.counts())
	require.Equal(t, int64(0), p.renews(a, lease))
	require.Equal(t, p.had(0), p.releases(a), "its holder adds nothing")
	require.Equal(t, int64(1), p.renews(b, lease))
	require.Equal(t, int64(1), p.forces(permitID("b", 1)))
	require.Equal(t, int64(0), p.forces(permitID("b", 1)), "no permit is held")
	require.Equal(t, []any{"6", int64(0)}, p.counts())
	require.Equal(t, []string{"5", "6"}, waiters.received())
	require.Equal(t, []string{p.timeouts, p.timeouts}, session.received())
}

// P1: a permit that ended is counted once: by force if the key has it still, else by the acquire that removed it.
func TestForceCountsEndedPermitsOnce(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 3)
	require.Equal(t, p.taken(), p.acquires(permitsHold("a", 2)))
	p.passes(lease * time.Millisecond)
	require.Equal(t, int64(1), p.forces(permitID("a", 1)))
	require.Equal(t, []any{"2", int64(1)}, p.counts())
	require.Equal(t, p.taken(), p.acquires(permitsHold("b", 1)))
	require.Equal(t, []any{"2", int64(1)}, p.counts())
	require.Equal(t, int64(0), p.forces(permitID("a", 1), permitID("a", 2)))
	require.Equal(t, []any{"2", int64(1)}, p.counts())
}

// P1: force below zero publishes nothing; a lost number is left to the next acquire.
func TestForceLeavesTheNumberOfPermitsAsItWas(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixture(t), 5)
	require.Equal(t, p.taken(), p.acquires(permitsHold("a", 4)))
	p.resizes(1)
	waiters, session := p.listen(), p.listenTo(p.channel+":forced:0a0b0c0d")
	require.Equal(t, int64(2), p.forces(permitID("a", 1), permitID("a", 2)))
	require.Equal(t, []any{"-1", int64(2)}, p.counts())
	p.server.MustDo(t, "DEL", p.key)
	require.Equal(t, int64(1), p.forces(permitID("a", 3)))
	require.Equal(t, []any{nil, int64(1)}, p.counts())
	require.Empty(t, waiters.received())
	require.Len(t, session.received(), 2)
	require.Equal(t, p.taken(), p.acquires(permitsHold("b", 1)))
	require.Equal(t, []any{"3", int64(2)}, p.counts())
}

// P9: force writes nothing to keys of another kind, or if its ids have another length.
func TestForceLeavesOtherKeysAlone(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string][]any{
		"Text": {"SET", "permits", "a text"}, "Hash": {"HSET", "permits", "mode", "read"}, "Set": {"SET", "timeouts", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSharedPermits(newFixture(t), 3)
			p.server.MustDo(t, "ZADD", p.timeouts, noon/1000+lease, permitID("a", 1))
			key := map[any]string{"permits": p.key, "timeouts": p.timeouts}[fill[1]]
			p.server.MustDo(t, append([]any{fill[0], key}, fill[2:]...)...)
			state := func() []any {
				return []any{p.server.MustDo(t, "DUMP", p.key), p.server.MustDo(t, "DUMP", p.timeouts)}
			}
			before, session := state(), p.listenTo(p.channel+":forced:0a0b0c0d")
			require.Equal(t, int64(0), p.forces(permitID("a", 1)))
			require.Equal(t, before, state())
			require.Empty(t, session.received())
		})
	}
	p := newSharedPermits(newFixture(t), 3)
	require.Equal(t, p.taken(), p.acquires(permitsHold("a", 1)))
	for _, ids := range []string{"", permitID("a", 1)[1:], permitID("a", 1) + "a"} {
		_, err := p.tryKeys(scripts.Load("redisson/permit-force", 1), p.keys(), p.forcing(ids)...)
		require.ErrorContains(t, err, "bad argument")
	}
	require.Equal(t, []any{"2", int64(1)}, p.counts())
}

// P10: force works if memory is full. A client that may not count loses no permit.
func TestForcedPermitsAreNotLost(t *testing.T) {
	t.Parallel()
	p := newSharedPermits(newFixtureAt(t), 4)
	require.Equal(t, p.taken(), p.acquires(permitsHold("a", 3)))
	ends := strconv.FormatInt(noon/1000+lease, 10)
	user := p.as("+@all", "-incrby")
	_, err := user.tryKeys(scripts.Load("redisson/permit-force", 1), p.keys(), p.forcing(permitID("unknown", 1), permitID("a", 2), permitID("a", 1))...)
	requireDenied(t, err)
	require.Equal(t, []any{"1", int64(3)}, p.counts())
	for i := range 3 {
		require.Equal(t, ends, p.server.MustDo(t, "ZSCORE", p.timeouts, permitID("a", i+1)))
	}
	p.fill()
	require.Equal(t, int64(3), p.forces(permitID("a", 1), permitID("a", 2), permitID("a", 3)))
	require.Equal(t, []any{"4", int64(0)}, p.counts())
}

// As many as a hold can have are ended in one call.
func TestForceEndsAThousandPermits(t *testing.T) {
	t.Parallel()
	const n = 1000
	p := newSharedPermits(newFixture(t), n)
	require.Equal(t, p.taken(), p.acquires(permitsHold("a", n)))
	ids := make([]string, n)
	for i := range ids {
		ids[i] = permitID("a", i+1)
	}
	require.Equal(t, int64(n), p.forces(ids...))
	require.Equal(t, []any{fmt.Sprint(n), int64(0)}, p.counts())
}
