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

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Servers and proxies repeat what they refuse. No error has the password, whole or its beginning: neither of a call nor of a connection
// that cannot be replaced.
func TestErrorsHaveNoPasswords(t *testing.T) {
	t.Parallel()
	const secret = "S3cretPassw0rd"
	long := secret + strings.Repeat("0", 200)
	for name, c := range map[string]struct{ password, echo string }{
		"Redis":            {secret, "ERR unknown command 'AUTH', with args beginning with: '%s' "},
		"Redis cuts":       {long, "ERR unknown command 'AUTH', with args beginning with: '%.128s' "},
		"a proxy":          {secret, "PROXYERR command AUTH %s is not allowed"},
		"a proxy, quoting": {"S3cret\"Passw0rd", "PROXYERR command AUTH %q is not allowed"},
	} {
		for _, resp2 := range []bool{true, false} {
			for _, split := range []bool{true, false} {
				t.Run(fmt.Sprint(name, resp2, split), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						var f fakeServer
						welcomesAll := func(request string) string {
							if strings.Contains(request, "AUTH") && !strings.Contains(request, "HELLO") {
								return "+OK\r\n"
							}
							return welcomes(request)
						}
						f.set(nil, welcomesAll)
						client := f.client(t, func(o *rueidis.ClientOption) {
							o.Password, o.AlwaysRESP2 = c.password, resp2
							if split {
								dial := o.DialCtxFn
								o.DialCtxFn = splitting(dial)
							}
						})
						defer client.Close()
						r := wire.NewRunner(client)
						f.set(nil, func(request string) string {
							if strings.Contains(request, "AUTH") {
								return "-" + fmt.Sprintf(c.echo, c.password) + "\r\n"
							}
							return welcomes(request)
						})
						for range 100 {
							_, err := r.Run(t.Context(), hello("key"))
							require.NoError(t, err)
							time.Sleep(200 * time.Millisecond)
						}
						found, _ := wire.Failures(client)
						require.NotEmpty(t, found)
						for _, err := range found {
							require.NotContains(t, err.Error(), "S3cret")
							require.Contains(t, err.Error(), "AUTH")
						}
						f.mu.Lock()
						accepts := f.reply
						f.mu.Unlock()
						f.set(nil, func(string) string { return "" })
						_, err := r.Run(t.Context(), hello("key"))
						require.Error(t, err)
						f.set(nil, accepts)
						for range 10 {
							_, err := r.Run(t.Context(), hello("key"))
							require.Error(t, err)
							require.NotContains(t, err.Error(), "S3cret")
							time.Sleep(time.Second)
						}
					})
				})
			}
		}
	}
}

// splitting lets each read of a connection return a few bytes.
func splitting(dial wire.DialFunc) wire.DialFunc {
	return func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, dialer, config)
		return splitConn{conn}, err
	}
}

type splitConn struct{ net.Conn }

// Read implements net.Conn.
func (c splitConn) Read(b []byte) (int, error) { return c.Conn.Read(b[:min(len(b), 7)]) }
