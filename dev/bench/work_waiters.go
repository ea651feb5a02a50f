// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// waiters is thousands of goroutines of one process that wait for locks which another process
// holds. It runs once.
func waiters(b *bench) ([]table, error) {
	all, err := b.interleave(locks(b.chosen), 1, b.wait)
	title := fmt.Sprintf("%s goroutines wait for %d locks of another process", number(float64(b.scale.waiters)), b.scale.waited)
	note := fmt.Sprintf("Idle is measured for %v; then all locks are released, and each waiter unlocks as soon as it has its lock.", b.scale.idle) + leftWaiting(all)
	second := func(f figure) figure {
		return func(s sample) float64 { return f(s) / s.elapsed.Seconds() }
	}
	return []table{tabulate(title, note, all, []column{
		{"idle requests/s", medianOf(second(requests), number)},
		{"idle commands/s", medianOf(second(commands), number)},
		{"server CPU", medianOf(second(serverCPU), percent)},
		{"client CPU", medianOf(second(clientCPU), percent)},
		{"heap/waiter", medianOf(named("heap"), size)},
		{"stack/waiter", medianOf(named("stacks"), size)},
		{"goroutines", medianOf(named("goroutines"), number)},
		{"all done in", medianOf(named("through"), span)},
	})}, err
}

func (b *bench) wait(impl implementation) (one sample, err error) {
	processes, end, err := b.start(impl, 2, setup{})
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	unlocks := make([]func() error, b.scale.waited)
	err = spread(ctx, len(unlocks), func(_ context.Context, i int) (err error) {
		unlocks[i], err = processes[0].locker(ctx, numbered("waited/", i)).Lock(ctx)
		return err
	})
	if err != nil {
		return sample{}, fmt.Errorf("lock: %w", err)
	}
	if err := warm(ctx, processes[1]); err != nil {
		return sample{}, err
	}
	before := remains()
	var running group
	for i := range b.scale.waiters {
		running.run(func() {
			err := waitAndUnlock(ctx, processes[1], numbered("waited/", i%b.scale.waited))
			if err := over(ctx, err); err != nil {
				cancel(err)
			}
		})
	}
	one, err = b.watchWaiters(ctx, impl, before)
	if err != nil {
		cancel(err)
	}
	began := time.Now()
	err = spread(ctx, len(unlocks), func(_ context.Context, i int) error { return unlocks[i]() })
	one.stuck = running.wait(b.scale.patience, func() { cancel(errStopped) })
	one.figures["through"] = time.Since(began).Seconds()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errStopped) {
		err = errors.Join(err, cause)
	}
	return one, err
}

func waitAndUnlock(ctx context.Context, p process, name string) error {
	unlock, err := p.locker(ctx, name).Lock(ctx)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return unlock()
}

// watchWaiters measures what waiting costs, once it has settled.
func (b *bench) watchWaiters(ctx context.Context, impl implementation, before memory) (one sample, err error) {
	pause(ctx, b.scale.quietFor)
	one.figures = make(map[string]float64)
	after := remains()
	one.figures["heap"], one.figures["stacks"] = after.eachOf(b.scale.waiters, before)
	one.figures["goroutines"] = float64(after.goroutines - before.goroutines)
	m, err := begin(b.server)
	if err != nil {
		return one, err
	}
	began := time.Now()
	pause(ctx, b.scale.idle)
	one.elapsed = time.Since(began)
	one.used, err = m.end(impl.sends)
	return one, err
}
