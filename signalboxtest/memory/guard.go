// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"time"
)

const (
	// largestRequest bounds the bytes of a request, most of which is the value of a once, and mostArguments how many it has.
	largestRequest, mostArguments = 8 << 20, 1 << 16
	// longestHeader is how long the line before an argument is at most.
	longestHeader = 32
	// writeTimeout is how long a write may take to a client that does not read. It holds up all others meanwhile.
	writeTimeout = 2 * time.Second
)

var errNoRequest = errors.New("this is no request, or it is too large")

// guardedConn is the server's end of a connection. The embedded server is one for tests, which trusts its clients: a request without
// a command, or with a length that is none, panics in it, and a client that does not read stops it. Whoever may do so has no password yet.
// One goroutine reads, and the fields are its own.
type guardedConn struct {
	net.Conn

	header    []byte // the part of a header that has come
	arguments int    // how many arguments of the request are still to come
	left      int    // how many bytes of the argument, and of the end of its line, are still to come
	size      int    // how many bytes the request has announced
}

// Read implements net.Conn.
func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.scan(b[:n]) {
		return 0, errNoRequest // the server closes the connection
	}
	return n, err
}

// scan follows the frames of requests: "*2\r\n$4\r\nECHO\r\n$1\r\na\r\n". It reports false if b has what is none.
func (c *guardedConn) scan(b []byte) bool {
	for len(b) > 0 {
		if c.left > 0 {
			skipped := min(c.left, len(b))
			b, c.left = b[skipped:], c.left-skipped
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			c.header = append(c.header, b...)
			return len(c.header) <= longestHeader
		}
		header := append(c.header, b[:end]...) //nolint:gocritic // the next one begins anew
		b, c.header = b[end+1:], c.header[:0]
		if len(header) > longestHeader || !c.begin(string(header)) {
			return false
		}
	}
	return true
}

// begin reads a header, without its last byte.
func (c *guardedConn) begin(header string) bool {
	if len(header) < 3 || header[len(header)-1] != '\r' {
		return false
	}
	n, err := strconv.Atoi(header[1 : len(header)-1])
	switch {
	case err != nil:
		return false
	case c.arguments == 0:
		c.arguments, c.size = n, 0
		return header[0] == '*' && 0 < n && n <= mostArguments
	}
	if header[0] != '$' || n < 0 || n > largestRequest-c.size {
		return false
	}
	c.arguments, c.size, c.left = c.arguments-1, c.size+n, n+len("\r\n")
	return true
}

// Write implements net.Conn.
func (c *guardedConn) Write(b []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout)) // without one it waits for longer
	n, err := c.Conn.Write(b)
	if err != nil {
		_ = c.Close() // the server ignores the error
	}
	return n, err
}
