// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// gather takes keys for holds, one each, in time.
func (p *place) gather(keys []string, holds ...string) []any {
	p.Helper()
	var args []any
	for _, hold := range holds {
		args = append(args, claimOf(hold), lease, digits(p.clock+1))
	}
	reply, err := p.tryKeys(scripts.ReentrantGather, keys, args...)
	require.NoError(p, err)
	return reply.([]any)
}

// three answers three keys, and holds for them.
func (p *place) three() (keys, holds []string) {
	return []string{p.key + "x", p.key + "y", p.key + "z"}, []string{holdOf("c"), holdOf("d"), holdOf("e")}
}

func (p *place) valueOf(key string) any { return p.server.MustDo(p, "GET", key) }

func TestLocksThatAreFreeAreGathered(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	keys, holds := p.three()
	require.Equal(t, []any{digits(noon), digits(noon), digits(noon)}, p.gather(keys, holds...))
	for i, key := range keys {
		require.Equal(t, heldBy(holds[i], noon, ""), p.valueOf(key))
		left, _ := p.server.MustDo(t, "PTTL", key).(int64)
		require.InDelta(t, lease, left, float64(patience.Milliseconds()))
	}
	require.Len(t, p.gather(keys[:1], holds[0]), 1, "one key is answered as a list as well")
}

// The order: nothing is taken behind the first that cannot be had, whatever the reason.
func TestNothingIsTakenBehindTheFirstThatCannotBeHad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make []any
		want func(reply any) bool
	}{
		"Held":      {[]any{"SET", "", heldBy(theirs, noon-10, ""), "PX", 60_000}, func(r any) bool { return r.([]any)[0] == int64(0) }},
		"Marked":    {[]any{"SET", "", heldBy(theirs, noon-10, they), "PX", 60_000}, func(r any) bool { return r.([]any)[0] == int64(0) }},
		"OtherKind": {[]any{"SET", "", "sb1f" + digits(noon) + ours}, func(r any) bool { return r.([]any)[1] == "f" }},
		"Foreign":   {[]any{"SET", "", "hello"}, func(r any) bool { return r.([]any)[1] == "?" }},
		"List":      {[]any{"RPUSH", "", "x"}, func(r any) bool { _, is := r.(error); return is }},
	} {
		for at := range 3 {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				keys, holds := p.three()
				p.server.MustDo(t, append([]any{c.make[0], keys[at]}, c.make[2:]...)...)
				before := p.server.MustDo(t, "DUMP", keys[at])
				replies := p.gather(keys, holds...)
				require.Len(t, replies, at+1)
				require.True(t, c.want(replies[at]), "%v", replies[at])
				require.Equal(t, before, p.server.MustDo(t, "DUMP", keys[at]), "it was touched")
				for i, key := range keys {
					switch {
					case i < at:
						require.Equal(t, heldBy(holds[i], noon, ""), p.valueOf(key))
					case i > at:
						require.Nil(t, p.valueOf(key))
					}
				}
			})
		}
	}
}

// P5.
func TestGatheredTwiceLocksAreTakenOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	keys, holds := p.three()
	p.gather(keys, holds...)
	p.clock++
	again := []any{int64(1), digits(noon + block), int64(0), digits(noon + 1)}
	require.Equal(t, []any{again, again, again}, p.gather(keys, holds...), "their last tokens, and no blocks")
	for i, key := range keys {
		require.Equal(t, heldBy(holds[i], noon, ""), p.valueOf(key))
	}
}

// P4.
func TestALateGatheringWritesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	keys, holds := p.three()
	var args []any
	for _, hold := range holds {
		args = append(args, claimOf(hold), lease, digits(noon-1))
	}
	reply, err := p.tryKeys(scripts.ReentrantGather, keys, args...)
	require.NoError(t, err)
	require.Equal(t, []any{[]any{int64(-1), digits(noon)}}, reply)
	for _, key := range keys {
		require.Nil(t, p.valueOf(key))
	}
}

// P3: tokens go on from the floor that a release left, and run no further ahead of the clock than elsewhere.
func TestGatheredTokensGoOnFromTheFloor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ahead, us int64 }{
		"ALittle": {50_000, 256}, "Far": {3_600_000_000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			keys, holds := p.three()
			p.server.MustDo(t, "SET", keys[1], released(noon+c.ahead), "PX", time.Hour.Milliseconds())
			replies := p.gather(keys, holds...)
			require.Len(t, replies, 3)
			require.Equal(t, []any{int64(1), digits(noon + c.ahead + 1), c.us, digits(noon)}, replies[1])
			require.Equal(t, heldBy(holds[1], noon+c.ahead+1+c.us-block, ""), p.valueOf(keys[1]))
		})
	}
}

// P10: a server whose memory is full says so, and takes nothing behind.
func TestWithFullMemoryNothingIsGathered(t *testing.T) {
	t.Parallel()
	p := newPlaceAt(t)
	keys, holds := p.three()
	p.fill()
	replies, err := p.tryKeys(scripts.ReentrantGather, keys, claimOf(holds[0]), lease, digits(noon+1), claimOf(holds[1]), lease, digits(noon+1),
		claimOf(holds[2]), lease, digits(noon+1))
	require.NoError(t, err)
	require.Len(t, replies, 1)
	for _, key := range keys {
		require.Nil(t, p.valueOf(key))
	}
}

// P10: many are given back when nothing else works, too: the first of them begins with what takes no memory.
func TestManyAreGivenBackWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newPlaceAt(t)
	keys, holds := p.three()
	var args []any
	for i, key := range keys {
		p.server.MustDo(t, "SET", key, heldBy(holds[i], noon, ""), "PX", 60_000)
		args = append(args, heldBy(holds[i], noon, ""), digits(noon), "PUBLISH", p.channel, keepMS)
	}
	p.fill()
	replies, err := p.tryKeys(scripts.ReentrantRelease, keys, args...)
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(1), int64(1)}, replies)
	for _, key := range keys {
		require.Equal(t, released(noon), p.valueOf(key))
	}
}
