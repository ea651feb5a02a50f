// SPDX-License-Identifier: Apache-2.0

package valkeygo_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/valkey-io/valkey-go"

	"github.com/signalbox-go/signalbox/contrib/valkeygo"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A service that has the options of a client gets locks by one line.
func ExampleDial() {
	ctx := context.Background()
	options, err := valkey.ParseURL(serverURL) // "redis://localhost:6379"; the service has them
	if err != nil {
		log.Fatal(err)
	}
	session, err := valkeygo.Dial(ctx, options)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	lease, err := reentrant.New(session, "order/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Unlock())
	// Output: <nil>
}

// serverURL is where the example finds a server.
var serverURL string

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithServer(m, func(s *redistest.Server) { serverURL = s.URL() }))
}
