// SPDX-License-Identifier: Apache-2.0

package valkeygo_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/contrib/valkeygo"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/dialtest"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// leftOut are the fields that change nothing in a session, by the reason.
var leftOut = map[string]string{
	"a session caches nothing":                    `NewCacheStoreFn OnInvalidations CacheSizeEachConn ClientTrackingOptions DisableCache`,
	"locks go to the primary":                     `SendToReplicas ReplicaSelector ReadNodeSelector ReplicaOnly Standalone EnableReplicaAZInfo AZFromInfo`,
	"a session repeats calls by rules of its own": `RetryDelay DisableRetry`,
	"a session has no pool":                       `BlockingPoolCleanup BlockingPoolMinSize BlockingPoolSize BlockingPipeline`,
	"memory of the client":                        `RingScaleEachConn ReadBufferEachConn WriteBufferEachConn`,
	"Tune decides on it":                          `PipelineMultiplex DisableAutoPipelining AlwaysPipelining`,
	"what a client says of itself":                `ClientSetInfo`,
	"keys of locks count as used":                 `ClientNoTouch`,
}

// Each field of valkey-go has its value in the result, or is left out for a reason. A field that valkey-go gains is decided on, and never
// lost by accident.
func TestEachFieldIsCarriedOrLeftOut(t *testing.T) {
	t.Parallel()
	var none []string
	for _, names := range leftOut {
		none = append(none, strings.Fields(names)...)
	}
	seen := make(map[string]bool)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[valkey.ClientOption]()) {
		seen[f.Name] = true
		var full valkey.ClientOption
		from := reflect.ValueOf(&full).Elem().FieldByIndex(f.Index)
		dialtest.SetUnusual(from)
		require.False(t, from.IsZero(), f.Name)
		result := valkeygo.ClientOption(full)
		if slices.Contains(none, f.Name) {
			require.Equal(t, rueidis.ClientOption{}, result, "%s: it is said to be left out", f.Name)
			continue
		}
		requireSame(t, from, reflect.ValueOf(result).FieldByName(f.Name), f.Name)
	}
	for _, name := range none {
		require.True(t, seen[name], "valkey-go has no field %s", name)
	}
	config := &tls.Config{ServerName: "valkey.example", MinVersion: tls.VersionTLS12}
	o := valkeygo.ClientOption(valkey.ClientOption{TLSConfig: config, Sentinel: valkey.SentinelOption{TLSConfig: config}})
	require.NotSame(t, config, o.TLSConfig)
	require.NotSame(t, config, o.Sentinel.TLSConfig)
	_, err := valkeygo.ClientOption(valkey.ClientOption{AuthCredentialsFn: func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
		return valkey.AuthCredentials{}, errors.New("no token")
	}}).AuthCredentialsFn(rueidis.AuthCredentialsContext{})
	require.ErrorContains(t, err, "no token")
}

// requireSame compares values of types of two clients.
func requireSame(t *testing.T, from, to reflect.Value, name string) {
	t.Helper()
	require.True(t, to.IsValid(), "%s: rueidis has no such field; carry it otherwise, or say why it is left out", name)
	switch {
	case from.Kind() == reflect.Struct && from.Type() != to.Type():
		for i := range from.NumField() {
			field := from.Type().Field(i).Name
			requireSame(t, from.Field(i), to.FieldByName(field), name+"."+field)
		}
	case from.Kind() == reflect.Func:
		require.False(t, to.IsNil(), name)
	case from.Type() == reflect.TypeFor[net.Dialer](): // with functions in it
		require.Equal(t, from.FieldByName("Timeout").Interface(), to.FieldByName("Timeout").Interface(), name)
		require.False(t, to.FieldByName("ControlContext").IsNil(), name)
	default:
		require.Equal(t, from.Interface(), to.Interface(), name)
	}
}

func TestASessionWorks(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	server := redistest.Start(t, redistest.WithArgs("--unixsocket", socket))
	server.MustDo(t, "ACL", "SETUSER", "teller", "on", ">right", "~*", "&*", "+@all")
	mutual := redistest.Start(t, redistest.WithClientCertificates())
	cluster := redistest.StartCluster(t)
	unix := func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", socket)
	}
	for name, o := range map[string]valkey.ClientOption{
		"Plain":   {InitAddress: []string{server.Addr()}},
		"User":    {InitAddress: []string{server.Addr()}, Username: "teller", Password: "right", SelectDB: 3, AlwaysRESP2: true},
		"Unix":    {InitAddress: []string{socket}, DialCtxFn: unix},
		"Mutual":  {InitAddress: []string{mutual.Addr()}, TLSConfig: mutual.TLSConfig()},
		"Cluster": {InitAddress: []string{cluster.Servers()[0].Addr()}},
	} {
		s, err := valkeygo.Dial(t.Context(), o)
		require.NoError(t, err, name)
		lease := locktest.Must(t, reentrant.New(s, name).Lock)
		waiting := locktest.LaterWith(t.Context(), fair.New(s, name).Lock)
		require.NoError(t, lease.Unlock())
		require.NoError(t, locktest.MustHave(t, waiting).Unlock())
		require.NoError(t, s.Close(t.Context()))
	}
	_, err := valkeygo.Dial(t.Context(), valkey.ClientOption{})
	require.ErrorIs(t, err, signalbox.ErrBadOption)
}

// A service starts while its server is away.
func TestTheDoorPassesTheLateStartOn(t *testing.T) {
	t.Parallel()
	s, err := valkeygo.Dial(t.Context(), valkey.ClientOption{InitAddress: []string{"127.0.0.1:1"}}, signalbox.WithLazyConnect()) // nothing listens there
	require.NoError(t, err)
	require.ErrorContains(t, s.Ping(t.Context()), "127.0.0.1:1")
	require.NoError(t, s.Close(t.Context()))
}
