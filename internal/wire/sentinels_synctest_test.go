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
	"github.com/signalbox-go/signalbox/internal/errs"
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

// P10: a redirection for a client of one server. From a primary of a cluster it is final, and the connections stay; from any other
// server it can pass, and the address is followed, but not with each redirection.
func TestRedirectionOfAClientOfOneServer(t *testing.T) {
	t.Parallel()
	asCluster := strings.Replace(greeting, "$10\r\nstandalone", "$7\r\ncluster", 1)
	noHello := "-ERR unknown command 'HELLO'\r\n"
	for name, c := range map[string]struct {
		hello   string
		age     time.Duration // the age of the connection at the first redirection
		resp2   bool
		verdict wire.Verdict
		dials   int // the most dials in 10 s, beside the first one
	}{
		"ClusterPrimary":         {asCluster, time.Second, false, wire.Final, 0},
		"ClusterPrimary/Later":   {asCluster, time.Minute, false, wire.Final, 1},
		"ClusterPrimary/RESP2":   {asCluster, time.Minute, true, wire.Final, 1},
		"ClusterReplica":         {strings.Replace(asCluster, "$6\r\nmaster", "$5\r\nslave", 1), time.Second, false, wire.Temporary, 200},
		"ProxyOfOneServer":       {greeting, time.Minute, false, wire.Temporary, 4},
		"ProxyWithoutHELLO":      {noHello, time.Minute, false, wire.Temporary, 4},
		"ProxyOfOneServer/RESP2": {noHello, time.Minute, true, wire.Temporary, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var f fakeServer
				f.set(nil, func(request string) string {
					switch {
					case strings.Contains(request, "EVALSHA"):
						return "-MOVED 3999 near:2\r\n"
					case strings.Contains(request, "HELLO"):
						return c.hello
					}
					return welcomes(request)
				})
				client := f.client(t, func(o *rueidis.ClientOption) {
					o.ConnLifetime, o.DisableRetry, o.AlwaysRESP2, o.DisableCache = -1, true, c.resp2, c.resp2
				})
				defer client.Close()
				r := wire.NewRunner(client)
				require.NoError(t, r.RunMany(t.Context(), []wire.Call{{Command: "PING"}})[0].Err)
				time.Sleep(c.age)
				before := f.dialCount()
				for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(100 * time.Millisecond) {
					_, err := r.Run(t.Context(), hello("key"))
					require.Equal(t, c.verdict, wire.Judge(err), err)
					require.False(t, wire.MayHaveRun(err))
					require.ErrorContains(t, err, "MOVED 3999 near:2")
					if c.verdict == wire.Final {
						require.ErrorIs(t, err, errs.ErrUnsupported)
						require.ErrorContains(t, err, "make a client of the cluster")
					}
					require.Equal(t, c.verdict, wire.Judge(r.RunMany(t.Context(), []wire.Call{hello("key"), hello("key")})[1].Err))
					require.NoError(t, r.RunMany(t.Context(), []wire.Call{{Command: "PING"}})[0].Err)
				}
				require.LessOrEqual(t, f.dialCount()-before, c.dials)
			})
		})
	}
}

// A probe for slots that is refused because memory is full says nothing about slots: the next one comes within a minute, and not ten.
func TestProbeRefusedForAnotherReasonIsRepeatedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f fakeServer
		say := func(reply string) {
			f.set(nil, func(request string) string {
				if strings.Contains(request, "HELLO") {
					return greeting
				}
				return reply
			})
		}
		say("-OOM command not allowed when used memory > 'maxmemory'.\r\n")
		client := f.client(t)
		defer client.Close()
		r := wire.NewRunner(client)
		r.Span.SetProbePrefix("sb:")
		for range 360 {
			require.False(t, r.Span.CertainlySpansSlots(t.Context()))
			time.Sleep(10*time.Second + 300*time.Millisecond) // between two pings: the fake server replies alike to what comes in one piece
		}
		say(":32\r\n")
		time.Sleep(time.Minute)
		require.True(t, r.Span.CertainlySpansSlots(t.Context()))
	})
}

// P10: Dial refuses a node of a cluster for a client of one server, also if the first names that it uses are at that node, and
// if the node is slow. A cluster of one node is one server.
func TestDialRefusesANodeOfAClusterAsOneServer(t *testing.T) {
	t.Parallel()
	const info = "role:master\r\ncluster_enabled:1\r\n"
	for exists, refused := range map[string]bool{"-MOVED 3999 near:2\r\n": true, ":0\r\n": false, "-NOPERM no right\r\n": false} {
		synctest.Test(t, func(t *testing.T) {
			var f fakeServer
			f.set(nil, func(request string) string {
				switch {
				case strings.Contains(request, "EVAL"):
					return "*5\r\n:1\r\n$16\r\n1700000000000000\r\n$0\r\n\r\n$0\r\n\r\n:1\r\n"
				case strings.Contains(request, "HELLO"):
					if strings.HasPrefix(request, "*1") { // not the one with which the client begins
						time.Sleep(1500 * time.Millisecond)
					}
					return strings.Replace(greeting, "$10\r\nstandalone", "$7\r\ncluster", 1)
				case strings.Contains(request, "INFO"):
					return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
				case strings.Contains(request, "EXISTS"):
					return exists
				}
				return welcomes(request)
			})
			s, err := signalbox.DialWith(t.Context(), rueidis.ClientOption{InitAddress: []string{"far:1"}, ForceSingleClient: true, DialCtxFn: f.dial})
			if !refused {
				require.NoError(t, err)
				require.NoError(t, s.Close(t.Context()))
				return
			}
			require.ErrorIs(t, err, signalbox.ErrUnsupported)
			require.ErrorContains(t, err, "without ForceSingleClient")
		})
	}
}

// A proxy that knows neither HELLO nor CLUSTER, and says so in words of its own, is served as a single server. One that is too old is not.
func TestDialServesWhatKnowsNoHELLO(t *testing.T) {
	t.Parallel()
	const isNew, isOld = "*5\r\n:1\r\n$16\r\n1700000000000000\r\n$0\r\n\r\n$0\r\n\r\n:1\r\n", "*2\r\n:0\r\n$16\r\n1700000000000000\r\n"
	for hello, c := range map[string]struct {
		cluster, script string
		want            error
	}{
		"unknown command 'HELLO', with args beginning with: '3'": {"This instance has cluster support disabled", isNew, nil},
		"unknown command 'HELLO'":                                {"This instance has cluster support disabled", isOld, errs.ErrOldServer},
		"unsupported command 'HELLO'":                            {"unsupported command 'CLUSTER'", isNew, nil},
		"unsupported command `hello`":                            {"unsupported command `cluster`", isNew, nil},
		"command hello is not allowed":                           {"this command is not supported", isNew, nil},
		"Command not supported by the proxy: HELLO":              {"not supported", isNew, nil},
	} {
		for _, resp2 := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServer{reply: func(request string) string {
					switch {
					case strings.Contains(request, "EVAL"):
						return c.script
					case strings.Contains(request, "HELLO"):
						return "-ERR " + hello + "\r\n"
					case strings.Contains(request, "CLUSTER"):
						return "-ERR " + c.cluster + "\r\n"
					}
					return welcomes(request)
				}}
				s, err := signalbox.DialWith(t.Context(), rueidis.ClientOption{InitAddress: []string{"far:1"}, AlwaysRESP2: resp2, DialCtxFn: f.dial})
				require.ErrorIs(t, err, c.want)
				if err == nil {
					require.NoError(t, s.Close(t.Context()))
				}
			})
		}
	}
}
