// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"regexp"
	"sync/atomic"
)

// TranslateHello returns a DialFunc whose connections translate one refusal. The client opens a connection with HELLO, and
// does without it if the server calls it an unknown command. Proxies have words of their own for that, which the
// client takes for a failure. next makes the connections; nil is the client's own dialer.
func TranslateHello(next DialFunc) DialFunc {
	if next == nil {
		next = dial
	}
	return func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := next(ctx, addr, dialer, config)
		if err != nil {
			return nil, err
		}
		return &translatedConn{Conn: conn}, nil
	}
}

// translatedConn is a connection of TranslateHello. The handshake is over when the client writes something without a HELLO.
type translatedConn struct {
	net.Conn

	handshakeOver atomic.Bool

	// Only the reader uses the following fields.
	unreturned []byte // the bytes that were read and not returned yet
	insideLine bool   // reports whether the next byte is inside a line
}

// maxRefusal is the length up to which the text of an error is read to its end.
const maxRefusal = 4096

const (
	helloRequest = "\r\nHELLO\r\n"
	helloUnknown = "-ERR unknown command 'HELLO'\r\n"
)

// helloRefused matches an error about HELLO. Errors with another code, such as NOAUTH, WRONGPASS, NOPERM and NOPROTO, do not
// mean that the command is unknown.
var helloRefused = regexp.MustCompile(`(?im)^-ERR [^\r\n]*\bhello\b[^\r\n]*\r\n`)

// Write implements net.Conn.
func (c *translatedConn) Write(b []byte) (int, error) {
	if !c.handshakeOver.Load() && !bytes.Contains(b, []byte(helloRequest)) {
		c.handshakeOver.Store(true)
	}
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *translatedConn) Read(b []byte) (int, error) {
	if len(c.unreturned) == 0 {
		n, err := c.Conn.Read(b)
		if n == 0 || err != nil || c.handshakeOver.Load() {
			return n, err
		}
		c.unreturned = c.translate(bytes.Clone(b[:n]))
	}
	n := copy(b, c.unreturned)
	c.unreturned = c.unreturned[n:]
	return n, nil
}

// translate replaces refusals of HELLO in what was read. If the last line is an error, it reads that to its end first. If
// reading ends meanwhile, the client finds out when it reads on.
func (c *translatedConn) translate(read []byte) []byte {
	lines := 0 // where the first line begins
	if c.insideLine {
		if lines = bytes.IndexByte(read, '\n') + 1; lines == 0 {
			return read
		}
	}
	more := make([]byte, maxRefusal)
	for len(read) < maxRefusal && endsInAnError(read[lines:]) {
		n, err := c.Conn.Read(more)
		read = append(read, more[:n]...)
		if err != nil {
			break
		}
	}
	c.insideLine = read[len(read)-1] != '\n'
	return append(read[:lines:lines], helloRefused.ReplaceAllLiteral(read[lines:], []byte(helloUnknown))...)
}

// endsInAnError reports whether the last line is an error whose end is missing.
func endsInAnError(lines []byte) bool {
	last := lines[bytes.LastIndexByte(lines, '\n')+1:]
	return len(last) > 0 && last[0] == '-'
}
