// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// permitsWork is goroutines that want a permit of eight, 64 of one process, and 8 of each of eight: without a pause, and
// with work that takes a while, as what a semaphore bounds does.
func permitsWork(b *bench) ([]table, error) {
	var tables []table
	for _, held := range []time.Duration{0, permitsHeld} {
		how := "no pause"
		if held > 0 {
			how = fmt.Sprintf("each held for %v, at most %d a second", held, permits*time.Second/held)
		}
		one, err := b.wantPermits(1, 64, held)
		if err != nil {
			return nil, err
		}
		many, err := b.wantPermits(8, 8, held)
		if err != nil {
			return nil, err
		}
		tables = append(tables,
			b.loopTable("64 goroutines of one process, 8 permits, "+how, one),
			b.loopTable("8 processes, 8 permits, 8 goroutines each, "+how, many))
	}
	return tables, nil
}

// permitsHeld is how long a permit is held that is held for a while.
const permitsHeld = 5 * time.Millisecond

func (b *bench) wantPermits(processes, each int, held time.Duration) ([]series, error) {
	return b.interleave(permitImplementations(processes), b.scale.contendedRounds, func(impl implementation) (sample, error) {
		t := topology{processes, each, func(ctx context.Context, p process, i int) locker {
			return holdingLocker{p.locker(ctx, slot(impl, i)), held}
		}}
		return b.closedLoop(impl, t, b.scale.contended)
	})
}

// holdingLocker is a locker whose holder keeps the lock for a while.
type holdingLocker struct {
	locker

	held time.Duration
}

// Lock implements locker.
func (l holdingLocker) Lock(ctx context.Context) (func() error, error) {
	unlock, err := l.locker.Lock(ctx)
	if err != nil || l.held == 0 {
		return unlock, err
	}
	return func() error {
		l.hold(ctx)
		return unlock()
	}, nil
}

// hold computes for less than a millisecond, for which timers are too coarse, and sleeps for more.
func (l holdingLocker) hold(ctx context.Context) {
	if l.held >= time.Millisecond {
		pause(ctx, l.held)
		return
	}
	for began := time.Now(); time.Since(began) < l.held; {
	}
}

// permitsOut is what it costs the server that many permits are held: its time in scripts for one Acquire and Unlock.
func permitsOut(b *bench) ([]table, error) {
	t := table{
		title:  "The server's time for a permit, by permits held",
		note:   "The server's time in scripts for one Acquire and Unlock of a free permit, by its own statistics, while others hold so many.",
		header: []string{"held", "operations", "server time/operation", "to the first row"},
	}
	var first float64
	for _, n := range []int{b.scale.fewHeldPermits, b.scale.manyHeldPermits} {
		ops, each, err := b.acquireBeside(n)
		if err != nil {
			return nil, err
		}
		if first == 0 {
			first = each
		}
		t.rows = append(t.rows, []string{number(float64(n)), number(float64(ops)), span(each), share(each / first)})
	}
	return []table{t}, nil
}

// acquireBeside acquires and releases one permit for a window while n are held, and returns the server's seconds for
// each time.
func (b *bench) acquireBeside(n int) (ops int, each float64, err error) {
	if err := b.clear(); err != nil {
		return 0, 0, err
	}
	processes, end, err := b.start(signalboxPermits(n+1), 2, setup{lease: 10 * time.Minute})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx := context.Background()
	all, is := processes[0].(holder)
	if !is {
		return 0, 0, errors.New("it keeps nothing")
	}
	kept := all.keeper(n)
	if err := spread(ctx, n, func(_ context.Context, i int) error { return kept.keep(ctx, i, "out") }); err != nil {
		return 0, 0, err
	}
	defer func() {
		err = errors.Join(err, spread(ctx, n, func(_ context.Context, i int) error { return kept.drop(i) }))
	}()
	l := processes[1].locker(ctx, "out")
	before := b.server.CommandStats()
	for began := time.Now(); time.Since(began) < b.scale.window; ops++ {
		unlock, err := l.Lock(ctx)
		if err == nil {
			err = unlock()
		}
		if err != nil {
			return 0, 0, fmt.Errorf("beside %d: %w", n, err)
		}
	}
	return ops, scriptTime(before, b.server.CommandStats()).Seconds() / float64(ops), nil
}
