// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/signalboxtest/memory"
)

// lockServer is the server of the locks: the embedded one, or a real one.
type lockServer struct {
	greeting string
	option   rueidis.ClientOption
	embedded *memory.Server // nil with a real server
}

func openLockServer() (*lockServer, error) {
	if url := os.Getenv(demo.ServerVariable); url != "" {
		option, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", demo.ServerVariable, err)
		}
		return &lockServer{greeting: demo.GreetingReal, option: option}, nil
	}
	embedded, err := memory.Start()
	if err != nil {
		return nil, err
	}
	option, err := rueidis.ParseURL(embedded.URL())
	if err != nil {
		return nil, err
	}
	option.ForceSingleClient = true // it knows no client-side caching
	return &lockServer{greeting: demo.GreetingEmbedded, option: option, embedded: embedded}, nil
}

func (l *lockServer) close() {
	if l.embedded != nil {
		l.embedded.Close()
	}
}
