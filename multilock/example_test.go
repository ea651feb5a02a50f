// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

// Move money between two accounts: both are locked, in whatever order callers name them.
func Example() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	from, to := reentrant.New(session, "account/1"), reentrant.New(session, "account/2")
	both := multilock.New(from, to)
	lease, err := both.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock()

	work := lease.Bind(ctx) // ends when either can no longer be trusted
	fmt.Println("both are locked:", work.Err() == nil)
	// Output: both are locked: true
}

// Members may be of any kind, and each resource is given the token of its own lock.
func ExampleTokens() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	settings, queue := rwlock.New(session, "settings"), fair.New(session, "queue")
	err = multilock.New(settings.Reader(), queue).Do(ctx, func(_ context.Context, lease signalbox.Lease) error {
		tokens := multilock.Tokens(lease)
		fmt.Println("tokens:", len(tokens), "the lease has the greatest:", lease.Token() == max(tokens[0], tokens[1]))
		return nil
	})
	fmt.Println(err)
	// Output:
	// tokens: 2 the lease has the greatest: true
	// <nil>
}

// A RedissonMultiLock in Java must name the locks that it shares with Go in the order in which Go
// acquires them.
func ExampleLock_Order() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	shared := signalbox.WithLayout(redisson.Layout())
	all := multilock.New(
		reentrant.New(session, "alice", shared),
		reentrant.New(session, "bob", shared),
		reentrant.New(session, "carol", shared),
	)
	fmt.Println(all.Order())
	// Output: [alice carol bob]
}
