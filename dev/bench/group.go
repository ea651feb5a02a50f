// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errStopped ends waits at the end of a measurement, which is no failure.
var errStopped = errors.New("the measurement is over")

// over returns err, or nil if the measurement is over: then it is what the end of ctx made of
// a call, whatever its words.
func over(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errStopped) {
		return nil
	}
	return err
}

// group is goroutines that are about to end by themselves. Some of a lock's waiters may not:
// those whose wake-up got lost, and which wait for a lock that is free.
type group struct {
	running sync.WaitGroup
	left    atomic.Int64
}

// run runs fn on a goroutine of the group.
func (g *group) run(fn func()) {
	g.left.Add(1)
	g.running.Go(func() {
		defer g.left.Add(-1)
		fn()
	})
}

// wait returns when all have ended. If none has for patience, it calls giveUp, which must end
// the others, and returns how many there were. Without patience it gives up at once.
func (g *group) wait(patience time.Duration, giveUp func()) (stuck int64) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.running.Wait()
	}()
	if patience == 0 {
		stuck = g.left.Load()
		giveUp()
		<-ended
		return stuck
	}
	progress := time.NewTicker(patience)
	defer progress.Stop()
	for left := g.left.Load(); ; {
		select {
		case <-ended:
			return stuck
		case <-progress.C:
			now := g.left.Load()
			if now == left && stuck == 0 {
				stuck = now
				giveUp()
			}
			left = now
		}
	}
}
