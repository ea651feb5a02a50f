// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/shards"
)

// Run calls a function for each shard that this process owns, until its context ends.
func Example() {
	ctx, stop := context.WithCancel(context.Background()) // or signal.NotifyContext
	session, err := signalbox.Dial(ctx, serverURL)        // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	group := shards.New(session, "orders", shards.Count(1), shards.Value("10.0.0.7:8080"))
	err = group.Run(ctx, func(ctx context.Context, s shards.Shard) error {
		fmt.Println("owns shard", s.Index(), "of", s.Count(), s.Token() > 0)
		stop()       // the process is to end
		<-ctx.Done() // so does the work; the shard is released after that
		return nil
	})
	fmt.Println("done:", errors.Is(err, context.Canceled))
	// Output:
	// owns shard 0 of 1 true
	// done: true
}

// A key belongs to the same shard in every process and language.
func ExampleIndex() {
	fmt.Println(shards.Index("", 64), shards.Index("abc", 64))
	// Output: 2 63
}

// Any process can ask who owns the shard of a key, and the number of shards can change while members run.
func ExampleGroup_Resize() {
	ctx, stop := context.WithCancel(context.Background())
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	group := shards.New(session, "tenants", shards.Count(2), shards.Value("10.0.0.7:8080"), shards.Weight(2), shards.RebalanceDelay(0))
	done := make(chan error, 1)
	go func() {
		done <- group.Run(ctx, func(ctx context.Context, _ shards.Shard) error {
			<-ctx.Done()
			return nil
		})
	}()
	for view, err := range group.Watch(ctx) {
		if err != nil {
			log.Print(err)
			continue
		}
		owner := view.OwnerOf("tenant 7")
		if owner.State != shards.Owned {
			continue
		}
		if view.Count == 4 {
			fmt.Println("of four, again at", owner.Value)
			break
		}
		fmt.Println("of two, at", owner.Value)
		if err := group.Resize(ctx, 4); err != nil {
			log.Fatal(err)
		}
	}
	stop()
	<-done
	// Output:
	// of two, at 10.0.0.7:8080
	// of four, again at 10.0.0.7:8080
}
