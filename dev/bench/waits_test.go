// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantilesAreExactToABin(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	w := new(waits)
	all := make([]time.Duration, 10_000)
	for i := range all {
		all[i] = time.Duration(1) << rnd.IntN(40)
		all[i] += time.Duration(rnd.Int64N(int64(all[i])))
		w.add(all[i])
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999} {
		exact := all[int(q*float64(len(all)))]
		require.GreaterOrEqual(t, w.quantile(q), exact, q)
		require.LessOrEqual(t, w.quantile(q), exact+exact/binsAnOctave, q)
	}
	require.Equal(t, all[len(all)-1], w.max)
	require.Equal(t, w.max, w.quantile(1))
}

func TestEveryWaitHasABin(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{-1, 0, 1, 31, 32, 63, 64, 65, time.Second, time.Hour, 1<<63 - 1} {
		i := bin(d)
		require.GreaterOrEqual(t, i, 0, d)
		require.Less(t, i, len(new(waits).bins), d)
	}
	for i := range (octaves + 1) * binsAnOctave {
		require.Equal(t, i, bin(ceiling(i)))
	}
}

func TestMergedWaitsAreThoseOfBoth(t *testing.T) {
	t.Parallel()
	a, b, both := new(waits), new(waits), new(waits)
	for i := range 1000 {
		d := time.Duration(i) * time.Microsecond
		both.add(d)
		if i%3 == 0 {
			a.add(d)
		} else {
			b.add(d)
		}
	}
	a.merge(b)
	require.Equal(t, both, a)
}

func TestAddingAWaitAllocatesNothing(t *testing.T) {
	w := new(waits)
	require.Zero(t, testing.AllocsPerRun(100, func() { w.add(time.Millisecond) }))
}
