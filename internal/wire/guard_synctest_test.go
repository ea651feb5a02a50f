// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/dialtest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

type (
	embeds struct{ net.Conn } // as services wrap connections, to count bytes
	loops  struct{ net.Conn } // shows itself
	shows  struct {           // hides the connection that it uses, and shows another one
		embedded
		shown net.Conn
	}
	embedded interface{ net.Conn }
)

func (l loops) NetConn() net.Conn { return l }
func (s shows) NetConn() net.Conn { return s.shown }

// A dialer of the service may return anything, and may not return at all. If TLS is asked for, the first byte on a connection begins a TLS
// handshake, or nothing is written. An attempt ends in time, with an error that says why.
func TestWhatADialerReturnsIsExamined(t *testing.T) {
	t.Parallel()
	const handshake, request = "\x16", "*" // how TLS begins, and the protocol
	const noTLS = "TLSConfig is set, and the dialer returned a connection without TLS"
	tlsConfig := &tls.Config{ServerName: "redis.example", MinVersion: tls.VersionTLS12}
	for name, c := range map[string]struct {
		config  *tls.Config
		returns func(plain net.Conn) net.Conn
		writes  string // the first byte, or ""
		says    string
	}{
		"TLS":         {tlsConfig, func(plain net.Conn) net.Conn { return tls.Client(plain, tlsConfig) }, handshake, ""},
		"EmbedsTLS":   {tlsConfig, func(plain net.Conn) net.Conn { return &embeds{tls.Client(plain, tlsConfig)} }, handshake, ""},
		"ShowsTLS":    {tlsConfig, func(plain net.Conn) net.Conn { c := tls.Client(plain, tlsConfig); return shows{c, c} }, handshake, ""},
		"Unsecured":   {nil, func(plain net.Conn) net.Conn { return plain }, request, ""},
		"Plain":       {tlsConfig, func(plain net.Conn) net.Conn { return plain }, "", noTLS},
		"EmbedsPlain": {tlsConfig, func(plain net.Conn) net.Conn { return embeds{&embeds{plain}} }, "", noTLS},
		"ShowsNil":    {tlsConfig, func(plain net.Conn) net.Conn { return shows{tls.Client(plain, tlsConfig), nil} }, "", noTLS},
		"Loops":       {tlsConfig, func(plain net.Conn) net.Conn { return loops{plain} }, "", noTLS},
		"Nil":         {nil, func(net.Conn) net.Conn { return nil }, "", "no connection and no error"},
		"TypedNil":    {tlsConfig, func(net.Conn) net.Conn { return (*tls.Conn)(nil) }, "", "no connection and no error"},
		"Panics":      {nil, func(net.Conn) net.Conn { panic("at the disco") }, "", "the dialer panicked: at the disco"},
		"Exits":       {nil, func(net.Conn) net.Conn { runtime.Goexit(); return nil }, "", "the dialer ended its goroutine"},
		"Late":        {nil, func(plain net.Conn) net.Conn { time.Sleep(time.Hour); return plain }, "", "the dialer did not return in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				written := make(map[string]bool)
				dial := func(string, *net.Dialer, *tls.Config) (net.Conn, error) {
					near, far := net.Pipe()
					go func() { // reads the first byte
						b := make([]byte, 1)
						_ = far.SetReadDeadline(time.Now().Add(3 * time.Hour)) // some dialers lose their connection
						n, _ := far.Read(b)
						_ = far.Close()
						mu.Lock()
						defer mu.Unlock()
						written[string(b[:n])] = true
					}()
					return c.returns(near), nil
				}
				began := time.Now()
				_, err := signalbox.DialWith(t.Context(), rueidis.ClientOption{
					InitAddress: []string{"redis.example:1"}, ForceSingleClient: true, Username: "shop", Password: "zecret", DialFn: dial, TLSConfig: c.config,
				})
				require.ErrorContains(t, err, c.says)
				require.NotContains(t, err.Error(), "zecret")
				require.LessOrEqual(t, time.Since(began), 3*time.Second)
				if c.says == noTLS {
					require.ErrorIs(t, err, signalbox.ErrBadOption)
				}
				time.Sleep(4 * time.Hour) // what is late has come
				mu.Lock()
				defer mu.Unlock()
				require.True(t, written[c.writes], written)
				require.False(t, c.config != nil && written[request], "the password would be next")
			})
		})
	}
}

