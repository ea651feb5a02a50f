// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/database"
	"github.com/signalbox-go/signalbox/reentrant"
)

// show lets a writer pause until its lease has ended, and another one write meanwhile.
func show(ctx context.Context, url string) error {
	db, err := database.Open(ctx, schema)
	if err != nil {
		return err
	}
	defer db.Close()
	slow, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"), signalbox.WithLabel("slow"))
	if err != nil {
		return err
	}
	defer slow.Close(context.WithoutCancel(ctx))
	quick, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"), signalbox.WithLabel("quick"))
	if err != nil {
		return err
	}
	defer quick.Close(context.WithoutCancel(ctx))

	// A process that is stopped renews nothing, so its lease is like a fixed one.
	lease, err := reentrant.New(slow, "order/42", signalbox.WithFixedLease(200*time.Millisecond)).Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("the slow writer has the lock, checks its lease, and is paused")
	<-lease.Done()
	if err := advance(ctx, quick, db, "42", func(state string) string { return state + ", paid" }); err != nil {
		return err
	}
	fmt.Println("the quick writer has written")

	// ctx is not bound to the lease: the slow writer does not check it again.
	err = setState(ctx, db, "42", "new, cancelled", lease.Token())
	if !errors.Is(err, errStale) {
		return fmt.Errorf("the slow writer should be refused: %w", err)
	}
	fmt.Println("the slow writer is refused:", err)
	state, err := stateOf(ctx, db, "42")
	fmt.Println("the order is:", state)
	return err
}
