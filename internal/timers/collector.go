// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"sync"
	"time"
)

// Collector gathers values that come one by one and are worth doing together:
//
//  1. A value is handed to the work function once, at the next tick of the timers, with every other value that was put
//     until then. Put never blocks and starts no goroutine.
//  2. The work function runs on a goroutine of its own, which exists only while it runs. Two batches may be worked on
//     at the same time.
//  3. After Close nothing is worked on, and Close has waited for the work under way.
type Collector[T any] struct {
	timers *Timers
	work   func([]T)
	flush  Timer
	wg     sync.WaitGroup // goroutines in work

	mu struct {
		sync.Mutex
		batch  []T
		closed bool
	}
}

// NewCollector returns a Collector that hands what it gathered to work.
func NewCollector[T any](t *Timers, work func([]T)) *Collector[T] {
	c := &Collector[T]{timers: t, work: work}
	c.flush.Init(c)
	return c
}

// Put adds values to the current batch.
func (c *Collector[T]) Put(values ...T) {
	c.mu.Lock()
	first := len(c.mu.batch) == 0 && !c.mu.closed
	if !c.mu.closed {
		c.mu.batch = append(c.mu.batch, values...)
	}
	c.mu.Unlock()
	if first {
		// One tick later everything that falls due in this tick has been put.
		c.timers.Schedule(&c.flush, time.Millisecond)
	}
}

// Fire implements Firer: the batch is complete.
func (c *Collector[T]) Fire() {
	c.mu.Lock()
	batch := c.mu.batch
	c.mu.batch = nil
	if c.mu.closed || len(batch) == 0 {
		c.mu.Unlock()
		return
	}
	// Under the lock, so that Close, which sets closed first, waits for this one.
	c.wg.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.wg.Done()
		c.work(batch)
	}()
}

// Close drops the current batch and waits for the work under way.
func (c *Collector[T]) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.batch = nil
	c.mu.Unlock()
	c.timers.Cancel(&c.flush)
	c.wg.Wait()
}
