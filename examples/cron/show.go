// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox"
)

const (
	processes = 5
	ticks     = 3
	period    = 300 * time.Millisecond // a night, in a hurry
	skew      = 25 * time.Millisecond  // between the clocks of one process and the next
)

// errFull is an error of the job. It is not stored.
var errFull = errors.New("the disk is full")

// show starts the processes, and counts how often the job was done for each tick.
func show(ctx context.Context, url string) error {
	nights := &nights{done: make(map[time.Time]int), enough: make(chan struct{})}
	all, ctx := errgroup.WithContext(ctx)
	work, stop := context.WithCancel(ctx)
	defer stop()
	for n := range processes {
		all.Go(func() error {
			name := fmt.Sprint("process ", n+1)
			session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"), signalbox.WithLabel(name))
			if err != nil {
				return err
			}
			defer session.Close(context.WithoutCancel(ctx))
			clock := func() time.Time { return time.Now().Add(time.Duration(n) * skew) }
			(&process{name, session, clock, nights.cleanUp}).atEachTick(work, period)
			return nil
		})
	}
	select {
	case <-nights.enough:
	case <-ctx.Done():
	}
	stop()
	if err := all.Wait(); err != nil {
		return err
	}
	fmt.Printf("%d processes did each of %d ticks once.\n", processes, nights.onceEach())
	return nil
}

// nights is what the job did.
type nights struct {
	mu     sync.Mutex
	failed bool              // the first run fails
	done   map[time.Time]int // how often the job was done for a tick
	enough chan struct{}     // closed at the first tick that is too many
}

// cleanUp is the job. It fails when it runs for the first time.
func (n *nights) cleanUp(ctx context.Context, tick time.Time) error {
	if !sleep(ctx, 20*time.Millisecond) {
		return context.Cause(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !n.failed:
		n.failed = true
		return errFull
	case len(n.done) < ticks:
		n.done[tick]++
		return nil
	}
	close(n.enough) // one job runs at a time, and this one runs until the session closes
	<-ctx.Done()
	return context.Cause(ctx)
}

// onceEach returns for how many ticks the job was done, if that was once for each, and 0 else.
func (n *nights) onceEach() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if counts := slices.Collect(maps.Values(n.done)); slices.Max(counts) > 1 {
		return 0
	}
	return len(n.done)
}
