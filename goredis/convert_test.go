// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/goredis"
)

// Each field that is taken over has its effect, in each struct that has it.
func TestSettingsAreTakenOver(t *testing.T) {
	t.Parallel()
	config := &tls.Config{ServerName: "redis.example", MinVersion: tls.VersionTLS12}
	server := &redis.Options{
		Addr: "a:1", TLSConfig: config, Username: "u", Password: "p", DB: 3, ClientName: "c", Protocol: 2, DialTimeout: time.Second,
	}
	o := converted(t, server)
	require.Equal(t, []string{"a:1"}, o.InitAddress)
	require.Equal(t, "redis.example", o.TLSConfig.ServerName)
	require.NotSame(t, config, o.TLSConfig)
	require.Equal(t, []any{"u", "p", 3, "c", true, time.Second}, []any{o.Username, o.Password, o.SelectDB, o.ClientName, o.AlwaysRESP2, o.Dialer.Timeout})
	require.False(t, o.ForceSingleClient, "a cluster behind the address is found")
	require.Nil(t, o.AuthCredentialsFn)

	o = converted(t, &redis.ClusterOptions{Addrs: []string{"a:1", "b:2"}, Username: "u", Password: "p", TLSConfig: config, Protocol: 3})
	require.Equal(t, []string{"a:1", "b:2"}, o.InitAddress)
	require.Equal(t, []any{"u", "p", false, false}, []any{o.Username, o.Password, o.AlwaysRESP2, o.ForceSingleClient})

	failover := &redis.FailoverOptions{
		MasterName: "m", SentinelAddrs: []string{"s:1"}, SentinelUsername: "su", SentinelPassword: "sp", Username: "u", Password: "p", DB: 2,
		TLSConfig: config, DialTimeout: time.Second,
	}
	universal := &redis.UniversalOptions{
		MasterName: "m", Addrs: []string{"s:1"}, SentinelUsername: "su", SentinelPassword: "sp", Username: "u", Password: "p", DB: 2,
		TLSConfig: config, DialTimeout: time.Second,
	}
	for _, o := range []rueidis.ClientOption{converted(t, failover), converted(t, universal)} {
		require.Equal(t, []any{"m", "su", "sp", "u", "p", 2, time.Second},
			[]any{o.Sentinel.MasterSet, o.Sentinel.Username, o.Sentinel.Password, o.Username, o.Password, o.SelectDB, o.Sentinel.Dialer.Timeout})
		require.Equal(t, "redis.example", o.Sentinel.TLSConfig.ServerName)
	}

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

// The provider that go-redis would ask is asked, and no other.
func TestTheSameProviderIsAsked(t *testing.T) {
	t.Parallel()
	plain := func() (string, string) { return "plain", "1" }
	withContext := func(ctx context.Context) (string, string, error) {
		if _, limited := ctx.Deadline(); !limited {
			return "", "", errors.New("without a deadline")
		}
		return "context", "2", nil
	}
	provider := new(tokens)
	provider.set("3")
	for _, c := range []struct {
		options *redis.Options
		want    string
	}{
		{&redis.Options{Username: "static", Password: "0", CredentialsProvider: plain}, "plain 1"},
		{&redis.Options{CredentialsProvider: plain, CredentialsProviderContext: withContext}, "context 2"},
		{&redis.Options{CredentialsProvider: plain, CredentialsProviderContext: withContext, StreamingCredentialsProvider: provider}, "teller 3"},
	} {
		got, err := converted(t, c.options).AuthCredentialsFn(rueidis.AuthCredentialsContext{})
		require.NoError(t, err)
		require.Equal(t, c.want, got.Username+" "+got.Password)
		require.Equal(t, c.options.StreamingCredentialsProvider != nil, !got.RefreshAfter.IsZero(), "a token is sent again")
	}
}

// What the session cannot follow is refused by the name of the field, and nothing is dialled.
func TestSettingsThatCannotBeFollowedAreRefused(t *testing.T) {
	t.Parallel()
	onConnect := func(context.Context, *redis.Conn) error { return nil }
	slots := func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil }
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
		"Limiter is set":                    refuses(&redis.Options{Limiter: limiter{}}),
		"OnConnect":                         refuses(&redis.UniversalOptions{Addrs: []string{"a:1", "b:1"}, OnConnect: onConnect}),
		"OnConnect is":                      refuses(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:1"}, OnConnect: onConnect}),
		"ClusterSlots is set":               refuses(&redis.ClusterOptions{Addrs: []string{"a:1"}, ClusterSlots: slots}),
		"NewClient is set":                  refuses(&redis.ClusterOptions{Addrs: []string{"a:1"}, NewClient: func(o *redis.Options) *redis.Client { return redis.NewClient(o) }}),
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

// The dialer of the service makes the connections, to sentinels as well, with the network of its options.
func TestTheDialerOfTheServiceIsCalled(t *testing.T) {
	t.Parallel()
	var called []string
	dialer := func(_ context.Context, network, addr string) (net.Conn, error) {
		called = append(called, network+" "+addr)
		return nil, errors.New("not here")
	}
	for _, o := range []rueidis.ClientOption{
		converted(t, &redis.Options{Dialer: dialer, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}),
		converted(t, &redis.Options{Dialer: dialer, Network: "unix", Addr: "/s"}),
		converted(t, &redis.ClusterOptions{Dialer: dialer, Addrs: []string{"a:1"}}),
		converted(t, &redis.FailoverOptions{Dialer: dialer, SentinelAddrs: []string{"s:1"}, MasterName: "m"}),
	} {
		_, err := o.DialCtxFn(t.Context(), o.InitAddress[0], &o.Dialer, nil)
		require.ErrorContains(t, err, "not here")
	}
	require.Equal(t, []string{"tcp localhost:6379", "unix /s", "tcp a:1", "tcp s:1"}, called)
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
