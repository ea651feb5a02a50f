// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
)

const (
	// serverVariable names a real server.
	serverVariable = "SIGNALBOX_REDIS"
	// prefix stands before every key, apart from what else is on the server.
	prefix = "cron:"
)

// place is where the processes meet: the embedded server, or a real one.
type place struct {
	greeting string
	embedded *miniredis.Miniredis // nil with a real server
}

func openPlace(ctx context.Context) (*place, error) {
	if url := os.Getenv(serverVariable); url != "" {
		// Dial once to say early what is wrong, if anything is.
		s, err := signalbox.Dial(ctx, url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", serverVariable, err)
		}
		return &place{greeting: "Using the server that " + serverVariable + " names."}, s.Close(ctx)
	}
	embedded, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("start the embedded server: %w", err)
	}
	embedded.ClockTTL(true) // keys end by the clock, as on a real server
	return &place{
		greeting: "Using an embedded server, in memory. Name a real one with " + serverVariable + "=redis://host:6379.",
		embedded: embedded,
	}, nil
}

// session returns a session of its own, as another process would have one.
func (p *place) session(ctx context.Context, label string) (*signalbox.Session, error) {
	options := []signalbox.SessionOption{signalbox.WithPrefix(prefix), signalbox.WithLabel(label)}
	if p.embedded == nil {
		return signalbox.Dial(ctx, os.Getenv(serverVariable), options...)
	}
	// The embedded server knows no client-side caching, and in RESP3 no command beside a subscription.
	o := rueidis.ClientOption{InitAddress: []string{p.embedded.Addr()}, ForceSingleClient: true, AlwaysRESP2: true}
	signalbox.Tune(&o)
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, err
	}
	return signalbox.NewSession(client, options...), nil
}

func (p *place) close() {
	if p.embedded != nil {
		p.embedded.Close()
	}
}
