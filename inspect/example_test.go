// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/reentrant"
)

func ExampleNames() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL, signalbox.WithLabel("billing"))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	lease, err := reentrant.New(session, "order/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock()

	for entry, err := range inspect.Names(ctx, session, "order/") {
		if err != nil {
			log.Print(err) // the loop continues
			continue
		}
		fmt.Println(entry.Name, entry.Kind, entry.Holders[0].Label)
	}
	// Output: order/42 reentrant billing
}

// What is known of one name, and its end by force if it is still as it was seen.
func ExampleBreakSeen() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	lease, err := reentrant.New(session, "import").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	entries, err := inspect.Name(ctx, session, "import")
	if err != nil {
		log.Fatal(err)
	}
	for _, entry := range entries {
		fmt.Println(entry.Kind == inspect.Reentrant, entry.HolderCount, entry.WaiterCount)
		fmt.Println(inspect.BreakSeen(ctx, session, entry))
	}
	<-lease.Done()
	fmt.Println("nothing is left:", errors.Is(inspect.Break(ctx, session, "import"), signalbox.ErrNotHeld))
	// Output:
	// true 1 0
	// <nil>
	// nothing is left: true
}

// A list that is kept up to date, for a page or for metrics.
func ExampleNewList() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	lease, err := reentrant.New(session, "listed/1").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock()

	list := inspect.NewList(session, "listed/", time.Second)
	go func() { _ = list.Run(ctx) }()
	for {
		if snapshot := list.Snapshot(ctx); snapshot.Complete { // all keys were examined once
			fmt.Println(len(snapshot.Entries), "name,", snapshot.More, "more")
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	// Output: 1 name, 0 more
}
