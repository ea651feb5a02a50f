// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"
)

// remote is one goroutine of another process against 64 of one process, on one lock.
func remote(b *bench) ([]table, error) {
	all, err := b.interleave(locks(b.chosen), b.scale.contendedRounds, b.outnumbered)
	columns := waitColumns("its wait p50")
	columns = append(columns,
		column{"its ops/s", medianOf(rate, number)},
		column{"ops/s of the 64", medianOf(named("local"), number)},
	)
	return []table{tabulate("1 goroutine of another process against 64 of one, one lock",
		"All of them lock and unlock without a pause."+leftWaiting(all), all, columns)}, err
}

func (b *bench) outnumbered(impl implementation) (one sample, err error) {
	processes, end, err := b.start(impl, 2, setup{})
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const local = 64
	lockers := make([]locker, 0, local+1)
	for range local {
		lockers = append(lockers, processes[0].locker(ctx, "shared"))
	}
	lockers = append(lockers, processes[1].locker(ctx, "shared"))
	l, err := b.loop(ctx, impl, lockers, b.scale.contended)
	if err != nil {
		return sample{}, err
	}
	one = separate(l.runners[:local], l.runners[local], l.elapsed)
	one.stuck = l.stuck
	return one, nil
}

// separate keeps the remote runner apart from the local ones.
func separate(locals []*runner, remote *runner, elapsed time.Duration) sample {
	ops := 0
	for _, r := range locals {
		ops += r.ops
	}
	return sample{
		ops:     remote.ops,
		elapsed: elapsed,
		waits:   &remote.waits,
		figures: map[string]float64{"local": float64(ops) / elapsed.Seconds()},
	}
}
