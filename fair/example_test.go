// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
)

// Callers get the lock in the order of their requests, in whatever process they run.
func Example() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	mu := fair.New(session, "account/7")
	lease, err := mu.Lock(ctx) // waits in the queue until ctx ends
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock() // hands the lock off to the head of the queue

	work := lease.Bind(ctx) // ends with ctx, and when the lease can no longer be trusted
	fmt.Println("booking on account 7:", work.Err() == nil)
	// Output: booking on account 7: true
}

// A context with a deadline bounds the wait. A waiter that gives up leaves the queue; its next call joins
// the queue at the end.
func ExampleLock_Lock() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := fair.New(session, "till")

	lease, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock()

	patience, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err = mu.Lock(patience) // also ErrHeld, if the server replied in time
	fmt.Println("out of patience:", errors.Is(err, context.DeadlineExceeded))
	// Output: out of patience: true
}

// TryLock does not wait, and overtakes no waiter.
func ExampleLock_TryLock() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := fair.New(session, "printer")

	lease, err := mu.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = mu.TryLock(ctx)
	fmt.Println("held:", errors.Is(err, signalbox.ErrHeld))
	fmt.Println("released:", lease.Unlock() == nil)
	// Output:
	// held: true
	// released: true
}

// Do releases the lock even if the function fails or panics. The context that it passes carries the lease,
// so that the function's calls can enter the lock again, past all waiters.
func ExampleLock_Do() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := fair.New(session, "account/7")

	err = mu.Do(ctx, func(ctx context.Context, _ signalbox.Lease) error {
		return mu.Do(ctx, func(context.Context, signalbox.Lease) error {
			fmt.Println("inside, twice")
			return errors.New("no funds")
		})
	})
	fmt.Println(err)
	// Output:
	// inside, twice
	// no funds
}

// A Locker goes where a sync.Locker is wanted.
func ExampleLock_Locker() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	locker := fair.New(session, "counter").Locker(ctx)
	locker.OnLost(func(err error) { log.Println("the work was not protected to its end:", err) })

	count := 0
	var goroutines sync.WaitGroup
	for range 10 {
		goroutines.Go(func() {
			locker.Lock()
			defer locker.Unlock()
			count++
		})
	}
	goroutines.Wait()
	fmt.Println(count)
	// Output: 10
}

// Waiters shows people the queue.
func ExampleLock_Waiters() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL, signalbox.WithLabel("worker 1"))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := fair.New(session, "crane")
	lease, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	var worker sync.WaitGroup
	worker.Go(func() {
		_ = mu.Do(ctx, func(context.Context, signalbox.Lease) error { return nil })
	})
	for waits := false; !waits; {
		for waiter, err := range mu.Waiters(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(waiter.Position, waiter.Label, waiter.Alive)
			waits = true
		}
	}
	if err := lease.Unlock(); err != nil {
		log.Fatal(err)
	}
	worker.Wait()
	// Output: 1 worker 1 true
}
