// SPDX-License-Identifier: Apache-2.0

// Command setup connects in two ways: by a URL, and on a client of your own. Both sessions meet on the same locks.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/reentrant"
)

func main() { demo.Main(show) }

// byURL opens a session that has a client of its own. Close closes that, too.
func byURL(ctx context.Context, url string) (*signalbox.Session, error) {
	return signalbox.Dial(ctx, url,
		signalbox.WithPrefix("shop:"),        // processes meet only if their prefixes are equal
		signalbox.WithLabel("orders/host-7"), // what Holder says of this process; "host:pid" by default
		signalbox.WithLogger(slog.New(slog.NewJSONHandler(os.Stderr, nil))))
}

// onYourClient opens a session on a client that the program has anyway. The program closes the session first, and
// then the client.
func onYourClient(options rueidis.ClientOption) (*signalbox.Session, rueidis.Client, error) {
	signalbox.Tune(&options) // before NewClient: short time limits, and no cache in the client
	client, err := rueidis.NewClient(options)
	if err != nil {
		return nil, nil, err
	}
	return signalbox.NewSession(client, signalbox.WithPrefix("shop:")), client, nil
}

// show holds a lock in one session, and asks for it in the other.
func show(ctx context.Context, url string) error {
	first, err := byURL(ctx, url)
	if err != nil {
		return err
	}
	defer first.Close(context.WithoutCancel(ctx)) // ctx may have ended by then
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	second, client, err := onYourClient(options)
	if err != nil {
		return err
	}
	defer client.Close()
	defer second.Close(context.WithoutCancel(ctx))

	lease, err := reentrant.New(first, "order/42").Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock()
	mu := reentrant.New(second, "order/42")
	if _, err := mu.TryLock(ctx); !errors.Is(err, signalbox.ErrHeld) {
		return fmt.Errorf("the sessions do not meet: %w", err)
	}
	holder, err := mu.Holder(ctx)
	fmt.Println("the session on our client finds the lock held by", holder.Label)
	return err
}
