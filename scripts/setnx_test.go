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
		{script: scripts.Load("setnx/acquire", 1), crowd: "Nothing", base: 40, sizes: []int{1}, keys: on("lock"), args: with(natives, lease, later, "PUBLISH", "c", "1")},
		{script: scripts.Load("setnx/release", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: held, keys: on("lock"), args: with(natives, "PUBLISH", "c")},
		{script: scripts.Load("setnx/poll", 1), crowd: "Batch", each: 20, sizes: batches(), fill: held, keys: many("lock"), args: with("")},
		{script: scripts.Load("setnx/renew", 1), crowd: "Batch", each: 20, sizes: batches(), fill: held, keys: many("lock"), args: each(natives, lease)},
		{script: scripts.Load("setnx/describe", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: held, keys: on("lock"), args: with()},
		{script: scripts.Load("setnx/force", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: held, keys: on("lock"), args: with(natives, "PUBLISH", "c", "t")},
	}
}

// P1: a value that another client wrote is a holder, which only that client and force end.
func TestAValueOfAnotherClientIsAHolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.server.MustDo(t, "SET", f.key, foreigns, "PX", 60_000)
	acquire := []any{natives, "1000", later, "PUBLISH", f.channel, "1"}
	held := f.run(scripts.Load("setnx/acquire", 1), acquire...).([]any)
	require.Equal(t, int64(0), held[0])
	require.InDelta(t, 60_000, held[1], 10_000)
	require.Equal(t, int64(0), f.run(scripts.Load("setnx/release", 1), natives, "PUBLISH", f.channel).([]any)[0])
	require.Equal(t, int64(0), f.run(scripts.Load("setnx/renew", 1), natives, "1000"))
	described := f.run(scripts.Load("setnx/describe", 1)).([]any)
	require.Equal(t, []any{int64(1), "r", "0000000000000000", foreigns, foreigns}, described[:5])
	require.Equal(t, int64(0), f.run(scripts.Load("setnx/force", 1), natives, "PUBLISH", f.channel, "told"))
	require.Equal(t, foreigns, f.server.MustDo(t, "GET", f.key))
	require.Equal(t, int64(1), f.run(scripts.Load("setnx/force", 1), foreigns, "PUBLISH", f.channel, "told"))
	require.Equal(t, int64(1), f.run(scripts.Load("setnx/acquire", 1), acquire...).([]any)[0])
}

// P1: a key without an expiry keeps everybody out; a key of another type is no lock.
func TestStrangeKeysAreLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	acquire := []any{natives, "1000", later, "PUBLISH", f.channel, "1"}
	f.server.MustDo(t, "SET", f.key, "")
	require.Equal(t, []any{int64(0), int64(-1)}, f.run(scripts.Load("setnx/acquire", 1), acquire...).([]any)[:2])
	require.Equal(t, int64(-1), f.run(scripts.Load("setnx/poll", 1), ""))
	f.server.MustDo(t, "DEL", f.key)
	f.server.MustDo(t, "HSET", f.key, "a", "b")
	require.Equal(t, []any{int64(-2), "?"}, f.run(scripts.Load("setnx/acquire", 1), acquire...))
	require.Equal(t, []any{int64(-2), "?"}, f.run(scripts.Load("setnx/describe", 1)))
	require.Equal(t, int64(0), f.run(scripts.Load("setnx/release", 1), natives, "PUBLISH", f.channel).([]any)[0])
	require.Equal(t, int64(0), f.run(scripts.Load("setnx/force", 1), natives, "PUBLISH", f.channel, "told"))
	require.Equal(t, int64(0), f.run(scripts.Load("setnx/renew", 1), natives, "1000"))
	require.Equal(t, "b", f.server.MustDo(t, "HGET", f.key, "a"))
}
