// SPDX-License-Identifier: Apache-2.0

// Command basic takes a lock on the server at SIGNALBOX_REDIS (redis://127.0.0.1:6379 without it)
// and works under it. The README shows it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

func main() {
	url := os.Getenv("SIGNALBOX_REDIS")
	if url == "" {
		url = "redis://127.0.0.1:6379"
	}
	if err := run(context.Background(), url); err != nil {
		log.Fatal(err)
	}
}

// README:begin.
func run(ctx context.Context, url string) error {
	session, err := signalbox.Dial(ctx, url) // or NewSession(client), on your own rueidis.Client
	if err != nil {
		return err
	}
	defer session.Close(ctx)

	mu := reentrant.New(session, "order/42")

	wait, cancel := context.WithTimeout(ctx, 5*time.Second) // how long to wait, not how long to hold
	defer cancel()
	lease, err := mu.Lock(wait)
	if err != nil {
		return err // errors.Is(err, signalbox.ErrHeld): another holder had it all the time
	}
	defer lease.Unlock()

	// This context ends when the lease can no longer be trusted; the token says who came last.
	return charge(lease.Bind(ctx), lease.Token())
}

// README:end.

// charge stands for the work: a store that gets the token refuses those smaller than the
// greatest it has seen.
func charge(ctx context.Context, token uint64) error {
	fmt.Printf("charging order 42 with token %d\n", token)
	return ctx.Err()
}
