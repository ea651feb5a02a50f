// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/rwlock"
)

// Many read at a time, in whatever processes they run; a writer is alone.
func Example() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	mu := rwlock.New(session, "prices")
	one, err := mu.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	other, err := mu.RLock(ctx) // beside the first, without a round trip
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("both read:", one.Err() == nil && other.Err() == nil)
	_ = one.Unlock()
	_ = other.Unlock()

	writer, err := mu.Lock(ctx) // waits for those that read
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Unlock()
	_, err = mu.TryRLock(ctx)
	fmt.Println("a reader beside the writer:", !errors.Is(err, signalbox.ErrHeld))
	// Output:
	// both read: true
	// a reader beside the writer: false
}

// A writer that wants to use what it wrote admits the readers, and no other writer writes in between.
func ExampleLock_Downgrade() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := rwlock.New(session, "catalogue")

	err = mu.Do(ctx, func(ctx context.Context, lease signalbox.Lease) error {
		fmt.Println("writing the catalogue")
		if err := mu.Downgrade(ctx, lease); err != nil {
			return err
		}
		reader, err := mu.TryRLock(context.Background()) // as another goroutine would
		if err != nil {
			return err
		}
		defer reader.Unlock()
		fmt.Println("printing it, beside other readers:", lease.Err() == nil)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// writing the catalogue
	// printing it, beside other readers: true
}

// A reader cannot become a writer: two that tried would wait for each other. It releases its lease first,
// and then checks what it has read again.
func ExampleLock_Lock() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := rwlock.New(session, "stock")

	err = mu.RDo(ctx, func(ctx context.Context, _ signalbox.Lease) error {
		_, err := mu.Lock(ctx)
		return err
	})
	fmt.Println("no upgrade:", errors.Is(err, signalbox.ErrUpgrade))

	writer, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("writing:", writer.Err() == nil)
	_ = writer.Unlock()
	// Output:
	// no upgrade: true
	// writing: true
}

// RDo gives the lock back also when the function fails or panics. Its context carries the lease, so that what it calls
// can read as well, past every writer that waits.
func ExampleLock_RDo() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := rwlock.New(session, "rates")

	err = mu.RDo(ctx, func(ctx context.Context, _ signalbox.Lease) error {
		return mu.RDo(ctx, func(context.Context, signalbox.Lease) error {
			fmt.Println("reading, twice")
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// reading, twice
	// <nil>
}

// RLocker is a sync.Locker; goroutines that read at the same time need one each.
func ExampleLock_RLocker() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := rwlock.New(session, "map")

	var readers sync.WaitGroup
	for range 3 {
		locker := mu.RLocker(ctx)
		readers.Go(func() {
			locker.Lock()
			defer locker.Unlock()
		})
	}
	readers.Wait()
	locked, err := mu.IsLocked(ctx)
	fmt.Println(locked, err)
	// Output: false <nil>
}

// Holders returns the holders of the lock: it shows for whom a writer waits.
func ExampleLock_Holders() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL, signalbox.WithLabel("worker 1"))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := rwlock.New(session, "archive")
	lease, err := mu.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock()

	for holder, err := range mu.Holders(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(holder.Label, "reads:", holder.Shared)
	}
	// Output: worker 1 reads: true
}
