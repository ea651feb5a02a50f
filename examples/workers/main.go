// SPDX-License-Identifier: Apache-2.0

// Command workers is a pool of workers that is bounded over all processes: however many workers there are, no more
// than three small jobs run at once, or one that is large and one that is small. The jobs call something that bears no
// more, such as the API of another service.
//
// It brings a small server of its own, in memory; then the workers are goroutines with a session each.
// SIGNALBOX_REDIS=redis://host:6379 names a real one; then they are processes.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/semaphore"
)

const (
	name     = "api" // of the semaphore
	capacity = 3     // what the API bears at once
	workers  = 4
	jobs     = 6 // of each worker
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run := pool
	if os.Getenv(workerVariable) != "" {
		run = beWorker
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

// pool starts the workers, waits for them, and watches the semaphore meanwhile.
func pool(ctx context.Context) error {
	here, err := openPlace(ctx)
	if err != nil {
		return err
	}
	defer here.close()
	say("%s", here.greeting)
	s, err := here.session(ctx, "pool")
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	sem := semaphore.New(s, name, capacity)

	done := here.startWorkers(ctx)
	most := 0
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			free, err := sem.Available(ctx)
			if err != nil {
				return err
			}
			say("%d workers did %d jobs. At the most %d of %d permits were out, and %d are free.", workers, workers*jobs, most, capacity, free)
			return nil
		case <-again.C:
			out := 0
			for h, err := range sem.Holders(ctx) {
				if err != nil {
					return err
				}
				out += h.Permits
			}
			most = max(most, out)
		}
	}
}

// work does one job after the other. Every third is large, and takes two permits.
func work(ctx context.Context, s *signalbox.Session, worker string) error {
	sem := semaphore.New(s, name, capacity)
	for job := 1; job <= jobs; job++ {
		permits := 1
		if job%3 == 0 {
			permits = 2
		}
		err := sem.Do(ctx, permits, func(ctx context.Context, _ signalbox.Lease) error {
			say("%s does job %d with %d of %d permits", worker, job, permits, capacity)
			return call(ctx) // ends with the lease, too
		})
		if err != nil {
			return fmt.Errorf("%s, job %d: %w", worker, job, err)
		}
	}
	return nil
}

// call stands for what the permits protect.
func call(ctx context.Context) error {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
