// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox"
)

const (
	// serverVariable names a real server, workerVariable makes a process a worker.
	serverVariable, workerVariable = "SIGNALBOX_REDIS", "SIGNALBOX_WORKER"
	// prefix stands before every key, apart from what else is on the server.
	prefix = "workers:"
)

// place is where the semaphore is: the embedded server, or a real one.
type place struct {
	greeting string
	embedded *miniredis.Miniredis // nil with a real server
}

func openPlace(ctx context.Context) (*place, error) {
	if url := os.Getenv(serverVariable); url != "" {
		// Dial once to say early what is wrong, if anything is.
		s, err := signalbox.Dial(ctx, url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", serverVariable, err)
		}
		return &place{greeting: "Using the server that " + serverVariable + " names, with a process for each worker."}, s.Close(ctx)
	}
	embedded, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("start the embedded server: %w", err)
	}
	embedded.ClockTTL(true) // keys end by the clock, as on a real server
	return &place{
		greeting: "Using an embedded server, in memory. Name a real one with " + serverVariable + "=redis://host:6379.",
		embedded: embedded,
	}, nil
}

// session returns a session of its own, as another process would have one.
func (p *place) session(ctx context.Context, label string) (*signalbox.Session, error) {
	options := []signalbox.SessionOption{signalbox.WithPrefix(prefix), signalbox.WithLabel(label)}
	if p.embedded == nil {
		return signalbox.Dial(ctx, os.Getenv(serverVariable), options...)
	}
	// The embedded server knows no client-side caching, and in RESP3 no command beside a subscription.
	o := rueidis.ClientOption{InitAddress: []string{p.embedded.Addr()}, ForceSingleClient: true, AlwaysRESP2: true}
	signalbox.Tune(&o)
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, err
	}
	return signalbox.NewSession(client, options...), nil
}

// startWorkers returns a channel that is closed when all workers are done.
func (p *place) startWorkers(ctx context.Context) <-chan error {
	all, ctx := errgroup.WithContext(ctx)
	for n := 1; n <= workers; n++ {
		worker := fmt.Sprint("worker ", n)
		all.Go(func() error {
			if p.embedded == nil {
				return startProcess(ctx, worker)
			}
			s, err := p.session(ctx, worker)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
			return work(ctx, s, worker)
		})
	}
	done := make(chan error, 1)
	go func() { done <- all.Wait() }()
	return done
}

// startProcess runs this program as a worker, and waits for it.
func startProcess(ctx context.Context, worker string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, self)
	command.Env = append(command.Environ(), workerVariable+"="+worker)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run()
}

// beWorker is what such a process does.
func beWorker(ctx context.Context) error {
	worker := os.Getenv(workerVariable)
	s, err := (&place{}).session(ctx, worker)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	return work(ctx, s, worker)
}

func (p *place) close() {
	if p.embedded != nil {
		p.embedded.Close()
	}
}
