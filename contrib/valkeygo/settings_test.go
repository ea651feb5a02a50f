// SPDX-License-Identifier: Apache-2.0

package valkeygo_test

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/contrib/valkeygo"
	"github.com/signalbox-go/signalbox/internal/testing/dialtest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The settings that are combined, and their values.
const (
	security = iota
	dialer
	credentials
	protocol
	database
	kind
)

var values = dialtest.Factors{
	security:    {"plain", "TLS", "TLS for servers alone"},
	dialer:      {"none", "DialCtxFn", "DialFn", "with TLS"},
	credentials: {"none", "password", "user and password", "function"},
	protocol:    {"3", "2"},
	database:    {"0", "3"},
	kind:        {"single", "forced", "cluster", "sentinel", "sentinel with a password"},
}

// setting is a row of values, by name.
type setting []int

func (s setting) is(factor int, names ...string) bool { return values.Is(s, factor, names...) }

func (s setting) isSentinel() bool { return s.is(kind, "sentinel", "sentinel with a password") }

func (s setting) sentinelCredentials() (user, password string) {
	if s.is(kind, "sentinel with a password") {
		return "watch", "wright"
	}
	return "", ""
}

// isPlain reports whether TLS was asked for, and not done by the dialer.
func (s setting) isPlain() bool {
	return s.is(security, "TLS", "TLS for servers alone") && s.is(dialer, "DialCtxFn", "DialFn")
}

// isSecretPlain reports whether TLS was asked for, and not for sentinels with a password.
func (s setting) isSecretPlain() bool {
	return s.is(security, "TLS for servers alone") && s.is(kind, "sentinel with a password")
}

// differences are what a session writes otherwise than valkey-go does, with the reason.
var differences = map[string]struct {
	of   func(s setting) bool
	want func(s setting, theirs []dialtest.Greeting) []dialtest.Greeting
}{
	"valkey-go writes the password of the servers in the clear on what a dialer returns": {
		func(s setting) bool { return s.isPlain() && !s.isSecretPlain() },
		func(s setting, theirs []dialtest.Greeting) []dialtest.Greeting {
			return slices.DeleteFunc(theirs, func(g dialtest.Greeting) bool { return g.To == dialtest.ToServer || s.is(security, "TLS") })
		},
	},
	"valkey-go writes the password of the sentinels in the clear": {
		setting.isSecretPlain,
		func(setting, []dialtest.Greeting) []dialtest.Greeting { return nil },
	},
	"valkey-go asks the function for credentials for sentinels, too": {
		func(s setting) bool { return s.isSentinel() && s.is(credentials, "function") && !s.isSecretPlain() },
		func(s setting, theirs []dialtest.Greeting) []dialtest.Greeting {
			for i, g := range theirs {
				if g.To == dialtest.ToSentinel {
					theirs[i].User, theirs[i].Password = s.sentinelCredentials()
				}
			}
			return theirs
		},
	},
}

// A session writes what valkey-go writes when it connects: see the test of the same name of module goredis.
func TestASessionConnectsAsValkeyGoDoes(t *testing.T) {
	t.Parallel()
	exists := func(row []int) bool {
		s := setting(row)
		return !(s.is(kind, "cluster") && s.is(database, "3"))
	}
	refused := func(s setting) bool { return s.isPlain() || s.isSecretPlain() }
	// Those that are refused say nothing of their other pairs.
	rows := values.Pairs(func(row []int) bool { return exists(row) && !refused(row) })
	for _, row := range values.Pairs(exists) {
		if refused(row) {
			rows = append(rows, row)
		}
	}
	seen := make(map[string]bool)
	for _, row := range rows {
		s, name := setting(row), values.Name(row)
		theirs, theirDials, err := s.run(t, func(o valkey.ClientOption) error {
			client, err := valkey.NewClient(o)
			if err == nil {
				client.Close()
			}
			return err
		})
		require.NoError(t, err, name)
		ours, ourDials, err := s.run(t, func(o valkey.ClientOption) error {
			session, err := valkeygo.Dial(context.Background(), o)
			if err != nil {
				return err
			}
			return session.Close(context.Background())
		})
		for why, d := range differences {
			if d.of(s) {
				seen[why] = true
				theirs = d.want(s, theirs)
			}
		}
		require.ElementsMatch(t, theirs, ours, "%s: %v", name, err)
		if refused(s) {
			require.ErrorIs(t, err, signalbox.ErrBadOption, name)
		} else {
			require.NoError(t, err, name)
			require.Equal(t, theirDials, ourDials, name)
		}
	}
	require.Len(t, seen, len(differences))
	t.Log(len(rows), "cases")
}

