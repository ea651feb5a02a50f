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

// serverVariable names a real server.
const serverVariable = "SIGNALBOX_REDIS"

// place is where the locks are: the embedded server, or a real one.
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
func (p *place) session(ctx context.Context) (*signalbox.Session, error) {
	if p.embedded == nil {
		return signalbox.Dial(ctx, os.Getenv(serverVariable), signalbox.WithPrefix(prefix))
	}
	client, err := p.client()
	if err != nil {
		return nil, err
	}
	return signalbox.NewSession(client, signalbox.WithPrefix(prefix)), nil
}

// client returns a client for the data that the locks protect.
func (p *place) client() (rueidis.Client, error) {
	if p.embedded == nil {
		o, err := rueidis.ParseURL(os.Getenv(serverVariable))
		if err != nil {
			return nil, err
		}
		return rueidis.NewClient(o)
	}
	// The embedded server knows no client-side caching, and in RESP3 no command beside a
	// subscription.
	o := rueidis.ClientOption{
		InitAddress:       []string{p.embedded.Addr()},
		ForceSingleClient: true,
		AlwaysRESP2:       true,
	}
	signalbox.Tune(&o)
	return rueidis.NewClient(o)
}

func (p *place) close() {
	if p.embedded != nil {
		p.embedded.Close()
	}
}
