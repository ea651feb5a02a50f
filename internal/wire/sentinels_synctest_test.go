// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P10: sentinels that name different primaries are found, and which names which; one that is silent, or names
// the same primary in another spelling, is no reason.
func TestSentinelsThatDisagreeAreNamed(t *testing.T) {
	t.Parallel()
	for want, hosts := range map[string][]string{
		"": {"10.0.0.1", "::ffff:10.0.0.1", "silent"},
		"10.0.0.1:6379 by s0:1, s2:1; 10.0.0.2:6379 by s1:1": {"10.0.0.1", "10.0.0.2", "10.0.0.1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := rueidis.ClientOption{InitAddress: []string{"s0:1", "s1:1", "s2:1"}}
			o.Sentinel.MasterSet = "main"
			o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
				host := hosts[addr[1]-'0']
				var f fakeServer
				f.reply = func(request string) string {
					switch {
					case host == "silent":
						time.Sleep(time.Minute)
						return ""
					case strings.Contains(request, "SENTINEL"):
						return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$4\r\n6379\r\n", len(host), host)
					}
					return welcomes(request)
				}
				return f.dial(ctx, addr, dialer, config)
			}
			signalbox.Tune(&o)
			begun := time.Now()
			require.Equal(t, want, wire.SentinelDisagreement(t.Context(), o))
			require.LessOrEqual(t, time.Since(begun), o.Dialer.Timeout)
			time.Sleep(2 * time.Minute) // until the attempts have ended
		})
	}
}

// A password for sentinels is not written without TLS if TLS was asked for, not even by a dialer of the service. Sentinels without
// a password may be plain.
func TestSentinelsGetNoPasswordWithoutTLS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := &tls.Config{ServerName: "redis.example", MinVersion: tls.VersionTLS12}
		for name, c := range map[string]struct {
			sentinel rueidis.SentinelOption
			tls      *tls.Config
			writes   string // what the first byte is, or ""
			options  []signalbox.SessionOption
		}{
			"NoTLS":    {rueidis.SentinelOption{Password: "zecret"}, nil, "*", nil},
			"Nothing":  {rueidis.SentinelOption{}, config, "*", nil},
			"Password": {rueidis.SentinelOption{Password: "zecret"}, config, "", nil},
			"User":     {rueidis.SentinelOption{Username: "watch"}, config, "", nil},
			"Function": {rueidis.SentinelOption{}, config, "", []signalbox.SessionOption{signalbox.WithSentinelCredentials(ofWatcher)}},
			"Both":     {rueidis.SentinelOption{Username: "watch", Password: "zecret", TLSConfig: config}, config, "\x16", nil},
		} {
			first := make(chan string, 10)
			o := rueidis.ClientOption{InitAddress: []string{"s0:1"}, TLSConfig: c.tls, Sentinel: c.sentinel}
			o.Sentinel.MasterSet = "main"
			o.DialCtxFn = func(_ context.Context, _ string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
				near, far := net.Pipe()
				go func() {
					b := make([]byte, 1)
					n, _ := far.Read(b)
					first <- string(b[:n])
					_ = far.Close()
				}()
				if config != nil {
					return tls.Client(near, config), nil
				}
				return near, nil
			}
			_, err := signalbox.DialWith(t.Context(), o, c.options...)
			require.Error(t, err, name)
			require.NotContains(t, err.Error(), "zecret")
			if c.writes == "" {
				require.ErrorIs(t, err, signalbox.ErrBadOption, name)
				require.ErrorContains(t, err, "set Sentinel.TLSConfig", name)
				require.Empty(t, first, "nothing is dialled")
				continue
			}
			require.Equal(t, c.writes, <-first, name)
		}
	})
}

// ofWatcher returns the credentials of a user of sentinels.
func ofWatcher(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	return rueidis.AuthCredentials{Username: "watch", Password: "zecret"}, nil
}

// Credentials of sentinels are of no use without sentinels, and to a session whose client exists already.
func TestCredentialsOfSentinelsNeedSentinels(t *testing.T) {
	t.Parallel()
	_, err := signalbox.DialWith(t.Context(), rueidis.ClientOption{InitAddress: []string{"far:1"}}, signalbox.WithSentinelCredentials(ofWatcher))
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorContains(t, err, "master_set")
	synctest.Test(t, func(t *testing.T) {
		var f fakeServer
		f.set(nil, welcomes)
		client := f.client(t)
		defer client.Close()
		s := signalbox.NewSession(client, signalbox.WithSentinelCredentials(ofWatcher))
		require.ErrorIs(t, reentrant.New(s, "a").Check(), signalbox.ErrBadOption)
		s = signalbox.NewSession(client, signalbox.WithSentinelCredentials(nil))
		require.NoError(t, reentrant.New(s, "a").Check())
	})
}
