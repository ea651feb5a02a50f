// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"
)

// figure is one number of a round.
type figure func(sample) float64

func rate(s sample) float64 { return float64(s.ops) / s.elapsed.Seconds() }

// per returns a figure divided by the operations of its round.
func per(f figure) figure {
	return func(s sample) float64 { return f(s) / float64(max(s.ops, 1)) }
}

func requests(s sample) float64  { return float64(s.used.requests) }
func commands(s sample) float64  { return float64(s.used.commands) }
func serverCPU(s sample) float64 { return s.used.serverCPU.Seconds() }
func clientCPU(s sample) float64 { return s.used.clientCPU.Seconds() }
func mallocs(s sample) float64   { return float64(s.used.mallocs) }
func bytes(s sample) float64     { return float64(s.used.bytes) }

// quantile returns a quantile of the waits of one round, in seconds.
func quantile(q float64) figure {
	return func(s sample) float64 { return s.waits.quantile(q).Seconds() }
}

// named returns a figure that only one work measures.
func named(name string) figure {
	return func(s sample) float64 { return s.figures[name] }
}

// median returns the median of a figure over the rounds.
func (s series) median(f figure) float64 {
	values := make([]float64, len(s.samples))
	for i, one := range s.samples {
		values[i] = f(one)
	}
	return median(values)
}

// ratio returns the median over the rounds of a figure's ratio to the other's in the same
// round.
func (s series) ratio(other series, f figure) float64 {
	values := make([]float64, 0, len(s.samples))
	for i, one := range s.samples {
		if base := f(other.samples[i]); base != 0 {
			values = append(values, f(one)/base)
		}
	}
	return median(values)
}

// waits returns the waits of all rounds.
func (s series) waits() *waits {
	all := new(waits)
	for _, one := range s.samples {
		all.merge(one.waits)
	}
	return all
}

// longest returns the longest wait of all rounds.
func (s series) longest() time.Duration { return s.waits().max }

// evenness returns the round whose least served goroutine had the median share of the most
// served one's operations.
func (s series) evenness() sample {
	sorted := slices.SortedFunc(slices.Values(s.samples), func(a, b sample) int {
		return a.least*max(b.most, 1) - b.least*max(a.most, 1)
	})
	return sorted[len(sorted)/2]
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	mid := len(values) / 2
	if len(values)%2 == 1 {
		return values[mid]
	}
	return (values[mid-1] + values[mid]) / 2
}

// find returns the series of an implementation, if it ran.
func find(all []series, name string) (series, bool) {
	i := slices.IndexFunc(all, func(s series) bool { return s.impl.name == name })
	if i < 0 {
		return series{}, false
	}
	return all[i], true
}

// bestPeer returns which other lock has the greatest median of a figure.
func bestPeer(all []series, f figure) (series, bool) {
	var best series
	for _, s := range all {
		if !s.impl.excludes || s.impl.name == ownName || s.impl.name == keptName || s.impl.name == fairName || s.impl.name == fencedName || s.impl.name == permitsName {
			continue
		}
		if best.samples == nil || s.median(f) > best.median(f) {
			best = s
		}
	}
	return best, best.samples != nil
}
