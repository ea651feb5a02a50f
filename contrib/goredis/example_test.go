// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/signalbox-go/signalbox/contrib/goredis"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A service that has a client gets locks by one line.
func ExampleDial() {
	ctx := context.Background()
	options, err := redis.ParseURL(serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(options) // the service has it
	defer func() { _ = client.Close() }()

	session, err := goredis.Dial(ctx, client)
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

// A primary behind sentinels, with TLS and a user for both. The options are those of redis.NewFailoverClient: a client that it made
// does not show them. TLSConfig is for servers and sentinels, as in go-redis.
//
//nolint:testableexamples // not every machine has sentinels
func ExampleDialOptions_sentinels() {
	options := &redis.FailoverOptions{ // the service has them
		MasterName: "mymaster", SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
		SentinelUsername: "watch", SentinelPassword: os.Getenv("SENTINEL_PASSWORD"),
		Username: "locks", Password: os.Getenv("REDIS_PASSWORD"),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	client := redis.NewFailoverClient(options)
	defer func() { _ = client.Close() }()

	session, err := goredis.DialOptions(context.Background(), options)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
}

// serverURL is where the example finds a server.
var serverURL string

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithServer(m, func(s *redistest.Server) { serverURL = s.URL() }))
}
