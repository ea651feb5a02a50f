// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/semaphore"
)

// job is some work. Every third one is large. A real worker would read its jobs from a queue.
type job struct {
	worker  string
	number  int
	permits int
}

func firstJob(worker string) job { return job{worker, 1, 1} }

func (j job) next() job {
	if j.number++; j.number%3 == 0 {
		return job{j.worker, j.number, 2}
	}
	return job{j.worker, j.number, 1}
}

// run does the job, or stops when ctx ends.
func (j job) run(ctx context.Context) {
	fmt.Printf("%s: job %d begins with %d of %d permits\n", j.worker, j.number, j.permits, capacity)
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		fmt.Printf("%s: job %d is done\n", j.worker, j.number)
	case <-ctx.Done():
		fmt.Printf("%s: job %d stops: %v\n", j.worker, j.number, context.Cause(ctx))
	}
}

// show starts two workers, and sends SIGTERM to one after the other.
func show(ctx context.Context, url string) error {
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"))
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))
	limit := semaphore.New(session, "api", capacity)

	var workers []*demo.Process
	for _, name := range []string{"worker 1", "worker 2"} {
		w, err := demo.Start(ctx, url, name)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	for i, w := range workers {
		name := fmt.Sprint("worker ", i+1)
		if err := stop(w, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for holder, err := range limit.Holders(ctx) {
			switch {
			case err != nil:
				return err
			case holder.Label == name:
				return fmt.Errorf("%s left %d permits behind", name, holder.Permits)
			}
		}
	}
	free, err := limit.Available(ctx)
	fmt.Printf("%d of %d permits are free\n", free, capacity)
	return err
}

// stop lets a worker work until it has begun its tenth job, and terminates it in the midst of that.
func stop(w *demo.Process, name string) error {
	if _, err := w.Await(name + ": job 10 begins"); err != nil {
		return err
	}
	if err := w.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	rest, err := w.Wait()
	for _, line := range rest {
		if strings.Contains(line, " stops: ") {
			return fmt.Errorf("a job did not finish: %s", line)
		}
	}
	fmt.Println(name, "has ended; its jobs are done, and its permits are free")
	return err
}
