// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
)

// serverVariable names a real server.
const serverVariable = "SIGNALBOX_REDIS"

// lockServer is the server of the locks: the embedded one, or a real one.
type lockServer struct {
	greeting string
	option   rueidis.ClientOption
	embedded *miniredis.Miniredis // nil with a real server
}

func openLockServer() (*lockServer, error) {
	if url := os.Getenv(serverVariable); url != "" {
		option, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", serverVariable, err)
		}
		return &lockServer{greeting: "Using the server that " + serverVariable + " names.", option: option}, nil
	}
	embedded, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("start the embedded server: %w", err)
	}
	embedded.ClockTTL(true) // keys end by the clock, as on a real server
	embedded.Server().SetPreHook(func(*server.Peer, string, ...string) bool {
		if embedded.TryLock() { // no command of a script: no key ends while one runs, as on a real server
			embedded.Unlock()
			embedded.SetTime(time.Now())
		}
		return false
	})
	return &lockServer{
		greeting: "Using an embedded server, in memory. Name a real one with " + serverVariable + "=redis://host:6379.",
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
