// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

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

// Its two halves as sync.Locker: code that knows neither contexts nor leases can use them.
func ExampleLock_RLocker() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := rwlock.New(session, "table")
	reading := mu.RLocker(ctx)
	reading.Lock()
	err = mu.RDo(ctx, func(context.Context, signalbox.Lease) error { // beside it
		fmt.Println("two read")
		return nil
	})
	reading.Unlock()
	fmt.Println(err)
	// Output:
	// two read
	// <nil>
}
