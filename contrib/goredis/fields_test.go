// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/contrib/goredis"
	"github.com/signalbox-go/signalbox/internal/testing/dialtest"
)

// refused are the fields that are refused by their name.
const refused = `OnConnect Limiter ClusterSlots NewClient`

// leftOut are the fields that change nothing in a session, by the reason.
var leftOut = map[string]string{
	"a session has no pool": `PoolFIFO PoolSize MaxConcurrentDials PoolTimeout MinIdleConns MaxIdleConns MaxActiveConns ConnMaxIdleTime
		ConnMaxLifetime ConnMaxLifetimeJitter PipelinePoolSize AutoPipelineOptions`,
	"a session repeats calls by rules of its own": `MaxRetries MinRetryBackoff MaxRetryBackoff DialerRetries DialerRetryTimeout DialerRetryBackoff
		MaxRedirects`,
	"calls end with their context, and silent connections by Tune": `ReadTimeout WriteTimeout ContextTimeoutEnabled`,
	"memory of the client":                              `ReadBufferSize WriteBufferSize PipelineReadBufferSize PipelineWriteBufferSize`,
	"a session caches nothing":                          `ClientSideCacheConfig ClientSideCache ClientSideCacheStrategy`,
	"locks go to the primary":                           `ReadOnly RouteByLatency RouteRandomly ReplicaOnly UseDisconnectedReplicas`,
	"scripts go to the node of their keys":              `DisableRoutingPolicies ShardPicker`,
	"the session finds the nodes by itself":             `ClusterStateReloadInterval FailingTimeoutSeconds`,
	"what a client says of itself":                      `DisableIndentity DisableIdentity IdentitySuffix`,
	"a push of the server that a session does not need": `PushNotificationProcessor MaintNotificationsConfig NodeAddress`,
	"without effect in go-redis":                        `UnstableResp3`,
}

// Each field of go-redis changes what a session does, is refused by its name, or is left out for a reason, in each struct that has it.
// A field that go-redis gains is decided on, and never lost by accident.
func TestEachFieldIsCarriedRefusedOrLeftOut(t *testing.T) {
	t.Parallel()
	var none []string
	for _, names := range leftOut {
		none = append(none, strings.Fields(names)...)
	}
	seen := make(map[string]bool)
	for _, bases := range [][]any{
		{redis.Options{Addr: "a:1", Username: "u", Password: "p", DB: 3}},
		{redis.ClusterOptions{Addrs: []string{"a:1"}, Username: "u", Password: "p"}},
		{redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:1"}, Username: "u", Password: "p", SentinelUsername: "u", SentinelPassword: "p", DB: 3}},
		{ // which are one of the others
			redis.UniversalOptions{Addrs: []string{"a:1"}, Username: "u", Password: "p", DB: 3},
			redis.UniversalOptions{MasterName: "m", Addrs: []string{"a:1"}, SentinelUsername: "u", SentinelPassword: "p"},
		},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(bases[0])) {
			if !f.IsExported() {
				continue
			}
			seen[f.Name] = true
			isRefused := slices.Contains(strings.Fields(refused), f.Name)
			changes := false
			for _, base := range bases {
				changed := reflect.New(reflect.TypeOf(base)).Elem()
				changed.Set(reflect.ValueOf(base))
				if field := changed.FieldByIndex(f.Index); field.Kind() == reflect.Interface {
					field.Set(implementation(t, field.Type()))
				} else {
					dialtest.SetUnusual(field)
				}
				after, err := effect(t, changed.Interface())
				if isRefused {
					require.ErrorContains(t, err, f.Name+" is set", "%T", base)
					continue
				}
				require.NoError(t, err, "%T.%s", base, f.Name)
				before, err := effect(t, base)
				require.NoError(t, err)
				changes = changes || !reflect.DeepEqual(before, after)
			}
			if !isRefused {
				require.Equal(t, slices.Contains(none, f.Name), !changes, "%T.%s: carry it, refuse it, or say why it is left out", bases[0], f.Name)
			}
		}
	}
	for _, name := range append(strings.Fields(refused), none...) {
		require.True(t, seen[name], "go-redis has no field %s", name)
	}
}

// effect returns what the options come to: the options of the session's client, and what their functions return.
func effect(t *testing.T, options any) (effects []any, err error) {
	t.Helper()
	var o rueidis.ClientOption
	switch options := options.(type) {
	case redis.Options:
		o, err = goredis.ClientOption(&options)
	case redis.ClusterOptions:
		o, err = goredis.ClientOption(&options)
	case redis.FailoverOptions:
		o, err = goredis.ClientOption(&options)
	case redis.UniversalOptions:
		o, err = goredis.ClientOption(&options)
	}
	if o.DialCtxFn != nil {
		_, err := o.DialCtxFn(t.Context(), "a", &net.Dialer{}, nil)
		effects = append(effects, fmt.Sprint("dialled: ", err))
	}
	if o.AuthCredentialsFn != nil {
		_, err := o.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
		effects = append(effects, fmt.Sprint("asked: ", err))
	}
	o.DialCtxFn, o.AuthCredentialsFn = nil, nil // no functions can be compared
	return append(effects, o), err
}

// implementation returns a value of an interface.
func implementation(t *testing.T, of reflect.Type) reflect.Value {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer func() { _ = client.Close() }()
	provider := new(tokens)
	provider.set("1")
	for _, one := range []any{limiter{}, provider, struct{ redis.Cache }{}, redis.NewPushNotificationProcessor(), client.Options().ShardPicker} {
		if reflect.TypeOf(one).Implements(of) {
			return reflect.ValueOf(one)
		}
	}
	t.Fatal("add an implementation of ", of)
	return reflect.Value{}
}

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
