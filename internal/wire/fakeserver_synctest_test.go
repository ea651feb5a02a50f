// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// fakeServer is a server in virtual time. The fields are set before a client connects, or with its lock.
type fakeServer struct {
	mu      sync.Mutex
	dials   []time.Time
	dialErr error                       // the error of the next attempts to connect, or nil
	reply   func(request string) string // the reply to a request; "" ends the connection
	latency time.Duration               // the time until a reply
	last    string                      // the name of the last namedConn that was used
}

func (f *fakeServer) set(dialErr error, reply func(string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dialErr, f.reply = dialErr, reply
}

func (f *fakeServer) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials = append(f.dials, time.Now())
	if f.dialErr != nil {
		return nil, f.dialErr
	}
	near, end := net.Pipe()
	go f.serve(end)
	return near, nil
}

var fakeServers atomic.Int64 // how many clients of one there were

// startOfRequest is where a request begins.
var startOfRequest = regexp.MustCompile(`(?m)^\*\d+\r\n\$`)

// serve replies to each of the requests that came in one piece.
func (f *fakeServer) serve(end net.Conn) {
	defer end.Close()
	request := make([]byte, 1<<20)
	for {
		n, err := end.Read(request)
		if err != nil {
			return
		}
		f.mu.Lock()
		replyTo, latency := f.reply, f.latency
		f.mu.Unlock()
		time.Sleep(latency)
		var replies strings.Builder
		piece := request[:n]
		for starts := startOfRequest.FindAllIndex(piece, -1); len(starts) > 0; starts = starts[1:] {
			to := len(piece)
			if len(starts) > 1 {
				to = starts[1][0]
			}
			reply := replyTo(string(piece[starts[0][0]:to]))
			if reply == "" {
				return
			}
			replies.WriteString(reply)
		}
		if _, err := io.WriteString(end, replies.String()); err != nil {
			return
		}
	}
}

const greeting = "%4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"

// welcomes replies to HELLO, PING and scripts.
func welcomes(request string) string {
	switch {
	case strings.Contains(request, "HELLO"):
		return greeting
	case strings.Contains(request, "PING"):
		return "+PONG\r\n"
	}
	return ":1\r\n"
}

// client returns a client of the server.
func (f *fakeServer) client(t *testing.T, mods ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	// An address of its own: wire finds the failures of a client that is tuned by hand by its address, in the whole process.
	o := rueidis.ClientOption{InitAddress: []string{fmt.Sprintf("far%d:1", fakeServers.Add(1))}, ForceSingleClient: true, DialCtxFn: f.dial}
	for _, mod := range mods {
		mod(&o)
	}
	signalbox.Tune(&o)
	c, err := rueidis.NewClient(o)
	require.NoError(t, err)
	return c
}

// dialCount returns how many connections were dialled.
func (f *fakeServer) dialCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.dials)
}

// namedConn is a connection to a server with a name, which is recorded when something but a PING is written.
type namedConn struct {
	net.Conn

	name string
	fake *fakeServer
}

// Write implements net.Conn.
func (c *namedConn) Write(b []byte) (int, error) {
	if !strings.Contains(string(b), "PING") {
		c.fake.mu.Lock()
		c.fake.last = c.name
		c.fake.mu.Unlock()
	}
	return c.Conn.Write(b)
}

// lastServer returns the name of the server to which something was written last.
func (f *fakeServer) lastServer() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// maxDialsPerSecond returns the most dials in any second.
func (f *fakeServer) maxDialsPerSecond() (most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, first := range f.dials {
		n := 0
		for _, later := range f.dials[i:] {
			if later.Sub(first) < time.Second {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
