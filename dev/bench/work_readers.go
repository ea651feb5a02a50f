// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// read is 64 goroutines of one process that read one lock.
func read(b *bench) ([]table, error) {
	all, err := b.interleave(readers(), b.scale.contendedRounds, func(impl implementation) (sample, error) {
		return b.closedLoop(impl, sharing(1, 64), b.scale.contended)
	})
	if err != nil || len(all[0].samples) == 0 {
		return nil, err
	}
	columns := []column{{"ops/s", medianOf(rate, number)}, {"to limit", toLimit(rate)}}
	columns = append(columns, costColumns("op")...)
	columns = append(columns, waitColumns("wait p50")...)
	columns = append(columns, column{"least/most served", served})
	return []table{tabulate("64 goroutines of one process read one lock",
		"The limit counts readers in a hash, two scripts a reader, and is no lock.", all, columns)}, nil
}

// readRelease is what it costs the server that one of many readers leaves.
func readRelease(b *bench) ([]table, error) {
	t := table{
		title: "The server's time for a reader's release, by readers",
		note: "The server's time in scripts for the release of one reader, by its own statistics, while so many others read. Each has a hold " +
			"of its own.",
		header: []string{"readers", "releases", "server time/release", "to the first row"},
	}
	crowds := []int{1, b.scale.readers}
	times, ratios := make([][]float64, len(crowds)), make([][]float64, len(crowds))
	for range b.scale.contendedRounds {
		var first float64
		for i, n := range crowds {
			each, err := b.releaseBeside(n)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				first = each
			}
			times[i], ratios[i] = append(times[i], each), append(ratios[i], each/first)
		}
	}
	for i, n := range crowds {
		t.rows = append(t.rows,
			[]string{number(float64(n)), number(float64(b.scale.releases)), span(median(times[i])), share(median(ratios[i]))})
	}
	return []table{t}, nil
}

// releaseBeside returns the server's seconds for the release of one reader beside n others.
func (b *bench) releaseBeside(n int) (each float64, err error) {
	if err := b.clear(); err != nil {
		return 0, err
	}
	// A lease that is not renewed meanwhile: the scripts are to be releases.
	processes, end, err := b.start(ownReader(), 2, setup{lease: time.Hour})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The readers that stay, and the readers that leave one after the other.
	unlocks := make([]func() error, n+b.scale.releases)
	err = spread(ctx, len(unlocks), func(ctx context.Context, i int) (err error) {
		unlocks[i], err = processes[i%2].locker(ctx, "read").Lock(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	before := b.server.CommandStats()
	for _, unlock := range unlocks[n:] {
		if err := unlock(); err != nil {
			return 0, err
		}
	}
	each = scriptTime(before, b.server.CommandStats()).Seconds() / float64(b.scale.releases)
	return each, spread(ctx, n, func(_ context.Context, i int) error { return unlocks[i]() })
}

// drain is many readers that wait for a writer, and all come in when it is done.
func drain(b *bench) ([]table, error) {
	t := table{
		title:  "Many readers wait for one writer",
		note:   "From the writer's Unlock to when the last of them has read and unlocked. Each has a hold of its own; they are goroutines of four processes.",
		header: []string{"readers", "all done in", "server time in scripts"},
	}
	took, scripts, err := b.drainReaders(b.scale.readers)
	if err != nil {
		return nil, err
	}
	t.rows = append(t.rows, []string{number(float64(b.scale.readers)), span(took.Seconds()), span(scripts.Seconds())})
	return []table{t}, nil
}

func (b *bench) drainReaders(n int) (took, inScripts time.Duration, err error) {
	if err := b.clear(); err != nil {
		return 0, 0, err
	}
	processes, end, err := b.start(ownReader(), 4, setup{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	writers, endWriter, err := b.start(writer(), 1, setup{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, endWriter()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	unlock, err := writers[0].locker(ctx, "drain").Lock(ctx)
	if err != nil {
		return 0, 0, err
	}
	var running sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		l := processes[i%len(processes)].locker(ctx, "drain")
		running.Go(func() {
			done, err := l.Lock(ctx)
			if err == nil {
				err = done()
			}
			errs[i] = err
		})
	}
	if err := b.awaitTickets("sb:{drain}:readers", n); err != nil {
		cancel()
		running.Wait()
		return 0, 0, err
	}
	before, began := b.server.CommandStats(), time.Now()
	err = unlock()
	running.Wait()
	took = time.Since(began)
	return took, scriptTime(before, b.server.CommandStats()), errors.Join(append(errs, err)...)
}
