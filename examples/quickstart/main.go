// SPDX-License-Identifier: Apache-2.0

// Command quickstart shows what signalbox does, in a few seconds: workers that take one lock in
// turn and lose no update, fencing tokens that rise, entering again, a lease that outlives its
// TTL, and a holder that dies, and whose lock goes to the next waiter.
//
// It brings a small server of its own, in memory. SIGNALBOX_REDIS=redis://host:6379 names a
// real one; then the workers are processes, and the holder that dies is killed.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/signalbox-go/signalbox"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run := tour
	switch os.Getenv(roleVariable) {
	case roleWorker:
		run = beWorker
	case roleDoomed:
		run = beDoomed
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// tour shows one thing after the other.
func tour(ctx context.Context) error {
	here, err := openPlace(ctx)
	if err != nil {
		return err
	}
	defer here.close()
	say("%s", here.greeting)

	s, err := here.session(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()

	for i, show := range []struct {
		title string
		run   func(context.Context, *place, *signalbox.Session) error
	}{
		{"Workers take one lock in turn, and no update is lost", showCounting},
		{"Every lease has a token, and tokens rise", showTokens},
		{"The holder can enter again; others cannot", showEntering},
		{"A lease is kept alive past its TTL while it is held", showRenewal},
		{"A holder dies, and its lock passes on", showDeath},
	} {
		say("\n%d. %s", i+1, show.title)
		if err := show.run(ctx, here, s); err != nil {
			return fmt.Errorf("%s: %w", show.title, err)
		}
	}
	say("\nThat is all. Read on in README.md, or in the docs of package reentrant.")
	return nil
}

func say(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
}
