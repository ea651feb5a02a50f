// SPDX-License-Identifier: Apache-2.0

// Command workers is a pool of processes that is bounded over all of them: no more than three small jobs run at
// once, or one large and one small one. A worker that gets SIGTERM begins no further job, finishes those that it
// has, releases their permits and ends.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/semaphore"
)

const (
	capacity = 3                // what the API that the jobs call can stand at once
	grace    = 20 * time.Second // for jobs that run at SIGTERM; less than the time until SIGKILL
)

func main() { demo.Processes(show, worker) }

// worker is one process of the pool. It works until it gets SIGTERM.
func worker(ctx context.Context, url, name string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"), signalbox.WithLabel(name),
		signalbox.WithCloseGrace(grace))
	if err != nil {
		return err
	}
	err = work(ctx, session, name)
	if ctx.Err() != nil { // SIGTERM
		fmt.Println(name, "stops")
		err = nil
	}
	// Close blocks until the jobs have released their permits. After the grace it ends the leases of those that hang.
	if closed := session.Close(context.WithoutCancel(ctx)); err == nil {
		err = closed
	}
	return err
}

// work starts a job each time that its permits are free, until ctx ends.
func work(ctx context.Context, session *signalbox.Session, name string) error {
	limit := semaphore.New(session, "api", capacity)
	for job := firstJob(name); ; job = job.next() {
		lease, err := limit.Acquire(ctx, job.permits)
		if err != nil {
			return err // nothing is held; a job from a queue goes back there
		}
		go func() {
			defer lease.Unlock()
			// SIGTERM does not end this context. The loss of the lease does, and so does the end of the grace.
			job.run(lease.Bind(context.WithoutCancel(ctx)))
		}()
	}
}
