// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// beats is a world in which each member polls at times of its own, as processes do: 0.8 to 1 s apart, late now and then, and soon
// after a message. world.runs lets all members poll in one instant, so no script ever sees a part of their polls.
type beats struct {
	*world

	random *rand.Rand
	late   int64 // by how much a poll is late at most
	beats  map[*member]*beat
}

// beat is when a member does what next.
type beat struct {
	poll     int64            // when it polls next
	drain    int64            // how long its functions need to return
	releases map[string]int64 // when the function of a shard that was asked for has returned
}

func newBeats(tb testing.TB, count int, random *rand.Rand) *beats {
	tb.Helper()
	return &beats{world: newWorld(newGroup(tb), count), random: random, beats: make(map[*member]*beat)}
}

// start starts a member.
func (b *beats) start(s settings, drain int64) *member {
	b.Helper()
	m := b.add(s)
	b.beats[m] = &beat{poll: b.clock, drain: drain, releases: make(map[string]int64)}
	return m
}

// next returns the member that acts next, and when.
func (b *beats) next() (*member, int64) {
	var first *member
	var at int64
	for _, m := range b.alive() {
		of := b.beats[m]
		due := of.poll
		for _, release := range of.releases {
			due = min(due, release)
		}
		if first == nil || due < at {
			first, at = m, due
		}
	}
	return first, at
}

// runs lets time pass.
func (b *beats) runs(span int64) {
	b.Helper()
	for end := b.clock + span; ; {
		m, at := b.next()
		if m == nil || at > end {
			b.passes(max(0, end-b.clock))
			return
		}
		b.passes(max(0, at-b.clock))
		b.acts(m)
	}
}

// acts lets a member release what its functions have left, or poll.
func (b *beats) acts(m *member) {
	b.Helper()
	of := b.beats[m]
	for _, shard := range sortedKeys(of.releases) {
		if of.releases[shard] <= b.clock {
			delete(of.releases, shard)
			if m.owns[shard] != "" {
				m.release(shard, "r", 0)
				b.hear()
			}
			return
		}
	}
	more := m.poll()
	of.poll = b.clock + 800*millisecond + b.random.Int64N(200*millisecond)
	if b.late > 0 && b.random.IntN(4) == 0 {
		of.poll += b.random.Int64N(b.late)
	}
	if more {
		of.poll = b.clock + millisecond
	}
	for _, shard := range sortedKeys(m.due) {
		if _, known := of.releases[shard]; !known {
			of.releases[shard] = b.clock + of.drain
		}
	}
	b.hear()
}

// hear lets those poll soon that the last call has notified.
func (b *beats) hear() {
	for n := 1; n < len(b.messages); n += 2 {
		for _, m := range b.alive() {
			if m.number == b.messages[n] {
				of := b.beats[m]
				of.poll = min(of.poll, b.clock+millisecond+b.random.Int64N(4*millisecond))
			}
		}
	}
}

func sortedKeys[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, cmp.Compare[string])
	return keys
}

// A crash moves the shards of the dead member, and no other, whenever the members started and polled, whatever their weights and
// limits are, and however long functions drain.
func TestACrashMovesTheShardsOfTheDeadAlone(t *testing.T) {
	t.Parallel()
	for seed := range redistest.Rounds(8, 300) {
		crashes(t, seed)
	}
}

// movesOrphansAlone is the same for a mistake, which it has to find.
func movesOrphansAlone(tb testing.TB) {
	tb.Helper()
	for seed := range 60 {
		crashes(tb, seed)
	}
}

// crashes lets members come and die, one after the other.
func crashes(tb testing.TB, seed int) {
	tb.Helper()
	random := rand.New(rand.NewPCG(3, uint64(seed)))
	b := newBeats(tb, 8+random.IntN(40), random)
	life, drain := []int64{5 * second, lease}[random.IntN(2)], random.Int64N(3*second)
	b.late = []int64{0, 1800 * millisecond}[random.IntN(2)]
	start := func() {
		s := defaults(b.count)
		s.lease = life
		if seed%2 == 1 {
			s.weight = 1 + random.IntN(4)
		}
		if random.IntN(4) == 0 {
			s.limit = 1 + random.IntN(b.count)
		}
		b.start(s, drain)
		b.runs(random.Int64N(300 * millisecond)) // others start at about the same time
	}
	for range 2 + random.IntN(4) {
		start()
	}
	for range 3 {
		b.runs(15*second + random.Int64N(30*second))
		b.crash(life, seed)
		if random.IntN(2) == 0 || len(b.alive()) < 2 {
			start()
		}
	}
	b.drop()
}

// crash kills a member of an even group.
func (b *beats) crash(life int64, seed int) {
	b.Helper()
	b.requireEven()
	dead := b.alive()[b.random.IntN(len(b.alive()))]
	orphans := len(dead.owns)
	b.counted()
	dead.kill()
	b.runs(life + 6*second)
	b.requireEven()
	free := b.count
	for _, load := range b.loads() {
		free -= load
	}
	moves, _ := b.counted()
	require.Equal(b, orphans-min(orphans, free), moves, "seed %d: moves for %d shards of the dead, %d of which no member takes", seed, orphans, free)
}
