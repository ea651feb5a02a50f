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

// Whoever asks first has the lock first, in whatever process it runs.
func Example() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)

	mu := fair.New(session, "account/7")
	lease, err := mu.Lock(ctx) // waits in line as long as ctx lets it
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock() // gives the lock to the next in line

	work := lease.Bind(ctx) // ends with ctx, and when the lease can no longer be trusted
	fmt.Println("booking on account 7:", work.Err() == nil)
	// Output: booking on account 7: true
}

// A bounded wait is a context with a deadline. Who gives up leaves the line, and stands at its end
// when it comes again.
func ExampleLock_Lock() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
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

// TryLock does not wait, and goes before nobody who does.
func ExampleLock_TryLock() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	mu := fair.New(session, "printer")

	lease, err := mu.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = mu.TryLock(ctx)
	fmt.Println("held:", errors.Is(err, signalbox.ErrHeld))
	fmt.Println("given back:", lease.Unlock() == nil)
	// Output:
	// held: true
	// given back: true
}

// Do gives the lock back also when the function fails or panics. Its context carries the
// lease, so that what it calls can enter again, past everybody who waits.
func ExampleLock_Do() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
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
	defer session.Close(ctx)

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

// Waiters tells who stands in line, for people who want to know what everybody waits for.
func ExampleLock_Waiters() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL, signalbox.WithLabel("worker 1"))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
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
