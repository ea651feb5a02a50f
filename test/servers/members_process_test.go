// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
)

// P2: a process that was stopped past its lease learns at its first check that it owns nothing, and joins again.
func TestAStoppedMemberLearnsOfItsLossAtTheFirstCheck(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a process is stopped for longer than its lease lasts")
	server := redistest.Start(t)
	a := startMember(t, server)
	a.until(total)
	lost := maps.Clone(a.owned)
	a.Freeze()
	b := startMember(t, server)
	b.until(total)
	a.Send("check")
	a.Thaw()
	for len(lost) > 0 { // it may be granted the first one anew before the last one has ended
		words := a.next()
		if lost[words[1]] == "" {
			continue
		}
		switch words[0] {
		case "?":
			require.Equal(t, "false", words[2])
		case "-":
			require.Equal(t, "true", words[2], "it was lost")
			delete(lost, words[1])
		}
	}
	a.until(total / 2)
	b.until(total / 2)
	a.CloseInput()
	require.Zero(t, a.Wait(limit))
	b.until(total)
	b.CloseInput()
	require.Zero(t, b.Wait(limit))
}

// A function that panics releases its shard before the process ends: another member is granted it first, and the rest after the
// lease. The order is that of the tokens: functions of different shards print in any order.
func TestAPanicReleasesItsShardFirst(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the lease of a process that panicked has to expire on the server")
	server := redistest.Start(t)
	a := startMember(t, server)
	a.until(total)
	b := startMember(t, server)
	b.until(total / 2)
	a.until(total / 2)
	a.Send("panic")
	panicked := a.nextLine("panics")
	b.until(total)
	for name := range a.owned {
		require.GreaterOrEqual(t, b.owned[name], b.owned[panicked], "the shard of the function is the first")
	}
	require.NotZero(t, a.Wait(limit))
	require.Contains(t, a.Stderr(), "panic: panic")
	b.CloseInput()
	require.Zero(t, b.Wait(limit))
}

// P9: groups work on every topology, whatever their names: keys and channels share a slot.
func TestAGroupWorksEverywhere(t *testing.T) {
	t.Parallel()
	redistest.NeedServer(t)
	redistest.Slow(t, "a new group grants nothing for two seconds")
	for _, starter := range redistest.Topologies() {
		t.Run(starter.Name, func(t *testing.T) {
			t.Parallel()
			top, err := starter.Start(redistest.WithFailoverAfter(time.Minute))
			require.NoError(t, err)
			t.Cleanup(top.Close)
			one, other := locktest.Session(t, top), locktest.Session(t, top)
			for _, name := range []string{"plain", "{tag}rest", "}{"} {
				play(t, one, other, name)
			}
		})
	}
}

// play moves a shard from one session to another.
func play(t *testing.T, one, other *signalbox.Session, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	set := shards.Names("x", "y")
	mine, theirs := shards.New(one, name, set, shards.RebalanceDelay(0)), shards.New(other, name, set, shards.RebalanceDelay(0))
	a := joinsGroup(ctx, t, mine)
	await(ctx, t, theirs, func(v *shards.View) bool { return ownedBy(v, one) == 2 })
	b := joinsGroup(ctx, t, theirs)
	await(ctx, t, mine, func(v *shards.View) bool { return ownedBy(v, one) == 1 && ownedBy(v, other) == 1 })
	require.NoError(t, a.Leave(ctx))
	await(ctx, t, theirs, func(v *shards.View) bool { return ownedBy(v, other) == 2 })
	require.NoError(t, b.Leave(ctx))
	await(ctx, t, mine, func(v *shards.View) bool { return len(v.Members) == 0 && v.Unowned == 2 })
}

// joinsGroup makes a member, which releases what is wanted elsewhere. A busy machine may lose the lease of a young member, which is 3 s: the
// member joins again then.
func joinsGroup(ctx context.Context, t *testing.T, g *shards.Group) *shards.Member {
	t.Helper()
	m, err := g.Join(ctx)
	require.NoError(t, err)
	go func() {
		for c := range m.Changes() {
			if c.Kind != shards.Granted {
				assert.Error(t, c.Shard.Err())
				_ = c.Shard.Release()
				assert.ErrorIs(t, c.Shard.Release(), signalbox.ErrNotHeld)
			}
		}
	}()
	return m
}

// await waits until an observer sees what it is to see.
func await(ctx context.Context, t *testing.T, g *shards.Group, isSeen func(*shards.View) bool) {
	t.Helper()
	for v, err := range g.Watch(ctx) {
		if err == nil && isSeen(v) {
			return
		}
	}
	require.Fail(t, "an observer never saw it")
}

// ownedBy returns how many shards a session owns.
func ownedBy(v *shards.View, s *signalbox.Session) (n int) {
	for _, name := range v.Names() {
		if o, _ := v.Owner(name); o.State == shards.Owned && o.Session == s.ID() {
			n++
		}
	}
	return n
}
