// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/examples/internal/demo"
)

// lockServer is the server of the locks: the embedded one, or a real one.
type lockServer struct {
	greeting string
	option   rueidis.ClientOption
	embedded *miniredis.Miniredis // nil with a real server
}

func openLockServer() (*lockServer, error) {
	if url := os.Getenv(demo.ServerVariable); url != "" {
		option, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", demo.ServerVariable, err)
		}
		return &lockServer{greeting: demo.GreetingReal, option: option}, nil
	}
	embedded, err := demo.StartEmbedded()
	if err != nil {
		return nil, err
	}
	return &lockServer{
		greeting: demo.GreetingEmbedded,
		// The embedded server knows no client-side caching, and in RESP3 no command beside a subscription.
		option:   rueidis.ClientOption{InitAddress: []string{embedded.Addr()}, ForceSingleClient: true, AlwaysRESP2: true},
		embedded: embedded,
	}, nil
}

func (l *lockServer) close() {
	if l.embedded != nil {
		l.embedded.Close()
	}
}
