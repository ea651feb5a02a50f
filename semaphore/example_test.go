// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/semaphore"
)

// No more than three at once, in whatever processes they run.
func Example() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	sem := semaphore.New(session, "reports", 3)
	lease, err := sem.Acquire(ctx, 1) // waits in the queue as long as ctx allows
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release() // to the next waiter

	work := lease.Bind(ctx) // ends with ctx, and when the lease can no longer be trusted
	fmt.Println("writing a report:", work.Err() == nil)
	// Output: writing a report: true
}

// The holders of permits, in all processes.
func ExampleSemaphore_Holders() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL, signalbox.WithLabel("indexer"))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	sem := semaphore.New(session, "connections", 10)
	lease, err := sem.Acquire(ctx, 4)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	for holder, err := range sem.Holders(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(holder.Label, "has", holder.Permits)
	}
	// Output: indexer has 4
}

// Code that uses an x/sync semaphore can use this one. It may release a part of what it acquired at once.
func ExampleSemaphore_Weighted() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	sem := semaphore.New(session, "seats", 5).Weighted(ctx)
	if err := sem.Acquire(ctx, 5); err != nil {
		log.Fatal(err)
	}
	sem.Release(2)
	fmt.Println(sem.TryAcquire(3), sem.TryAcquire(2))
	sem.Release(5)
	// Output: false true
}

// The capacity can change while services run. More than there is at all is another error than none that is free.
func ExampleSemaphore_SetCapacity() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	sem := semaphore.New(session, "licences", 2)
	_, err = sem.TryAcquire(ctx, 3)
	fmt.Println("more than there is:", errors.Is(err, signalbox.ErrCapacity))
	if err := sem.SetCapacity(ctx, 4); err != nil {
		log.Fatal(err)
	}
	lease, err := sem.TryAcquire(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("after SetCapacity:", lease.Release())
	// Output:
	// more than there is: true
	// after SetCapacity: <nil>
}
