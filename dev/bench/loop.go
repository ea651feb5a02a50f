// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// topology says who works: each goroutine of each process locks and unlocks without a pause.
type topology struct {
	processes, each int
	// locker returns what goroutine i of all of them uses.
	locker func(ctx context.Context, p process, i int) locker
}

// sharing is a crew that wants one lock.
func sharing(processes, each int) topology {
	return topology{processes, each, func(ctx context.Context, p process, _ int) locker { return p.locker(ctx, "shared") }}
}

// manyProcesses is how many have clients with buffers of the usual size.
const manyProcesses = 16

// closedLoop measures a crew for a window, after a warm-up.
func (b *bench) closedLoop(impl implementation, t topology, window time.Duration) (one sample, err error) {
	processes, end, err := b.start(impl, t.processes, setup{lean: t.processes > manyProcesses})
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lockers := make([]locker, t.processes*t.each)
	for i := range lockers {
		lockers[i] = t.locker(ctx, processes[i/t.each], i)
	}
	done, err := b.loop(ctx, impl, lockers, window)
	if err != nil {
		return sample{}, err
	}
	return done.sample(), nil
}

// runner is one goroutine of a loop. Its fields are its own until it has ended.
type runner struct {
	loop    *loopRun
	locker  locker
	ops     int
	waits   waits
	cutWait time.Duration // how long it had waited when it was given up; 0 if it was not
}

// loopRun is a loop.
type loopRun struct {
	counts, over atomic.Bool // the warm-up is over; the window is
	runners      []*runner
	elapsed      time.Duration
	used         usage
	stuck        int64 // goroutines that were given up
}

// loop runs the lockers for a warm-up, and then for a window, which counts. A wait that ends in the window or after it is
// counted, so that the longest ones are seen; an operation that ends after it is not.
func (b *bench) loop(ctx context.Context, impl implementation, lockers []locker, window time.Duration) (*loopRun, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	lr := &loopRun{}
	for _, l := range lockers {
		lr.runners = append(lr.runners, &runner{loop: lr, locker: l})
	}
	var running group
	for _, r := range lr.runners {
		running.run(func() {
			if err := r.run(ctx); err != nil {
				fail(err) // so that the others end; theirs are not the first
			}
		})
	}
	pause(ctx, b.scale.warmUp)
	if err := lr.count(ctx, b.server, impl, window); err != nil {
		fail(err)
	}
	lr.stuck = running.wait(b.scale.patience, func() { fail(errStopped) })
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errStopped) {
		return nil, cause
	}
	return lr, nil
}

// count lets the runners count for a window, and measures what is used in it.
func (l *loopRun) count(ctx context.Context, server *redistest.Server, impl implementation, window time.Duration) error {
	defer l.over.Store(true) // whatever fails
	m, err := begin(server)
	if err != nil {
		return err
	}
	began := time.Now()
	l.counts.Store(true)
	pause(ctx, window)
	l.over.Store(true)
	l.elapsed = time.Since(began)
	l.used, err = m.end(impl.sends)
	return err
}

// deadline is that of each call, as a request has one: longer than any wait.
const deadline = time.Minute

func (r *runner) run(ctx context.Context) error {
	for !r.loop.over.Load() {
		if err := r.once(ctx); err != nil {
			return err
		}
		if r.loop.counts.Load() && !r.loop.over.Load() {
			r.ops++
		}
	}
	return nil
}

// once acquires the lock and releases it.
func (r *runner) once(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	requested := time.Now()
	unlock, err := r.locker.Lock(call)
	if err != nil {
		r.cutWait = time.Since(requested)
		return over(ctx, fmt.Errorf("lock: %w", err))
	}
	if r.loop.counts.Load() {
		r.waits.add(time.Since(requested))
	}
	if err := unlock(); err != nil {
		return over(ctx, fmt.Errorf("unlock: %w", err)) // thousands that give up at once may delay its reply for too long
	}
	return nil
}

// sample adds the runners up.
func (l *loopRun) sample() sample {
	one := sample{elapsed: l.elapsed, used: l.used, waits: new(waits), cutWaits: new(waits), stuck: l.stuck}
	ops := make([]int, len(l.runners))
	for i, r := range l.runners {
		ops[i] = r.ops
		one.ops += r.ops
		one.waits.merge(&r.waits)
		if r.cutWait > 0 {
			one.cutWaits.add(r.cutWait)
		}
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
