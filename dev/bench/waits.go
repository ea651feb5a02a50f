// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/bits"
	"time"
)

// A bin of waits is a 32nd of an octave wide: a quantile is exact to 3 %, and adding
// allocates nothing. 35 octaves above 32 ns reach beyond half an hour.
const (
	binsAnOctave = 32
	firstOctave  = 5 // log2 of binsAnOctave
	octaves      = 36
)

// waits is how long calls of Lock took.
type waits struct {
	bins [(octaves + 1) * binsAnOctave]uint32
	n    uint64
	max  time.Duration
}

func (w *waits) add(d time.Duration) {
	w.bins[bin(d)]++
	w.n++
	w.max = max(w.max, d)
}

func (w *waits) merge(other *waits) {
	for i, n := range other.bins {
		w.bins[i] += n
	}
	w.n += other.n
	w.max = max(w.max, other.max)
}

// quantile returns the wait that the share q of all waits does not exceed; 0 without waits.
func (w *waits) quantile(q float64) time.Duration {
	rank := uint64(q * float64(w.n))
	var seen uint64
	for i, n := range w.bins {
		seen += uint64(n)
		if seen > rank {
			return min(ceiling(i), w.max)
		}
	}
	return w.max
}

// bin returns the bin of d: below 32 ns one each nanosecond, from there on the octave and the
// five bits that follow the leading one.
func bin(d time.Duration) int {
	ns := uint64(max(d, 0))
	octave := max(bits.Len64(ns)-firstOctave-1, 0)
	return min(octave*binsAnOctave+int(ns>>octave), (octaves+1)*binsAnOctave-1)
}

// ceiling returns the longest wait of a bin.
func ceiling(i int) time.Duration {
	if i < 2*binsAnOctave {
		return time.Duration(i)
	}
	octave := i/binsAnOctave - 1
	return time.Duration((i-octave*binsAnOctave+1)<<octave - 1)
}
