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

// polling is a world in which each member polls at times of its own, as processes do: 0.8 to 1 s apart, late now and then, and soon
// after a message. world.runs lets all members poll in one instant, so no script ever sees a part of their polls.
type polling struct {
	*world

	random *rand.Rand
	late   int64 // by how much a poll is late at most
	due    map[*member]*schedule
}

// schedule is when a member does what next.
type schedule struct {
	poll     int64            // when it polls next
	drain    int64            // how long its functions need to return
	releases map[string]int64 // when the function of a shard that was asked for has returned
}

func newPolling(tb testing.TB, count int, random *rand.Rand) *polling {
	tb.Helper()
	return &polling{world: newWorld(newGroup(tb), count), random: random, due: make(map[*member]*schedule)}
}

// start starts a member.
func (p *polling) start(s settings, drain int64) *member {
	p.Helper()
	m := p.add(s)
	p.due[m] = &schedule{poll: p.clock, drain: drain, releases: make(map[string]int64)}
	return m
}

// next returns the member that acts next, and when.
func (p *polling) next() (*member, int64) {
	var first *member
	var at int64
	for _, m := range p.alive() {
		of := p.due[m]
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
func (p *polling) runs(span int64) {
	p.Helper()
	for end := p.clock + span; ; {
		m, at := p.next()
		if m == nil || at > end {
			p.passes(max(0, end-p.clock))
			return
		}
		p.passes(max(0, at-p.clock))
		p.acts(m)
	}
}

// acts lets a member release what its functions have left, or poll.
func (p *polling) acts(m *member) {
	p.Helper()
	of := p.due[m]
	for _, shard := range sortedKeys(of.releases) {
		if of.releases[shard] <= p.clock {
			delete(of.releases, shard)
			if m.owns[shard] != "" {
				m.release(shard, "r", 0)
				p.notify()
			}
			return
		}
	}
	more := m.poll()
	of.poll = p.clock + 800*millisecond + p.random.Int64N(200*millisecond)
	if p.late > 0 && p.random.IntN(4) == 0 {
		of.poll += p.random.Int64N(p.late)
	}
	if more {
		of.poll = p.clock + millisecond
	}
	for _, shard := range sortedKeys(m.due) {
		if _, known := of.releases[shard]; !known {
			of.releases[shard] = p.clock + of.drain
		}
	}
	p.notify()
}

// notify lets those poll soon that the last call has notified.
func (p *polling) notify() {
	for n := 1; n < len(p.messages); n += 2 {
		for _, m := range p.alive() {
			if m.number == p.messages[n] {
				of := p.due[m]
				of.poll = min(of.poll, p.clock+millisecond+p.random.Int64N(4*millisecond))
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
	for seed := range redistest.Rounds(8, 100) {
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
	p := newPolling(tb, 8+random.IntN(40), random)
	life, drain := []int64{5 * second, lease}[random.IntN(2)], random.Int64N(3*second)
	p.late = []int64{0, 1800 * millisecond}[random.IntN(2)]
	start := func() {
		s := defaults(p.count)
		s.lease = life
		if seed%2 == 1 {
			s.weight = 1 + random.IntN(4)
		}
		if random.IntN(4) == 0 {
			s.limit = 1 + random.IntN(p.count)
		}
		p.start(s, drain)
		p.runs(random.Int64N(300 * millisecond)) // others start at about the same time
	}
	for range 2 + random.IntN(4) {
		start()
	}
	for range 3 {
		p.runs(15*second + random.Int64N(30*second))
		p.crash(life, seed)
		if random.IntN(2) == 0 || len(p.alive()) < 2 {
			start()
		}
	}
	p.drop()
}

// crash kills a member of an even group.
func (p *polling) crash(life int64, seed int) {
	p.Helper()
	p.requireEven()
	dead := p.alive()[p.random.IntN(len(p.alive()))]
	orphans := len(dead.owns)
	p.counted()
	dead.kill()
	p.runs(life + 6*second)
	p.requireEven()
	free := p.count
	for _, load := range p.loads() {
		free -= load
	}
	moves, _ := p.counted()
	require.Equal(p, orphans-min(orphans, free), moves, "seed %d: moves for %d shards of the dead, %d of which no member takes", seed, orphans, free)
}
