// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The environment of a worker says what it measures.
const (
	workerName   = "worker"
	implVariable = "SIGNALBOX_BENCH_IMPL"
	addrVariable = "SIGNALBOX_BENCH_ADDR"
)

// isWorker reports whether this process is one of a fleet, after it has done its work.
func isWorker() bool {
	redistest.RegisterChild(workerName, func(stdin io.Reader, stdout io.Writer) {
		if err := worker(stdin, stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
	return redistest.RunChild()
}

// worker acquires the lock and releases it, without a pause, until its input ends, and reports to stdout as
// fleetLog.read expects it. SIGTERM ends a wait, too.
func worker(stdin io.Reader, stdout io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	impls, err := selected(os.Getenv(implVariable))
	if err != nil {
		return err
	}
	p, err := impls[0].start(setup{addr: os.Getenv(addrVariable), lease: restartLease})
	if err != nil {
		return err
	}
	var last atomic.Bool
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, stdin)
		last.Store(true)
	}()
	l := holdingLocker{p.locker(context.Background(), "restart"), restartSection}
	for ctx.Err() == nil && !last.Load() {
		if _, err := fmt.Fprintln(stdout); err != nil {
			return err
		}
		if err := workOnce(ctx, l, stdout); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return p.close()
}

func workOnce(ctx context.Context, l locker, stdout io.Writer) error {
	call, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	requested := time.Now()
	unlock, err := l.Lock(call)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if _, err := fmt.Fprintf(stdout, "%d\n", time.Since(requested)); err != nil {
		return err
	}
	if err := unlock(); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}
