// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A refusal of HELLO is translated however it is cut into reads, during the handshake alone, and nothing else is.
func TestARefusalOfHELLOIsTranslatedInTheHandshakeAlone(t *testing.T) {
	t.Parallel()
	const unknown, other = "-ERR unknown command 'HELLO'\r\n", "-ERR Unsupported: hello\r\n"
	hello := "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"
	helloWithAuth := "*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$4\r\nshop\r\n$6\r\nsecret\r\n"
	auth := "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"
	for name, c := range map[string]struct{ request, reply, want string }{
		"Translated":   {hello, other + "+OK\r\n", unknown + "+OK\r\n"},
		"BehindAnAUTH": {auth + hello, "+OK\r\n" + other, "+OK\r\n" + unknown},
		"NoHELLO":      {"*1\r\n$4\r\nPING\r\n", other, other},
		"OtherError":   {hello, "-ERR out of memory\r\n", "-ERR out of memory\r\n"},
		"NOAUTH":       {hello, "-NOAUTH HELLO must be called with the client already authenticated\r\n", "-NOAUTH HELLO must be called with the client already authenticated\r\n"},
		"NOPERM":       {hello, "-NOPERM no permissions to run the 'hello' command\r\n", "-NOPERM no permissions to run the 'hello' command\r\n"},
		"NOPROTO":      {hello, "-NOPROTO sorry this protocol version is not supported\r\n", unknown},
		"WithoutCode":  {hello, "-unsupported command 'HELLO'\r\n", unknown},
		"NotNamed":     {hello, "-ERR command not found\r\n", unknown},
		"AsksForAUTH":  {helloWithAuth, "-NOAUTH Authentication required.\r\n", unknown},
		"WRONGPASS":    {helloWithAuth, "-WRONGPASS invalid username-password pair\r\n", "-WRONGPASS invalid username-password pair\r\n"},
		"Temporary":    {hello, "-ERR max number of clients reached\r\n", "-ERR max number of clients reached\r\n"},
		"OtherRequest": {hello + auth, "%1\r\n+proto\r\n:3\r\n-ERR unknown command\r\n", "%1\r\n+proto\r\n:3\r\n-ERR unknown command\r\n"},
		"NoError":      {hello, "%1\r\n+hello\r\n+-ERR hello\r\n", "%1\r\n+hello\r\n+-ERR hello\r\n"},
	} {
		for size := 1; size <= len(c.reply); size++ {
			client, server := net.Pipe()
			conn, err := TranslateHello(func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return client, nil })(t.Context(), "", nil, nil)
			require.NoError(t, err)
			go func() {
				_, _ = io.ReadFull(server, make([]byte, len(c.request)))
				for rest := c.reply; rest != ""; {
					n, _ := io.WriteString(server, rest[:min(size, len(rest))])
					rest = rest[n:]
				}
				_ = server.Close()
			}()
			_, err = io.WriteString(conn, c.request)
			require.NoError(t, err)
			read, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Equal(t, c.want, string(read), "%s by %d", name, size)
		}
	}
}
