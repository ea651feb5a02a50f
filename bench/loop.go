// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// crew says who works: each goroutine of each process locks and unlocks without a pause.
type crew struct {
	processes, each int
	// locker returns what goroutine i of all of them uses.
	locker func(ctx context.Context, p process, i int) locker
}

// sharing is a crew that wants one lock.
func sharing(processes, each int) crew {
	return crew{processes, each, func(ctx context.Context, p process, _ int) locker { return p.locker(ctx, "shared") }}
}

// manyProcesses is how many have clients with buffers of the usual size.
const manyProcesses = 16

// closedLoop measures a crew for a window, after a warm-up.
func (b *bench) closedLoop(impl implementation, c crew, window time.Duration) (one sample, err error) {
	processes, end, err := b.start(impl, c.processes, setup{lean: c.processes > manyProcesses})
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lockers := make([]locker, c.processes*c.each)
	for i := range lockers {
		lockers[i] = c.locker(ctx, processes[i/c.each], i)
	}
	if _, err := b.loop(ctx, impl, lockers, b.scale.warmUp); err != nil {
		return sample{}, err
	}
	runners, err := b.loop(ctx, impl, lockers, window)
	if err != nil {
		return sample{}, err
	}
	return runners.sample(), nil
}

// runner is one goroutine of a loop.
type runner struct {
	locker locker
	ops    int
	waits  waits
}

// shift is a loop that has run.
type shift struct {
	runners []*runner
	elapsed time.Duration
	used    usage
	stuck   int64 // goroutines that waited on although the lock was free
}

// loop runs the lockers for a window. What ends after the window is counted as a wait, so that
// the longest ones are seen, and not as an operation.
func (b *bench) loop(ctx context.Context, impl implementation, lockers []locker, window time.Duration) (*shift, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s := &shift{}
	for _, l := range lockers {
		s.runners = append(s.runners, &runner{locker: l})
	}
	m, err := begin(b.server)
	if err != nil {
		return nil, err
	}
	var stop atomic.Bool
	var running group
	began := time.Now()
	for _, r := range s.runners {
		running.run(func() {
			if err := r.run(ctx, &stop); err != nil {
				fail(err) // so that the others end; theirs are not the first
			}
		})
	}
	pause(ctx, window)
	stop.Store(true)
	s.elapsed = time.Since(began)
	s.used, err = m.end(impl.sends)
	s.stuck = running.wait(b.scale.patience, func() { fail(errStopped) })
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errStopped) {
		err = cause
	}
	return s, err
}

// deadline is that of each call, as a request has one: longer than any wait.
const deadline = time.Minute

func (r *runner) run(ctx context.Context, stop *atomic.Bool) error {
	for !stop.Load() {
		if err := r.once(ctx); err != nil {
			return err
		}
		if !stop.Load() {
			r.ops++
		}
	}
	return nil
}

// once takes the lock and releases it.
func (r *runner) once(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	asked := time.Now()
	unlock, err := r.locker.Lock(call)
	if err != nil {
		return over(ctx, fmt.Errorf("lock: %w", err))
	}
	r.waits.add(time.Since(asked))
	if err := unlock(); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

// sample adds the runners up.
func (s *shift) sample() sample {
	one := sample{elapsed: s.elapsed, used: s.used, waits: new(waits), stuck: s.stuck}
	ops := make([]int, len(s.runners))
	for i, r := range s.runners {
		ops[i] = r.ops
		one.ops += r.ops
		one.waits.merge(&r.waits)
	}
	one.least, one.most = slices.Min(ops), slices.Max(ops)
	return one
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
