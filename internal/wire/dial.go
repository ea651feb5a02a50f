// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// DialFunc makes a connection for a client.
type DialFunc func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error)

// SpeakFirst returns a DialFunc for connections that return what they read only after the client has written.
// A server that accepts no client says so before a request, and the client panics at a reply without a
// request. next makes the connections; nil is the client's own dialer.
func SpeakFirst(next DialFunc) DialFunc {
	if next == nil {
		next = dial
	}
	return func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		// The call that starts to connect does so for all calls that come meanwhile: the end of its
		// context is not theirs.
		ctx = context.WithoutCancel(ctx)
		if dialer != nil && dialer.Timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, dialer.Timeout)
			defer cancel()
		}
		conn, err := next(ctx, addr, dialer, config)
		if err != nil {
			return nil, err
		}
		c := &speaksFirst{Conn: conn, spoke: make(chan struct{})}
		opened(c)
		return c, nil
	}
}

func dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return dialer.DialContext(ctx, "tcp", addr)
	}
	secure := tls.Dialer{NetDialer: dialer, Config: config}
	return secure.DialContext(ctx, "tcp", addr)
}

// speaksFirst is a connection of SpeakFirst.
type speaksFirst struct {
	net.Conn

	once  sync.Once
	spoke chan struct{} // closed by the first Write, or by Close
	shut  atomic.Bool   // Close was called
	sleep asleep
}

func (c *speaksFirst) speak() { c.once.Do(func() { close(c.spoke) }) }

// Read implements net.Conn. It reads at once, since the error of the first Write to a closed connection may
// discard what the server had sent. It returns after that Write, or after Close.
func (c *speaksFirst) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.sleep.heard()
	}
	<-c.spoke
	return n, err
}

// Write implements net.Conn. The client has registered the request before it writes, so the reply finds it.
func (c *speaksFirst) Write(b []byte) (int, error) {
	c.speak()
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *speaksFirst) Close() error {
	if !c.shut.Swap(true) {
		closings.Add(1) // before the client picks another connection
		forget(c)
	}
	c.speak()
	return c.Conn.Close()
}
