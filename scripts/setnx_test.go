// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// foreigns is a value as another client writes it, and natives a hold of this library.
const (
	foreigns = "mMGNIrAIWHWLOnmFMrqHQQ=="
	natives  = "AAECAwQFBgcICQoLDA0ODwAAAAAAAAAAAAAAAAAAA"
)

// setnxCosts are the rows of locks that others write by SET with NX.
func setnxCosts() []costRow {
	held := func(m *measured, _ int) { m.server.MustDo(m, "SET", m.key, natives, "PX", 20_000) }
	return []costRow{
		{script: scripts.SetNXAcquire, crowd: "Nothing", base: 40, sizes: []int{1}, keys: on("lock"), args: with(natives, lease, later, "PUBLISH", "c", "1")},
		{script: scripts.SetNXRelease, crowd: "Nothing", base: 40, sizes: []int{1}, fill: held, keys: on("lock"), args: with(natives, "PUBLISH", "c")},
		{script: scripts.SetNXPoll, crowd: "Batch", each: 20, sizes: batches(), fill: held, keys: many("lock"), args: with("")},
		{script: scripts.SetNXRenew, crowd: "Batch", each: 20, sizes: batches(), fill: held, keys: many("lock"), args: each(natives, lease)},
		{script: scripts.SetNXDescribe, crowd: "Nothing", base: 40, sizes: []int{1}, fill: held, keys: on("lock"), args: with()},
		{script: scripts.SetNXForce, crowd: "Nothing", base: 40, sizes: []int{1}, fill: held, keys: on("lock"), args: with(natives, "PUBLISH", "c", "t")},
	}
}

// P1: a value that another client wrote is a holder, which only that client and force end.
func TestAValueOfAnotherClientIsAHolder(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.server.MustDo(t, "SET", p.key, foreigns, "PX", 60_000)
	acquire := []any{natives, "1000", later, "PUBLISH", p.channel, "1"}
	held := p.run(scripts.SetNXAcquire, acquire...).([]any)
	require.Equal(t, int64(0), held[0])
	require.InDelta(t, 60_000, held[1], 10_000)
	require.Equal(t, int64(0), p.run(scripts.SetNXRelease, natives, "PUBLISH", p.channel).([]any)[0])
	require.Equal(t, int64(0), p.run(scripts.SetNXRenew, natives, "1000"))
	described := p.run(scripts.SetNXDescribe).([]any)
	require.Equal(t, []any{int64(1), "r", "0000000000000000", foreigns, foreigns}, described[:5])
	require.Equal(t, int64(0), p.run(scripts.SetNXForce, natives, "PUBLISH", p.channel, "told"))
	require.Equal(t, foreigns, p.server.MustDo(t, "GET", p.key))
	require.Equal(t, int64(1), p.run(scripts.SetNXForce, foreigns, "PUBLISH", p.channel, "told"))
	require.Equal(t, int64(1), p.run(scripts.SetNXAcquire, acquire...).([]any)[0])
}

// P1: a key without an expiry keeps everybody out; a key of another type is no lock.
func TestStrangeKeysAreLeftAlone(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	acquire := []any{natives, "1000", later, "PUBLISH", p.channel, "1"}
	p.server.MustDo(t, "SET", p.key, "")
	require.Equal(t, []any{int64(0), int64(-1)}, p.run(scripts.SetNXAcquire, acquire...).([]any)[:2])
	require.Equal(t, int64(-1), p.run(scripts.SetNXPoll, ""))
	p.server.MustDo(t, "DEL", p.key)
	p.server.MustDo(t, "HSET", p.key, "a", "b")
	require.Equal(t, []any{int64(-2), "?"}, p.run(scripts.SetNXAcquire, acquire...))
	require.Equal(t, []any{int64(-2), "?"}, p.run(scripts.SetNXDescribe))
	require.Equal(t, int64(0), p.run(scripts.SetNXRelease, natives, "PUBLISH", p.channel).([]any)[0])
	require.Equal(t, int64(0), p.run(scripts.SetNXForce, natives, "PUBLISH", p.channel, "told"))
	require.Equal(t, int64(0), p.run(scripts.SetNXRenew, natives, "1000"))
	require.Equal(t, "b", p.server.MustDo(t, "HGET", p.key, "a"))
}