// See the test of the same name of module goredis. Connections are replaced by their age, too.
func TestNoLaterConnectionIsInTheClear(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "connections end and are made anew for a while")
	moved := make(chan int, 1)
	moved <- 0
	t.Run("rows", func(t *testing.T) {
		for _, row := range values.Pairs(func(row []int) bool {
			s := setting(row)
			return !(s.is(kind, "cluster") && s.is(database, "3")) && !s.isPlain() && !s.isSecretPlain() && !s.is(security, "plain")
		}) {
			t.Run(values.Name(row), func(t *testing.T) {
				t.Parallel()
				server := dialtest.StartServer(t)
				server.Restless = true
				s := setting(row)
				_, _, err := s.runAt(server, func(o valkey.ClientOption) error {
					o.ConnLifetime = 100 * time.Millisecond
					session, err := valkeygo.Dial(t.Context(), o)
					if err == nil {
						dialtest.Use(session)
					}
					return err
				})
				require.NoError(t, err)
				words, n := server.Clear()
				if s.is(security, "TLS") || !s.isSentinel() {
					require.Empty(t, words)
				}
				for _, secret := range []string{"teller", "right", "another", "wrong", "wright", "shop"} {
					require.NotContains(t, words, secret)
				}
				require.NotContains(t, strings.Join(words, " "), dialtest.Name)
				moved <- n + <-moved
			})
		}
	})
	require.Greater(t, <-moved, 10)
}

// run connects with the settings, and returns the greetings, and what a dialer of the service was asked for.
func (s setting) run(t *testing.T, use func(valkey.ClientOption) error) (greetings []dialtest.Greeting, dials []string, err error) {
	t.Helper()
	return s.runAt(dialtest.StartServer(t), use)
}

// runAt is run at a server.
func (s setting) runAt(server *dialtest.Server, use func(valkey.ClientOption) error) (greetings []dialtest.Greeting, dials []string, err error) {
	server.Cluster = s.is(kind, "cluster")
	o := valkey.ClientOption{
		ClientName: "shop", DisableCache: true, InitAddress: []string{server.Addr(dialtest.ToServer)}, ForceSingleClient: s.is(kind, "forced"),
		SelectDB: s[database] * 3, AlwaysRESP2: s.is(protocol, "2"),
	}
	if s.isSentinel() {
		o.Sentinel = valkey.SentinelOption{MasterSet: "main", ClientName: "watch"}
		o.Sentinel.Username, o.Sentinel.Password = s.sentinelCredentials()
		o.InitAddress = []string{server.Addr(dialtest.ToSentinel)}
	}
	if !s.is(security, "plain") {
		o.TLSConfig = server.TLSConfig()
	}
	if s.is(security, "TLS") {
		o.Sentinel.TLSConfig = server.TLSConfig()
	}
	switch values[credentials][s[credentials]] {
	case "password":
		o.Password = "right"
	case "user and password":
		o.Username, o.Password = "teller", "right"
	case "function":
		o.Username, o.Password = "another", "wrong"
		o.AuthCredentialsFn = func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
			return valkey.AuthCredentials{Username: "teller", Password: "right"}, nil
		}
	}
	dialed := server.Dials()
	switch values[dialer][s[dialer]] {
	case "DialCtxFn":
		o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			dialed.Note("tcp", addr)
			return dialer.DialContext(ctx, "tcp", addr)
		}
	case "DialFn":
		o.DialFn = func(addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			dialed.Note("tcp", addr)
			return dialer.Dial("tcp", addr)
		}
	case "with TLS":
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			dialed.Note("tcp", addr)
			return (&tls.Dialer{Config: server.TLSConfig()}).DialContext(ctx, "tcp", addr)
		}
	}
	err = use(o)
	greetings = server.Written()
	return greetings, dialed.Found(), err
}
