// SPDX-License-Identifier: Apache-2.0

package shardmembers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
)

// The shards of a process that was killed go to the others, with greater tokens. A process that ends in order hands its shards over.
func TestKilledMembersAreFollowed(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the lease of a process that was killed has to expire on the server")
	server := redistest.Start(t)
	a := start(t, server)
	a.until(total)
	b := start(t, server)
	b.until(total / 2)
	a.until(total / 2)
	before := b.owned
	began := time.Now()
	b.Kill()
	a.until(total)
	t.Logf("killed, and followed after %v; the lease is %v, or 3s and its age", time.Since(began), lease)
	for name, token := range before {
		require.Greater(t, a.owned[name], token)
	}
	c := start(t, server)
	c.until(total / 2)
	a.until(total / 2)
	began = time.Now()
	a.CloseInput()
	c.until(total)
	require.Zero(t, a.Wait(limit))
	t.Logf("ended in order, and followed after %v", time.Since(began))
	c.CloseInput()
	require.Zero(t, c.Wait(limit))
}

// P2: a process that was stopped past its lease learns at its first check that it owns nothing, and joins again.
func TestAStoppedMemberLearnsOfItsLossAtTheFirstCheck(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a process is stopped for longer than its lease lasts")
	server := redistest.Start(t)
	a := start(t, server)
	a.until(total)
	a.Freeze()
	b := start(t, server)
	b.until(total)
	a.Send("check")
	a.Thaw()
	for len(a.owned) > 0 {
		switch words := a.next(); words[0] {
		case "?":
			require.Equal(t, "false", words[2])
		case "-":
			require.Equal(t, "true", words[2], "it was lost")
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

// A function that panics releases its shard before the process ends: another member has it at once, and the rest after the lease.
func TestAPanicReleasesItsShardFirst(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the lease of a process that panicked has to expire on the server")
	server := redistest.Start(t)
	a := start(t, server)
	a.until(total)
	b := start(t, server)
	b.until(total / 2)
	a.until(total / 2)
	a.Send("panic")
	words := a.next()
	require.Equal(t, "panics", words[0])
	require.Equal(t, words[1], b.nextTaken(), "the shard of the function is the first")
	b.until(total)
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
	set := shards.Names("x", "y")
	mine, theirs := shards.New(one, name, set, shards.RebalanceDelay(0), shards.Value("mine")), shards.New(other, name, set, shards.RebalanceDelay(0))
	a, err := mine.Join(locktest.Context(t))
	require.NoError(t, err)
	granted := 0
	for c := range a.Changes() {
		require.Equal(t, shards.Granted, c.Kind)
		if granted++; granted == 2 {
			break
		}
	}
	b, err := theirs.Join(locktest.Context(t))
	require.NoError(t, err)
	for c := range a.Changes() {
		require.Equal(t, shards.Wanted, c.Kind)
		require.ErrorIs(t, c.Shard.Err(), shards.ErrMoved)
		require.NoError(t, c.Shard.Release())
		require.ErrorIs(t, c.Shard.Release(), signalbox.ErrNotHeld)
		break
	}
	for c := range b.Changes() {
		require.Equal(t, shards.Granted, c.Kind)
		o, err := mine.Owner(locktest.Context(t), c.Shard.Name())
		require.NoError(t, err)
		require.Equal(t, c.Shard.Token(), o.Token)
		require.Equal(t, other.ID(), o.Session)
		break
	}
	require.NoError(t, theirs.Health(locktest.Context(t)))
	for _, m := range []*shards.Member{a, b} {
		go func() {
			for c := range m.Changes() {
				_ = c.Shard.Release()
			}
		}()
		require.NoError(t, m.Leave(locktest.Context(t)))
	}
	v, err := mine.View(context.Background())
	require.NoError(t, err)
	require.Empty(t, v.Members)
}
