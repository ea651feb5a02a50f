// SPDX-License-Identifier: Apache-2.0

// Command cron is a job that runs once per tick, though each of five processes has a timer for it. Their
// clocks differ by up to 200 ms. One run fails, and the next process that asks runs the job again.
//
// It brings a small server of its own, in memory. SIGNALBOX_REDIS=redis://host:6379 names a real one.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/once"
)

const (
	processes = 5
	ticks     = 6
	period    = 500 * time.Millisecond // a night, in a hurry
	skew      = 200 * time.Millisecond // between the clocks of two processes, at most
	fails     = 3                      // the tick whose first run fails
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := show(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cron:", err)
		os.Exit(1)
	}
}

// show starts the processes, and counts what they did.
func show(ctx context.Context) error {
	here, err := openPlace(ctx)
	if err != nil {
		return err
	}
	defer here.close()
	say("%s", here.greeting)

	night := &night{first: time.Now().Truncate(period).Add(2 * period)}
	all, ctx := errgroup.WithContext(ctx)
	for n := 1; n <= processes; n++ {
		all.Go(func() error {
			s, err := here.session(ctx, fmt.Sprint("process ", n))
			if err != nil {
				return err
			}
			defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
			p := &process{night: night, session: s, name: fmt.Sprint("process ", n), ahead: rand.N(skew)}
			return p.run(ctx)
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for tick := range ticks {
		if done := night.done[tick].Load(); done != 1 {
			return fmt.Errorf("tick %d was done %d times", tick+1, done)
		}
	}
	say("%d processes did each of %d ticks once.", processes, ticks)
	return nil
}

// night is what the job does, and how often.
type night struct {
	first  time.Time // tick
	failed atomic.Bool
	done   [ticks]atomic.Int32
}

// process is one of those that have a timer for the job.
type process struct {
	night   *night
	session *signalbox.Session
	name    string
	ahead   time.Duration // its clock
}

// errFailed is the error of the run that fails. It is not stored.
var errFailed = errors.New("the clean-up failed")

// run asks at each tick, by its own clock, for the job to be done.
func (p *process) run(ctx context.Context) error {
	job := once.New(p.session, "clean-up", once.Keep(time.Hour))
	for tick := range ticks {
		due := p.night.first.Add(time.Duration(tick) * period)
		if err := sleep(ctx, time.Until(due.Add(-p.ahead))); err != nil {
			return err
		}
		// The key is the time for which the run was scheduled, which is the same for all.
		_, ran, err := job.At(due).Do(ctx, func(ctx context.Context, lease signalbox.Lease) ([]byte, error) {
			return nil, p.cleanUp(ctx, tick)
		})
		switch {
		case errors.Is(err, errFailed):
			say("%s failed in tick %d", p.name, tick+1)
		case err != nil:
			return fmt.Errorf("%s, tick %d: %w", p.name, tick+1, err)
		case ran:
			say("%s did tick %d", p.name, tick+1)
		}
	}
	return nil
}

// cleanUp is the job. It works under ctx, which ends with the lease.
func (p *process) cleanUp(ctx context.Context, tick int) error {
	if err := sleep(ctx, 20*time.Millisecond); err != nil {
		return err
	}
	if tick+1 == fails && p.night.failed.CompareAndSwap(false, true) {
		return errFailed
	}
	p.night.done[tick].Add(1)
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
