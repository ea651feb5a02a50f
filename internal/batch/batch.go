// SPDX-License-Identifier: Apache-2.0

// Package batch gathers things that come one by one and are worth doing together.
//
// # Guarantees
//
//  1. What is put is handed to the work function once, at the next tick of the timers, with
//     everything else that was put until then. Put never blocks and starts no goroutine.
//  2. The work function runs on a goroutine of its own that exists only while it runs. Two
//     hauls may be worked on at the same time.
//  3. After Close nothing is worked on, and Close has waited for what was.
package batch

import (
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wheel"
)

// Collector gathers values of type T.
type Collector[T any] struct {
	timers *timers.Timers
	work   func([]T)
	flush  wheel.Entry
	wg     sync.WaitGroup // goroutines in work

	mu struct {
		sync.Mutex
		haul   []T
		closed bool
	}
}

// New answers a Collector that hands what it gathered to work.
func New[T any](t *timers.Timers, work func([]T)) *Collector[T] {
	c := &Collector[T]{timers: t, work: work}
	c.flush.Init(c)
	return c
}

// Put adds values to the present haul.
func (c *Collector[T]) Put(values ...T) {
	c.mu.Lock()
	first := len(c.mu.haul) == 0 && !c.mu.closed
	if !c.mu.closed {
		c.mu.haul = append(c.mu.haul, values...)
	}
	c.mu.Unlock()
	if first {
		// One tick later everything that falls due in this tick has been put.
		c.timers.Schedule(&c.flush, time.Millisecond)
	}
}

// Fire implements wheel.Event: the haul is complete.
func (c *Collector[T]) Fire() {
	c.mu.Lock()
	haul := c.mu.haul
	c.mu.haul = nil
	if c.mu.closed || len(haul) == 0 {
		c.mu.Unlock()
		return
	}
	// Under the lock, so that Close, which sets closed first, waits for this one.
	c.wg.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.wg.Done()
		c.work(haul)
	}()
}

// Close ends the collecting and waits for the work under way.
func (c *Collector[T]) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.haul = nil
	c.mu.Unlock()
	c.timers.Cancel(&c.flush)
	c.wg.Wait()
}
