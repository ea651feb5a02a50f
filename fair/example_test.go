// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"fmt"
	"log"
	"sync"

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
