// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox"
)

const (
	workers = 4
	phases  = 3
)

func show(ctx context.Context, url string) error {
	work := &work{died: make(chan struct{})}
	group, groupCtx := errgroup.WithContext(ctx)
	for i := range workers {
		group.Go(func() error { return work.do(groupCtx, url, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return breakIt(ctx, url)
}

// work is what proves that the barrier holds.
type work struct {
	done [phases]atomic.Int32 // how many have done their work of a phase
	died chan struct{}        // closed when a worker has died
}

// do is one worker, with a session of its own as another process would have it.
func (w *work) do(ctx context.Context, url string, i int) error {
	s, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"))
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))
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
			return fmt.Errorf("%s continued when %d of %d had done their work", party, n, workers)
		}
		if i == 0 {
			fmt.Printf("phase %d: all %d workers continue\n", phase+1, workers)
		}
	}
	return nil
}

// die is a worker that dies while it waits, and is started again.
func (w *work) die(ctx context.Context, barrier *Barrier, party string) error {
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
func breakIt(ctx context.Context, url string) error {
	s, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"))
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))
	barrier := NewBarrier(s, "broken", workers)
	waiting := make(chan error, 1)
	go func() { waiting <- barrier.Await(ctx, "alone") }()
	for {
		// Until the party is there, there is nothing to break.
		if err := barrier.Break(ctx); err != nil {
			return err
		}
		select {
		case err := <-waiting:
			if !errors.Is(err, signalbox.ErrReset) && !errors.Is(err, signalbox.ErrNoRound) {
				return fmt.Errorf("a broken barrier returned %w", err)
			}
			fmt.Println("a barrier is broken, and the party that waits gets an error")
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
