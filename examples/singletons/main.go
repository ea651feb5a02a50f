// SPDX-License-Identifier: Apache-2.0

// Command singletons is a service of five pods that has three jobs, each of which runs once. A pod runs one job at
// most, and two pods stand by. One pod gets SIGTERM, another one is killed, and each time a pod that stands by
// takes the job.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/shards"
)

// lease bounds how long a job stands still after a crash. The default is 15 s.
const lease = 5 * time.Second

func main() { demo.Processes(show, serve) }

// newGroup divides the jobs. Without Limit a pod that is alone would run all three.
func newGroup(session *signalbox.Session, pod string) *shards.Group {
	return shards.New(session, "singletons", shards.Names("billing", "cleanup", "mailer"), shards.Limit(1),
		shards.Value(pod), signalbox.WithRenewedLease(lease))
}

// serve is one pod. It runs until it gets SIGTERM.
func serve(ctx context.Context, url, pod string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"), signalbox.WithLabel(pod))
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))

	jobs := map[string]func(ctx context.Context, token uint64) error{
		"billing": every(time.Second), "cleanup": every(time.Minute), "mailer": every(10 * time.Millisecond),
	}
	err = newGroup(session, pod).Run(ctx, func(ctx context.Context, s shards.Shard) error {
		job, known := jobs[s.Name()] // the pod stands by while this is not called
		if !known {
			return shards.Elsewhere(fmt.Errorf("no job %q in this release", s.Name()), time.Minute)
		}
		return job(ctx, s.Token())
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// every returns a job that does something again and again. It returns when its context ends: the pod is to end, or it
// has lost its lease. What it writes to gets the token, and refuses a pod that is late.
func every(interval time.Duration) func(ctx context.Context, token uint64) error {
	return func(ctx context.Context, token uint64) error {
		again := time.NewTicker(interval)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-again.C:
				doSomething(ctx, token)
			}
		}
	}
}

// doSomething stands for the work.
func doSomething(context.Context, uint64) {}
