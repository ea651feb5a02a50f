// SPDX-License-Identifier: Apache-2.0

// Command quickstart shows what signalbox does, in a few seconds: processes that acquire one lock in turn and lose no
// update, fencing tokens that rise, entering again, a lease that outlives its first end, and a holder that is killed,
// and whose lock goes to the next waiter.
package main

import (
	"context"
	"fmt"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
)

func main() { demo.Processes(tour, process) }

// tour shows one thing after the other.
func tour(ctx context.Context, url string) error {
	s, err := signalbox.Dial(ctx, url, signalbox.WithPrefix(prefix))
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))

	for i, show := range []struct {
		title string
		run   func(context.Context, string, *signalbox.Session) error
	}{
		{"Processes acquire one lock in turn, and no update is lost", showCounting},
		{"Every lease has a token, and tokens rise", showTokens},
		{"The holder can enter again; others cannot", showEntering},
		{"A lease is renewed while the lock is held", showRenewal},
		{"A holder is killed, and its lock goes to the next waiter", showDeath},
	} {
		fmt.Printf("\n%d. %s\n", i+1, show.title)
		if err := show.run(ctx, url, s); err != nil {
			return fmt.Errorf("%s: %w", show.title, err)
		}
	}
	fmt.Println("\nThat is all. README.md and the docs of package reentrant have the rest.")
	return nil
}
