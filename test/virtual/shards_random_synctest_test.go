// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/shards"
)

const (
	randomShards = 40
	// randomEvents is how many events a group sees.
	randomEvents = 40
	// mostRandomMembers is how many members there are at most.
	mostRandomMembers = 12
	// mostDrain is how long a function needs to return at most.
	mostDrain = 3 * time.Second
)

// randomGroup is a group to which things happen at random.
type randomGroup struct {
	*shardLog

	random  *rand.Rand
	members []*shardMember
	ahead   atomic.Int64 // by how much the server's clock is wrong
}

func (g *randomGroup) upTo(d time.Duration) time.Duration {
	return time.Duration(g.random.Int64N(int64(d)))
}

func (g *randomGroup) start() {
	m := g.member(shards.Count(randomShards), g.upTo(mostDrain))
	m.wire.latency.Store(int64(g.upTo(20 * time.Millisecond)))
	g.members = append(g.members, m)
}

// takeOne removes a member from the list, and returns it. It returns nil if there is one alone.
func (g *randomGroup) takeOne() *shardMember {
	if len(g.members) == 1 {
		return nil
	}
	i := g.random.IntN(len(g.members))
	m := g.members[i]
	g.members = append(g.members[:i], g.members[i+1:]...)
	return m
}

// event makes one thing happen. Of n kinds the last one is a clock that jumps.
func (g *randomGroup) event(n int) {
	time.Sleep(g.upTo(10 * time.Second))
	one := g.members[g.random.IntN(len(g.members))]
	switch g.random.IntN(n) {
	case 0, 1:
		if len(g.members) < mostRandomMembers {
			g.start()
		}
	case 2:
		if m := g.takeOne(); m != nil {
			m.cancel()
		}
	case 3:
		if m := g.takeOne(); m != nil {
			m.kill()
		}
	case 4:
		one.wire.goSilent()
		time.Sleep(g.upTo(25 * time.Second))
		one.wire.heal()
	case 5:
		one.wire.losesMessages.Store(g.random.IntN(2) == 0)
	case 6:
		one.wire.swallowsReplies.Store(true)
		time.Sleep(g.upTo(2 * time.Second))
		one.wire.heal()
	default:
		g.jump()
	}
}

// jump sets the server's clock, back or ahead. By the promise all members reach the server within two seconds then, and a step
// ahead is one that the server notices.
func (g *randomGroup) jump() {
	time.Sleep(5 * time.Second) // who was silent is back
	step := 4*time.Second + g.upTo(20*time.Second)
	if g.random.IntN(2) == 0 {
		step = -g.upTo(20 * time.Second)
	}
	g.ahead.Add(int64(step))
	time.Sleep(5 * time.Second)
}

// playShards plays the events of a seed: no shard ever has two owners, and in the end the loads are even. The clock jumps if the
// seed is odd.
func playShards(t *testing.T, seed uint64) {
	t.Helper()
	bubbleOfUsers(t, func(w *fixture) {
		g := &randomGroup{shardLog: newShardLog(w), random: rand.New(rand.NewPCG(seed, 1))}
		kinds := 7
		if seed%2 == 1 {
			kinds = 8
			w.skewed(func() time.Duration { return time.Duration(g.ahead.Load()) })
		}
		for range 3 {
			g.start()
		}
		for range randomEvents {
			g.event(kinds)
		}
		took := g.untilEven(randomShards, g.members...)
		late := g.late()
		moves, gaps := g.reset()
		t.Logf("seed %d: %d members, even after %v, %d moves, %d beside one of a lost lease, longest gap %v",
			seed, len(g.members), took, moves, late, at(gaps, 1))
		g.requireSound()
	})
}

// P1, P3, P5: members come, leave, die and lose touch at random, messages and replies are lost, and clocks jump.
func TestShardsUnderRandomEvents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		playShards(t, seed)
	}
}

// SIGNALBOX_WALK=123 plays that seed alone.
func TestSoakShardsUnderRandomEvents(t *testing.T) {
	t.Parallel()
	more := locktest.Soak(t)
	first := uint64(0)
	if text := os.Getenv("SIGNALBOX_WALK"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		first, more = n, func() bool { return false }
		playShards(t, n)
	}
	seed := first
	for ; more(); seed++ {
		playShards(t, seed)
	}
	t.Logf("%d seeds", seed-first)
}
