// SPDX-License-Identifier: Apache-2.0

// Command barrier shows a cyclic barrier made of a count-down latch: workers that do their work in phases, and begin
// none before all have ended the one before; one of them is started again in the midst of a phase, and in the end
// a party breaks the barrier.
//
// It brings a small server of its own, in memory. SIGNALBOX_REDIS=redis://host:6379 names a real one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox"
)

const (
	workers = 4
	phases  = 3
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "barrier:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	here, err := openPlace()
	if err != nil {
		return err
	}
	defer here.close()
	fmt.Println(here.greeting)

	show := &show{died: make(chan struct{})}
	group, groupCtx := errgroup.WithContext(ctx)
	for i := range workers {
		group.Go(func() error { return show.work(groupCtx, here, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return breakIt(ctx, here)
}

// show is what proves that the barrier holds.
type show struct {
	done [phases]atomic.Int32 // how many have done their work of a phase
	died chan struct{}        // closed when a worker has died
}

// work is one worker, with a session of its own as another process would have it.
func (w *show) work(ctx context.Context, here *place, i int) error {
	s, err := here.session(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	barrier, party := NewBarrier(s, "phases", workers), fmt.Sprint("worker ", i)
	for phase := range phases {
		if phase == 1 && i > 0 {
			select {
			case <-w.died:
			case <-ctx.Done():
			}
		}
		toil(ctx, time.Duration(10*(i+1))*time.Millisecond)
		w.done[phase].Add(1)
		if phase == 1 && i == 0 {
			if err := w.die(ctx, barrier, party); err != nil {
				return err
			}
		}
		if err := barrier.Await(ctx, party); err != nil {
			return err
		}
		if n := w.done[phase].Load(); n != workers {
			return fmt.Errorf("%s went on when %d of %d had done their work", party, n, workers)
		}
		if i == 0 {
			fmt.Printf("phase %d: all %d workers go on\n", phase+1, workers)
		}
	}
	return nil
}

// die is a worker that dies while it waits, and is started again.
func (w *show) die(ctx context.Context, barrier *Barrier, party string) error {
	phase, err := barrier.Arrive(ctx, party)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err = phase.Wait(short)
	fmt.Printf("%s dies in phase 2, and is started again: %t\n", party, errors.Is(err, context.DeadlineExceeded))
	close(w.died)
	return nil
}

// breakIt waits until the barrier is broken, and gets the error.
func breakIt(ctx context.Context, here *place) error {
	s, err := here.session(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	barrier := NewBarrier(s, "broken", workers)
	waiting := make(chan error, 1)
	go func() { waiting <- barrier.Await(ctx, "alone") }()
	for {
		// Until it is there, there is nothing to break.
		if err := barrier.Break(ctx); err != nil {
			return err
		}
		select {
		case err := <-waiting:
			fmt.Printf("a barrier is broken, and who waits is told: %t\n", errors.Is(err, signalbox.ErrReset))
			return nil
		default:
			toil(ctx, time.Millisecond)
		}
	}
}

// toil stands for work.
func toil(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
