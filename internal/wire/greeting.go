// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// greetingCommands are the commands with which a client opens a connection, and sets it up. Each can be repeated, except for CLIENT,
// of which repeatedOfClient can.
//
//nolint:gochecknoglobals // constant tables
var (
	greetingCommands = []string{"HELLO", "AUTH", "SELECT", "READONLY", "CLIENT", "INFO"}
	repeatedOfClient = []string{"SETNAME", "SETINFO", "NO-EVICT", "NO-TOUCH", "TRACKING", "CAPA"}
)

// greeting is what the client writes first on a connection: greetingCommands. The connection's lock guards it.
type greeting struct {
	written []byte // the bytes; until over, with what came behind in the same piece
	over    bool   // the client has written another command
	refused uint64 // has a bit for each of the first 64 requests that the server refused
}

// noteWritten records bytes that the client writes.
func (g *greeting) noteWritten(b []byte) {
	if !g.over {
		g.written = append(g.written, b...)
	}
}

// noteRequest records the first word of a request.
func (g *greeting) noteRequest(is func(word string) bool) {
	if g.over || slices.ContainsFunc(greetingCommands, is) {
		return
	}
	_, rest := g.parse()
	g.over, g.written = true, bytes.Clone(g.written[:len(g.written)-len(rest)])
}

// noteRefusal records that the server refused the n-th request of the connection; the first is 1.
func (g *greeting) noteRefusal(n uint64) {
	if n <= 64 {
		g.refused |= 1 << (n - 1)
	}
}

type greetingRequest struct {
	words   []string
	refused bool // the server of the first connection refused it
}

func (r greetingRequest) is(words ...string) bool {
	return len(r.words) >= len(words) && slices.EqualFunc(r.words[:len(words)], words, strings.EqualFold)
}

// parse returns the whole requests of the greeting, and what was written behind them.
func (g *greeting) parse() (requests []greetingRequest, rest []byte) {
	for rest = g.written; len(rest) > 0; {
		words, after := parseRequest(rest)
		if len(words) == 0 || !slices.ContainsFunc(greetingCommands, func(known string) bool { return strings.EqualFold(known, words[0]) }) {
			break
		}
		n := len(requests)
		requests, rest = append(requests, greetingRequest{words, n < 64 && g.refused>>n&1 == 1}), after
	}
	return requests, rest
}

// requests returns the requests by which the connection became what it is. A client that was refused HELLO 3 begins again, in RESP2.
// What a program sent first, and what acts on other connections, is not among them.
func (g *greeting) requests() []greetingRequest {
	requests, _ := g.parse()
	if len(requests) > 0 && requests[0].is("HELLO", "3") && requests[0].refused {
		again := slices.IndexFunc(requests, func(r greetingRequest) bool { return r.is("AUTH") || r.is("HELLO", "2") })
		requests = requests[max(again, 0):]
	}
	return slices.DeleteFunc(requests, func(r greetingRequest) bool {
		return r.is("CLIENT") && !slices.ContainsFunc(repeatedOfClient, func(known string) bool { return r.is("CLIENT", known) })
	})
}

// parseRequest returns the words of the request at the beginning of b, and what follows it. It returns no words if b has no whole one.
func parseRequest(b []byte) (words []string, rest []byte) {
	n, b, _ := parseLength(b, '*')
	for range n {
		size, text, found := parseLength(b, '$')
		if !found || len(text) < size+2 {
			return nil, nil
		}
		words, b = append(words, string(text[:size])), text[size+2:]
	}
	return words, b
}

// parseLength returns the number in the line with which b begins, and what follows it.
func parseLength(b []byte, kind byte) (n int, rest []byte, found bool) {
	line, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found || len(line) < 2 || line[0] != kind {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	return n, rest, err == nil && n >= 0
}

// withCredentials returns the requests with these credentials in place of their own, as the client writes them.
func withCredentials(requests []greetingRequest, now rueidis.AuthCredentials) (changed []greetingRequest) {
	var auth []string // the words for AUTH, nil for none
	switch {
	case now.Username != "":
		auth = []string{now.Username, now.Password}
	case now.Password != "":
		auth = []string{now.Password}
	}
	for _, r := range requests {
		switch {
		case r.is("AUTH"):
			continue
		case r.is("HELLO", "3"):
			words := r.words
			if len(words) >= 5 && strings.EqualFold(words[2], "AUTH") {
				words = slices.Concat(words[:2], words[5:])
			}
			if len(auth) == 1 {
				words = slices.Insert(slices.Clone(words), 2, "AUTH", "default", auth[0])
			} else if len(auth) == 2 {
				words = slices.Insert(slices.Clone(words), 2, "AUTH", auth[0], auth[1])
			}
			r.words = words
		case r.is("HELLO", "2") && auth != nil:
			changed = append(changed, greetingRequest{words: append([]string{"AUTH"}, auth...)})
		}
		changed = append(changed, r)
	}
	return changed
}

// errUngreeted says that the client has not begun as clients do.
var errUngreeted = errors.New("the connection began without HELLO")

// greet sends a greeting. It returns nil if the server accepts it as the one of the first connection did, and the reply to HELLO.
func greet(next net.Conn, requests []greetingRequest) (hello []byte, err error) {
	if !slices.ContainsFunc(requests, func(r greetingRequest) bool { return r.is("HELLO") }) {
		return nil, errUngreeted
	}
	secrets := passwords(requests)
	var text []byte
	for _, r := range requests {
		text = fmt.Appendf(text, "*%d\r\n", len(r.words))
		for _, word := range r.words {
			text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	_ = next.SetDeadline(time.Now().Add(connectNextTimeout)) // without one, greet ends with the connection
	if _, err := next.Write(text); err != nil {
		return nil, err
	}
	f, buffer, replies := frameScanner{keepWhole: true}, make([]byte, maxText), 0
	for replies < len(requests) {
		n, err := next.Read(buffer)
		for rest, ended := f.next(buffer[:n]); ended && replies < len(requests); rest, ended = f.next(rest) {
			r := requests[replies]
			replies++
			switch words := f.refusal(); {
			case words != "":
				if !r.refused || begins(words, connectRefusals) {
					masked := []byte(words)
					maskSecrets(masked, secrets)
					return nil, &refusedError{string(masked)}
				}
			case isReplica(f.text):
				return nil, errors.New("the address leads to a replica")
			case r.is("HELLO"):
				hello = bytes.Clone(f.text)
			}
		}
		switch {
		case replies == len(requests):
		case err != nil:
			return nil, err
		case f.unreadable:
			return nil, ErrUnreadable
		}
	}
	return hello, next.SetDeadline(time.Time{})
}

// refusedError is a server's refusal because of which there is no connection: of a greeting, or of a request just after it.
type refusedError struct{ words string }

func (e *refusedError) Error() string { return e.words }

// speaksRESP2Locked reports whether replies and messages look alike on the connection.
func (c *conn) speaksRESP2Locked() bool {
	requests := c.mu.greeting.requests()
	return len(requests) > 0 && !requests[0].is("HELLO", "3")
}

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
