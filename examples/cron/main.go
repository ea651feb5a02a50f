// SPDX-License-Identifier: Apache-2.0

// Command cron is a job that runs once for each tick, though five processes have a timer for it. Their clocks
// differ by up to 100 ms. One run fails, and another process runs the job for that tick.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/once"
)

func main() { demo.Main(show) }

// process is one of those that have a timer for the job.
type process struct {
	name    string
	session *signalbox.Session
	clock   func() time.Time // time.Now, on a host of its own
	cleanUp func(ctx context.Context, tick time.Time) error
}

// atEachTick runs the job at each multiple of period until ctx ends.
func (p *process) atEachTick(ctx context.Context, period time.Duration) {
	// A process that comes later than Keep would run the tick again.
	job := once.New(p.session, "clean-up", once.Keep(time.Hour))
	first := p.clock().Truncate(period).Add(period)
	for tick := first; sleep(ctx, tick.Sub(p.clock())); tick = tick.Add(period) {
		p.run(ctx, job, tick)
	}
}

// run runs the job for a tick, or finds that another process has run it.
func (p *process) run(ctx context.Context, job *once.Once, tick time.Time) {
	// The key is the time for which the run was scheduled, which is the same in all processes.
	_, ran, err := job.At(tick).Do(ctx, func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
		return nil, p.cleanUp(ctx, tick) // ctx ends with the lease
	})
	switch {
	case err == nil && ran:
		fmt.Println(p.name, "did the tick")
	case err == nil || ctx.Err() != nil: // another process did it, or this one stops
	case ran:
		fmt.Println(p.name, "failed, the next process tries:", err)
	default:
		fmt.Println(p.name, "could not ask the server:", err)
	}
}

// sleep returns true after d, and false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
