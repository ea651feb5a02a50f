// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"runtime"
	"sync"
)

// memory is what this process keeps.
type memory struct {
	heap, stacks uint64
	goroutines   int
}

// remains returns what is kept after a garbage collection. It collects twice: the first one
// only moves what pools hold to where the second frees it.
func remains() memory {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{m.HeapAlloc, m.StackInuse, runtime.NumGoroutine()}
}

// eachOf returns by how many bytes the heap and the stacks have grown, for each of n; 0 where
// they shrank, which happens where what is measured keeps next to nothing.
func (m memory) eachOf(n int, before memory) (heap, stacks float64) {
	grown := func(now, then uint64) float64 { return float64(max(now, then)-then) / float64(n) }
	return grown(m.heap, before.heap), grown(m.stacks, before.stacks)
}

// spread calls do for 0 to n-1 from 64 goroutines, and returns the first error.
func spread(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	const hands = 64
	var running sync.WaitGroup
	for hand := range hands {
		running.Go(func() {
			for i := hand; i < n && ctx.Err() == nil; i += hands {
				if err := do(ctx, i); err != nil {
					fail(err)
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// warm lets a process open its connections and fill its pools, so that they do not count as
// the memory of what comes after.
func warm(ctx context.Context, p process) error {
	return spread(ctx, 512, func(_ context.Context, i int) error {
		unlock, err := p.locker(ctx, numbered("warm/", i)).Lock(ctx)
		if err != nil {
			return err
		}
		return unlock()
	})
}
