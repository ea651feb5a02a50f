// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// cases is how many random changes a test makes.
func cases() int { return redistest.Rounds(60, 3000) }

// parts returns the members that poll, as the reference knows them.
func (w *world) parts() (all []part) {
	for _, m := range w.alive() {
		all = append(all, part{m.weight, m.limit})
	}
	return all
}

// requireEven checks that each shard has an owner, as far as limits allow, and that no move improves the loads.
func (w *world) requireEven() {
	w.Helper()
	sum := 0
	for _, load := range w.loads() {
		sum += load
	}
	require.Equal(w, min(w.count, capacity(w.parts())), sum, "owned")
	require.True(w, isBest(w.loads(), w.parts()), "%v %v", w.loads(), w.parts())
	w.audit()
}

// A quiet change moves as few shards as the reference finds: joins within RebalanceDelay, and the leaves that follow in it.
func TestAQuietChangeMovesTheFewest(t *testing.T) {
	t.Parallel()
	for seed := range cases() {
		random := rand.New(rand.NewPCG(1, uint64(seed)))
		w := newWorld(newGroup(t), 1+random.IntN(12))
		some := func() settings {
			s := defaults(w.count)
			if seed%2 == 1 {
				s.weight = 1 + random.IntN(4)
			}
			return s
		}
		for range 1 + random.IntN(4) {
			w.add(some())
		}
		w.runs(8*second, second)
		w.requireEven()
		for range 2 {
			w.requireFewestMoves(random, some)
		}
		w.drop()
	}
}

func (w *world) requireFewestMoves(random *rand.Rand, some func() settings) {
	w.Helper()
	before := w.alive()
	for range random.IntN(3) {
		w.add(some())
	}
	for _, m := range w.alive() {
		m.polls()
	}
	owned, leavers := make(map[*member]int), []*member(nil)
	for _, m := range before {
		owned[m] = len(m.owns)
	}
	for range random.IntN(min(3, len(w.alive()))) {
		if rest := w.alive(); len(rest) > 1 {
			leaver := rest[random.IntN(len(rest))]
			leaver.leave()
			leaver.isGone, leavers = true, append(leavers, leaver)
		}
	}
	for _, m := range leavers {
		m.goes()
	}
	now := make([]int, len(w.alive()))
	for i, m := range w.alive() {
		now[i] = owned[m]
	}
	w.moves = 0
	w.runs(6*second, second)
	w.requireEven()
	require.Equal(w, fewestMoves(w.count, w.parts(), now), w.moves, "moves of %d among %v from %v", w.count, w.parts(), now)
}