// A function for credentials that panics, hangs or fails costs an attempt, and nothing is sent without credentials.
func TestCallsForCredentialsAreGuarded(t *testing.T) {
	t.Parallel()
	for says, credentials := range map[string]func() (rueidis.AuthCredentials, error){
		"the function for credentials panicked: at the disco": func() (rueidis.AuthCredentials, error) { panic("at the disco") },
		"the function for credentials did not return in time": func() (rueidis.AuthCredentials, error) { time.Sleep(time.Hour); panic("late") },
		"the function for credentials ended its goroutine":    func() (rueidis.AuthCredentials, error) { runtime.Goexit(); panic("never") },
		"redis.example:1: no token":                           func() (rueidis.AuthCredentials, error) { return rueidis.AuthCredentials{}, errors.New("no token") },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				_, err := signalbox.DialWith(t.Context(), rueidis.ClientOption{
					InitAddress: []string{"redis.example:1"}, ForceSingleClient: true,
					AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) { return credentials() },
					DialFn: func(string, *net.Dialer, *tls.Config) (net.Conn, error) {
						near, far := net.Pipe()
						go func() {
							written, _ := io.ReadAll(far)
							assert.NotContains(t, string(written), "HELLO") // the client closes a connection with a PING
						}()
						return near, nil
					},
				})
				require.ErrorContains(t, err, says)
				require.LessOrEqual(t, time.Since(began), 6*time.Second)
				time.Sleep(time.Hour) // the one that hangs ends
			})
		})
	}
}

// A function of TLSConfig that panics or hangs costs an attempt, also if the client's own dialer calls it.
func TestFunctionsOfTLSAreGuarded(t *testing.T) {
	t.Parallel()
	server, hangs := dialtest.StartServer(t), make(chan struct{})
	for says, verify := range map[string]func(){
		"panicked: at the disco": func() { panic("at the disco") },
		"did not return in time": func() { <-hangs },
		"ended its goroutine":    runtime.Goexit,
		"not verified":           nil,
	} {
		config := server.TLSConfig()
		config.VerifyConnection = func(tls.ConnectionState) error {
			if verify == nil {
				return errors.New("not verified")
			}
			verify()
			return nil
		}
		_, err := signalbox.DialWith(t.Context(), rueidis.ClientOption{
			InitAddress: []string{server.Addr(dialtest.ToServer)}, ForceSingleClient: true, TLSConfig: config, Dialer: net.Dialer{Timeout: time.Second / 2},
		})
		require.ErrorContains(t, err, says)
	}
	close(hangs)
}

// endless is a connection without deadlines, as one through SSH.
type endless struct{ net.Conn }

func (endless) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (endless) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (endless) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// A dialer may return connections without deadlines. They are used as all others are, also after their age, and a server that is silent
// holds up no attempt.
func TestConnectionsWithoutDeadlinesGetThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f fakeServer
		f.set(nil, welcomes)
		withoutDeadlines := func(o *rueidis.ClientOption) {
			o.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
				conn, err := f.dial(ctx, address, dialer, config)
				return endless{conn}, err
			}
		}
		client := f.client(t, withoutDeadlines)
		defer client.Close()
		r := wire.NewRunner(client)
		for range 100 {
			_, err := r.Run(t.Context(), hello("key"))
			require.NoError(t, err)
			time.Sleep(10 * time.Second)
		}
		failures, _ := wire.Failures(client)
		require.Empty(t, failures)
		f.set(nil, func(string) string { time.Sleep(time.Hour); return "" })
		began := time.Now()
		o := rueidis.ClientOption{InitAddress: []string{"far:1"}, ForceSingleClient: true}
		withoutDeadlines(&o)
		_, err := signalbox.DialWith(t.Context(), o)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.LessOrEqual(t, time.Since(began), 6*time.Second)
		time.Sleep(2 * time.Hour)
	})
}

// A dialer that does TLS by itself gets a configuration that says which name the certificate has to have.
func TestADialerGetsTheNameOfTheServer(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"redis.example:6379": "redis.example", "[::1]:6379": "::1", "[fe80::1%eth0]:1": "fe80::1", "/run/redis.sock": ""} {
		var got *tls.Config
		given := &tls.Config{MinVersion: tls.VersionTLS12}
		dial := wire.GuardedDialer(&rueidis.ClientOption{DialCtxFn: func(_ context.Context, _ string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
			got = config
			return nil, errors.ErrUnsupported
		}})
		_, err := dial(t.Context(), address, nil, given)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.Equal(t, want, got.ServerName)
		require.Empty(t, given.ServerName)
	}
}
