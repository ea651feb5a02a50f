// SPDX-License-Identifier: Apache-2.0

package valkeygo_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/valkeygo"
)

// What becomes of each field of valkey.ClientOption.
const (
	taken = `TLSConfig DialFn DialCtxFn AuthCredentialsFn Sentinel Dialer Username Password ClientName InitAddress SelectDB
		ConnWriteTimeout ConnLifetime MaxFlushDelay ClusterOption DisableTCPNoDelay ShuffleInit AlwaysRESP2 ForceSingleClient`
	ignored = `NewCacheStoreFn OnInvalidations SendToReplicas RetryDelay ReplicaSelector ReadNodeSelector ClientSetInfo
		ClientTrackingOptions Standalone CacheSizeEachConn RingScaleEachConn ReadBufferEachConn WriteBufferEachConn BlockingPoolCleanup
		BlockingPoolMinSize BlockingPoolSize BlockingPipeline PipelineMultiplex ClientNoTouch DisableRetry DisableCache
		DisableAutoPipelining AlwaysPipelining ReplicaOnly ClientNoEvict EnableReplicaAZInfo AZFromInfo`
)

// A field that valkey-go gains is taken over or ignored by a decision, and never by accident.
func TestEachFieldIsDecidedOn(t *testing.T) {
	t.Parallel()
	decided := strings.Fields(taken + " " + ignored)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[valkey.ClientOption]()) {
		require.Contains(t, decided, f.Name)
	}
}

// Each field that is taken over by its name alone has its value in the result.
func TestSettingsAreTakenOver(t *testing.T) {
	t.Parallel()
	var full valkey.ClientOption
	value := reflect.ValueOf(&full).Elem()
	for name := range strings.FieldsSeq(taken) {
		switch f := value.FieldByName(name); f.Kind() {
		case reflect.String:
			f.SetString(name)
		case reflect.Int, reflect.Int64:
			f.SetInt(7)
		case reflect.Bool:
			f.SetBool(true)
		default:
		}
	}
	full.InitAddress = []string{"a:1"}
	full.TLSConfig = &tls.Config{ServerName: "valkey.example", MinVersion: tls.VersionTLS12}
	full.Sentinel = valkey.SentinelOption{MasterSet: "m", Username: "su", Password: "sp", TLSConfig: full.TLSConfig}
	full.ClusterOption.ShardsRefreshInterval = time.Second
	full.Dialer.Timeout = time.Second
	o := valkeygo.ClientOption(full)
	got := reflect.ValueOf(o)
	for name := range strings.FieldsSeq(taken) {
		switch f := value.FieldByName(name); f.Kind() {
		case reflect.String, reflect.Int, reflect.Int64, reflect.Bool:
			require.Equal(t, f.Interface(), got.FieldByName(name).Interface(), name)
		default:
		}
	}
	require.Equal(t, full.InitAddress, o.InitAddress)
	require.Equal(t, "valkey.example", o.TLSConfig.ServerName)
	require.Equal(t, []string{"m", "su", "sp", "valkey.example"},
		[]string{o.Sentinel.MasterSet, o.Sentinel.Username, o.Sentinel.Password, o.Sentinel.TLSConfig.ServerName})
	require.Equal(t, []time.Duration{time.Second, time.Second}, []time.Duration{o.ClusterOption.ShardsRefreshInterval, o.Dialer.Timeout})

	for _, name := range []string{"ClusterOption", "Sentinel"} { // field by field: a field that one client alone has is no error of the compiler
		for from, i := value.FieldByName(name), 0; i < from.NumField(); i++ {
			field := from.Type().Field(i).Name
			switch f := from.Field(i); f.Kind() {
			case reflect.String:
				f.SetString(field)
			case reflect.Int, reflect.Int64:
				f.SetInt(7)
			case reflect.Bool:
				f.SetBool(true)
			default:
				continue
			}
			got := reflect.ValueOf(valkeygo.ClientOption(full)).FieldByName(name).FieldByName(field)
			require.Equal(t, from.Field(i).Interface(), got.Interface(), field)
		}
	}

	o = valkeygo.ClientOption(valkey.ClientOption{DialFn: func(addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return nil, errors.New("not at " + addr)
	}})
	_, err := o.DialFn("a:1", nil, nil)
	require.ErrorContains(t, err, "not at a:1")
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

// The password changes, and all connections end, while a lock is held and another one is acquired.
func TestAPasswordIsRotatedUnderLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var password atomic.Pointer[string]
	set := func(to string) {
		server.MustDo(t, "ACL", "SETUSER", "teller", "on", "resetpass", ">"+to, "~*", "&*", "+@all")
		password.Store(&to)
	}
	set("first")
	s, err := valkeygo.Dial(t.Context(), valkey.ClientOption{
		InitAddress: []string{server.Addr()},
		AuthCredentialsFn: func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
			return valkey.AuthCredentials{Username: "teller", Password: *password.Load()}, nil
		},
	})
	require.NoError(t, err)
	held := locktest.Must(t, reentrant.New(s, "held", signalbox.WithFirstLease(30*time.Second)).Lock)
	set("second")
	server.MustDo(t, "CLIENT", "KILL", "USER", "teller")
	require.NoError(t, locktest.Must(t, reentrant.New(s, "other").Lock).Unlock())
	require.NoError(t, held.Unlock())
	require.NoError(t, s.Close(t.Context()))
	_, err = valkeygo.ClientOption(valkey.ClientOption{AuthCredentialsFn: func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
		return valkey.AuthCredentials{}, errors.New("no token")
	}}).AuthCredentialsFn(rueidis.AuthCredentialsContext{})
	require.ErrorContains(t, err, "no token")
}
