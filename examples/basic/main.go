// SPDX-License-Identifier: Apache-2.0

// Command basic acquires a lock and works under it. The README shows it.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/reentrant"
)

func main() { demo.Main(run) }

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

// charge stands for the work. A store that gets the token refuses those that are smaller than the greatest
// one that it has seen.
func charge(ctx context.Context, token uint64) error {
	fmt.Println("charging order 42 with token", token)
	return ctx.Err()
}
