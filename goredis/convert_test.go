// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/goredis"
)

// What a session does by the options and writes nowhere; what it writes is compared with go-redis.
func TestSettingsAreTakenOver(t *testing.T) {
	t.Parallel()
	config := &tls.Config{ServerName: "redis.example", MinVersion: tls.VersionTLS12}
	o := converted(t, &redis.Options{Addr: "a:1", TLSConfig: config, DialTimeout: time.Second})
	require.NotSame(t, config, o.TLSConfig)
	require.Equal(t, time.Second, o.Dialer.Timeout)
	require.False(t, o.ForceSingleClient, "a cluster behind the address is found")
	o = converted(t, &redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"s:1"}, TLSConfig: config, DialTimeout: time.Second})
	require.NotSame(t, config, o.Sentinel.TLSConfig)
	require.Equal(t, time.Second, o.Sentinel.Dialer.Timeout)
	require.Len(t, converted(t, &redis.UniversalOptions{Addrs: []string{"a:1", "b:2"}}).InitAddress, 2)
	require.Equal(t, []string{"localhost:6379"}, converted(t, &redis.Options{}).InitAddress, "as go-redis has it")
	require.Equal(t, []string{"localhost:6379", "b:1"}, converted(t, &redis.ClusterOptions{Addrs: []string{"", "b:1"}}).InitAddress)
	require.True(t, converted(t, &redis.Options{Addr: "/s"}).ForceSingleClient, "a path leads to one server")
	require.Zero(t, converted(t, &redis.Options{DialTimeout: 5 * time.Second}).Dialer.Timeout, "which is no decision of the service")

	// What a client fills in by itself is no decision either: the options come to the same as before.
	for _, options := range []*redis.Options{{Addr: "a:1"}, {Addr: "a:1", TLSConfig: config}, {Addr: "a:1", TLSConfig: config, Network: "tcp4"}} {
		client := redis.NewClient(options)
		t.Cleanup(func() { _ = client.Close() })
		require.NotNil(t, client.Options().Dialer)
		before, filled := converted(t, options), converted(t, client.Options())
		require.Equal(t, before.DialCtxFn == nil, filled.DialCtxFn == nil)
		before.DialCtxFn, filled.DialCtxFn = nil, nil
		require.Equal(t, before, filled)
	}
	own := redis.NewDialer(&redis.Options{TLSConfig: config})
	require.NotNil(t, converted(t, &redis.Options{Dialer: own}).DialCtxFn, "it may do TLS that is asked for nowhere else")
}

// What the session cannot follow is refused by the name of the field, and nothing is dialled.
func TestSettingsThatCannotBeFollowedAreRefused(t *testing.T) {
	t.Parallel()
	onConnect := func(context.Context, *redis.Conn) error { return nil }
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = ring.Close() })
	behind := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, Password: "zecret"})
	t.Cleanup(func() { _ = behind.Close() })
	routed := redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, RouteRandomly: true})
	t.Cleanup(func() { _ = routed.Close() })
	dial := func(client redis.UniversalClient) func() error {
		return func() error { _, err := goredis.Dial(t.Context(), client); return err }
	}
	for want, call := range map[string]func() error{
		"OnConnect is set":                  refuses(&redis.Options{OnConnect: onConnect, Password: "zecret"}),
		"there is no address":               refuses(&redis.ClusterOptions{}),
		"there is no address: name":         refuses(&redis.FailoverOptions{MasterName: "m"}),
		"MasterName is empty":               refuses(&redis.FailoverOptions{SentinelAddrs: []string{"a:1"}}),
		"the options are nil":               refuses((*redis.Options)(nil)),
		"options are nil":                   refuses((*redis.UniversalOptions)(nil)),
		"the client is nil":                 dial(nil),
		"client is nil":                     dial((*redis.Client)(nil)),
		"is nil":                            dial((*redis.ClusterClient)(nil)),
		"embeds is (goredis_test.traced)":   dial(traced{}),
		"a *redis.Ring shows no settings":   dial(ring),
		"a *goredis_test.hidden shows no":   dial(&hidden{ring}),
		"hidden shows no settings":          dial(hidden{}),
		"redis.FailoverOptions to":          dial(&hidden{hidden{behind}}),
		"give its redis.FailoverOptions to": dial(behind),
		"ClusterSlots":                      dial(routed),
	} {
		err := call()
		require.ErrorIs(t, err, signalbox.ErrBadOption, want)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "zecret")
	}
}

func converted[O goredis.Options](t *testing.T, options O) rueidis.ClientOption {
	t.Helper()
	o, err := goredis.ClientOption(options)
	require.NoError(t, err)
	return o
}

func refuses[O goredis.Options](options O) func() error {
	return func() error { _, err := goredis.ClientOption(options); return err }
}

type (
	traced struct{ *redis.Client }         // as services wrap clients
	hidden struct{ redis.UniversalClient } // without the method Options
)

type limiter struct{}

func (limiter) Allow() error       { return nil }
func (limiter) ReportResult(error) {}
