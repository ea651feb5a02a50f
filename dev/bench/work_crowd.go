// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// holdFor is how long each process of a crowd has the lock: time enough for the last owner to
// try, fail and wait with the others. Without it the last two would hand the lock back and forth.
const holdFor = 2 * time.Millisecond

// crowd is a lock that a hundred processes wait for. A process that had it queues again when the
// next one has it, so that no owner acquires the lock that it has just released: each operation is
// a hand-off.
func crowd(b *bench) ([]table, error) {
	all, err := b.interleave(locks(b.chosen), b.scale.contendedRounds, b.crowded)
	columns := append(waitColumns("p50"), costColumns("hand-off")...)
	columns = append(columns, column{"hand-offs/s", medianOf(rate, number)})
	title := fmt.Sprintf("%d processes wait for one lock", b.scale.crowd)
	note := fmt.Sprintf("From the call of Unlock to the return of Lock in the next process, which holds the lock for %v and "+
		"queues again once the next one has it.", holdFor)
	return []table{tabulate(title, note, all, columns)}, err
}

// crowdTimes has the times at which the processes of a crowd get and release the lock.
type crowdTimes struct {
	mu struct {
		sync.Mutex
		releasedAt time.Time     // when the last owner called its unlock; zero before the first
		entered    chan struct{} // closes when the next one has entered
		waits      *waits
		ops        int
	}
}

// recordAcquired records that a process has the lock.
func (c *crowdTimes) recordAcquired() {
	at := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.releasedAt.IsZero() {
		c.mu.waits.add(at.Sub(c.mu.releasedAt))
		c.mu.ops++
		close(c.mu.entered)
	}
}

// recordRelease records that the holder is about to unlock. It returns a channel that is closed when the next process has the
// lock.
func (c *crowdTimes) recordRelease() <-chan struct{} {
	entered := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.entered = entered
	c.mu.releasedAt = time.Now()
	return entered
}

// countSince returns the operations and waits since the last call.
func (c *crowdTimes) countSince() (ops int, w *waits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ops, w = c.mu.ops, c.mu.waits
	c.mu.ops, c.mu.waits = 0, new(waits)
	return ops, w
}

func (b *bench) crowded(impl implementation) (one sample, err error) {
	processes, end, err := b.start(impl, b.scale.crowd, setup{lean: true})
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, stop := context.WithCancelCause(context.Background())
	c := new(crowdTimes)
	c.countSince()
	var running sync.WaitGroup
	for _, p := range processes {
		running.Go(func() {
			if err := c.run(ctx, p.locker(context.WithoutCancel(ctx), "crowd")); err != nil {
				stop(err)
			}
		})
	}
	one, err = b.watch(ctx, impl, c)
	stop(errStopped)
	running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, errStopped) {
		err = cause
	}
	return one, err
}

// watch measures the relay for a window, once it has run for a quarter of one: by then
// all clients wait.
func (b *bench) watch(ctx context.Context, impl implementation, c *crowdTimes) (one sample, err error) {
	pause(ctx, b.scale.contended/4)
	m, err := begin(b.server)
	if err != nil {
		return sample{}, err
	}
	c.countSince()
	began := time.Now()
	pause(ctx, b.scale.contended)
	one.ops, one.waits = c.countSince()
	one.elapsed = time.Since(began)
	one.used, err = m.end(impl.sends)
	return one, err
}

// run queues, enters and leaves until ctx ends.
func (c *crowdTimes) run(ctx context.Context, l locker) error {
	for ctx.Err() == nil {
		unlock, err := l.Lock(ctx)
		if err != nil {
			return over(ctx, fmt.Errorf("lock: %w", err))
		}
		c.recordAcquired()
		pause(ctx, holdFor)
		entered := c.recordRelease()
		if err := unlock(); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		select {
		case <-entered:
		case <-ctx.Done():
		}
	}
	return nil
}
