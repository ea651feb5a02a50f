// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/signalboxtest/memory"
)

// ServerVariable names a real server by its URL.
const ServerVariable = "SIGNALBOX_REDIS"

// limit is how long a program runs. Only one that hangs takes that long, or one on a machine with little time for it.
const limit = 3 * time.Minute

// The first line of every program says on which server it runs.
const (
	GreetingReal     = "Using the server that " + ServerVariable + " names."
	GreetingEmbedded = "Using an embedded server, in memory. Name a real one with " + ServerVariable + "=redis://host:6379."
)

// Main runs a program with the URL of its server. An error is one line on standard error, and exit code 1.
func Main(run func(ctx context.Context, url string) error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	err := withServer(ctx, run)
	cancel()
	exit(err)
}

func exit(err error) {
	if err != nil {
		program := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}

// withServer calls run with the URL of the server that the variable names, or of an embedded one.
func withServer(ctx context.Context, run func(ctx context.Context, url string) error) error {
	if url := os.Getenv(ServerVariable); url != "" {
		// Connect once, so that a server that is not there is reported before anything is shown.
		session, err := signalbox.Dial(ctx, url)
		if err != nil {
			return fmt.Errorf("%s: %w", ServerVariable, err)
		}
		if err := session.Close(ctx); err != nil {
			return err
		}
		fmt.Println(GreetingReal)
		return run(ctx, url)
	}
	embedded, err := memory.Start()
	if err != nil {
		return err
	}
	defer embedded.Close()
	fmt.Println(GreetingEmbedded)
	return run(ctx, embedded.URL())
}
