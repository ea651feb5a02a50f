// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"
)

// TranslateHello returns a DialFunc whose connections translate one refusal. The client opens a connection with HELLO, and
// does without it if the server calls it an unknown command. Proxies and services have words of their own for that, which the
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
		return &translatedConn{Conn: conn, requests: frameScanner{keepWord: true}}, nil
	}
}

// translatedConn is a connection of TranslateHello. The handshake is over when the client writes something without a HELLO.
type translatedConn struct {
	net.Conn

	handshakeOver atomic.Bool
	hello         atomic.Pointer[helloSent] // the last HELLO

	// Only the writer uses the following fields.
	requests frameScanner
	sent     uint64

	// Only the reader uses the following fields.
	replies    frameScanner
	received   uint64
	unreturned []byte // the bytes that were read and not returned yet
}

type helloSent struct {
	number   uint64 // its number among the requests of the connection
	withAuth bool   // reports whether it has credentials
}

// maxRefusal is the length up to which the text of an error is read to its end.
const maxRefusal = 4096

const (
	helloRequest = "\r\nHELLO\r\n"
	helloUnknown = "-ERR unknown command 'HELLO'\r\n"
)

// isUnknown reports whether words with which the HELLO is refused mean that the server does not know it, or not this version of the
// protocol. A server that knows it never asks for credentials that it has: something in front of it waits for an AUTH.
func (h *helloSent) isUnknown(words string) bool {
	code, _, _ := strings.Cut(words, " ")
	about := strings.ToLower(words)
	switch {
	case code == "NOPROTO":
		return true
	case code == "NOAUTH":
		return h.withAuth
	case code != "ERR" && code == strings.ToUpper(code), begins(words, temporaryRefusals):
		return false
	}
	return strings.Contains(about, "hello") || strings.Contains(about, "command") && !strings.Contains(about, "auth")
}

// Write implements net.Conn.
func (c *translatedConn) Write(b []byte) (int, error) {
	if !c.handshakeOver.Load() {
		c.noteRequests(b)
	}
	return c.Conn.Write(b)
}

// noteRequests finds the HELLO among the requests in b.
func (c *translatedConn) noteRequests(b []byte) {
	if !bytes.Contains(b, []byte(helloRequest)) {
		c.handshakeOver.Store(true)
		return
	}
	for rest, ended := c.requests.next(b); ended; rest, ended = c.requests.next(rest) {
		c.sent++
		if string(bytes.TrimSpace(c.requests.text)) == "HELLO" {
			c.hello.Store(&helloSent{c.sent, bytes.Contains(b[:len(b)-len(rest)], []byte("\r\nAUTH\r\n"))})
		}
		b = rest
	}
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

// translate replaces a refusal of HELLO in what was read. If it ends inside an error, it reads that to its end first. If
// reading ends meanwhile, the client finds out when it reads on.
func (c *translatedConn) translate(read []byte) (translated []byte) {
	f, more := &c.replies, make([]byte, maxText)
	for len(read) > 0 {
		rest, ended := f.next(read)
		for !ended && len(read) < maxRefusal && len(f.line) > 0 && f.isRefusal(f.line) {
			n, err := c.Conn.Read(more)
			if read = append(read, more[:n]...); err != nil {
				break
			}
			rest, ended = f.next(read[len(read)-n:])
		}
		if !ended {
			return append(translated, read...)
		}
		c.received++
		value := read[:len(read)-len(rest)]
		if hello := c.hello.Load(); f.kind == '-' && hello != nil && hello.number == c.received && hello.isUnknown(f.refusal()) {
			value = []byte(helloUnknown)
		}
		translated, read = append(translated, value...), rest
	}
	return translated
}
