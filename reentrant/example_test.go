// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// Take a lock, work under it for as long as the lease can be trusted, and give it back.
func Example() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	mu := reentrant.New(session, "order/42")
	lease, err := mu.Lock(ctx) // waits as long as ctx lets it
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock()

	work := lease.Bind(ctx) // ends with ctx, and when the lease can no longer be trusted
	fmt.Println("charging order 42:", work.Err() == nil)
	// Output: charging order 42: true
}

// A context with a deadline bounds the wait. ErrHeld says that another caller held the lock to the end.
func ExampleLock_Lock() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := reentrant.New(session, "report")

	lease, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock()

	patience, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = mu.Lock(patience)
	fmt.Println("out of patience:", errors.Is(err, context.DeadlineExceeded))
	fmt.Println("held by another:", errors.Is(err, signalbox.ErrHeld))
	// Output:
	// out of patience: true
	// held by another: true
}

// TryLock does not wait: for work that others may skip while it is done. It says nothing about work
// that was done before: if that matters, as for a job that runs once a night, see package once.
func ExampleLock_TryLock() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := reentrant.New(session, "price list")

	for _, caller := range []string{"caller A", "caller B"} {
		lease, err := mu.TryLock(ctx)
		switch {
		case errors.Is(err, signalbox.ErrHeld):
			fmt.Println(caller, "shows the old prices: they are being refreshed")
			continue
		case err != nil:
			log.Fatal(err)
		}
		defer lease.Unlock() // after the work
		fmt.Println(caller, "refreshes the prices")
	}
	// Output:
	// caller A refreshes the prices
	// caller B shows the old prices: they are being refreshed
}

// Do gives the lock back also when the function fails or panics. Its context carries the
// lease, so that what it calls can enter again.
func ExampleLock_Do() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := reentrant.New(session, "order/42")

	err = mu.Do(ctx, func(ctx context.Context, _ signalbox.Lease) error {
		// A function that takes the lock for itself may be called from here.
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

// Holder shows people which process has a lock, and since when.
func ExampleLock_Holder() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL, signalbox.WithLabel("worker 7")) // else "host:pid"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := reentrant.New(session, "import")

	lease, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	holder, err := mu.Holder(ctx) // any process may ask
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held by", holder.Label, "as", holder.Kind)
	fmt.Println("it is this session:", holder.Session == session.ID())

	if err = lease.Unlock(); err != nil {
		log.Fatal(err)
	}
	_, err = mu.Holder(ctx)
	fmt.Println("no holder:", errors.Is(err, signalbox.ErrNotHeld))
	locked, err := mu.IsLocked(ctx)
	fmt.Println(locked, err)
	// Output:
	// held by worker 7 as reentrant
	// it is this session: true
	// no holder: true
	// false <nil>
}

// ForceUnlock ends the hold of a holder that hangs. The holder is notified, and the contexts of its lease
// end; the next holder has a greater token.
func ExampleLock_ForceUnlock() {
	ctx := context.Background()
	worker, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close(ctx)
	lease, err := reentrant.New(worker, "export").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	work := lease.Bind(ctx)

	// An operator, in another process.
	operator, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close(ctx)
	if err = reentrant.New(operator, "export").ForceUnlock(ctx); err != nil {
		log.Fatal(err)
	}

	<-work.Done()
	fmt.Println("the work ends:", errors.Is(context.Cause(work), signalbox.ErrLost))
	fmt.Println("and so says Unlock:", errors.Is(lease.Unlock(), signalbox.ErrLost))
	// Output:
	// the work ends: true
	// and so says Unlock: true
}

// A Locker goes where a sync.Locker is wanted.
func ExampleLock_Locker() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	locker := reentrant.New(session, "counter").Locker(ctx)
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
