// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// dialerOf returns the dialer that o has, or nil: the one that the client would call.
func dialerOf(o *rueidis.ClientOption) DialFunc {
	if o.DialCtxFn == nil && o.DialFn != nil {
		dialFn := o.DialFn
		return func(_ context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
			return dialFn(addr, dialer, config)
		}
	}
	return o.DialCtxFn
}

// Dialers, functions for credentials, and those of a TLS configuration are the service's code. A call of one that hangs or panics costs
// its attempt to connect: it runs on a goroutine of its own, which ends with it. maxHung bounds these goroutines: if so many calls have
// not returned, no further one is made.
const maxHung = 256

// errorTime is how long after its time the client's own dialer may take to say why it made no connection.
const errorTime = 100 * time.Millisecond

// boundCalls are the calls of a function of the service.
type boundCalls struct {
	what    string
	running chan struct{} // has an element for each call that has not returned
	late    time.Duration // how long the end of the context may come before that of a call, whose own error says more
}

// newBoundCalls returns a boundCalls. most bounds the calls that have not returned.
func newBoundCalls(what string, most int) *boundCalls {
	return &boundCalls{what: what, running: make(chan struct{}, most)}
}

// within calls a function of the service, and returns what it returns, or an error if it panics or if ctx ends before. What it
// returns too late is passed to discard.
func within[T any](ctx context.Context, f *boundCalls, call func() (T, error), discard func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	failed := func(format string, a ...any) error {
		return &connectError{fmt.Errorf("%s "+format, append([]any{f.what}, a...)...)}
	}
	select {
	case f.running <- struct{}{}:
	default:
		return none, failed("has not returned from earlier calls: %d", cap(f.running))
	}
	results := make(chan result, 1) // so that the goroutine ends without a reader
	go func() {
		r := result{err: failed("ended its goroutine")} // by runtime.Goexit
		defer func() {
			if p := recover(); p != nil {
				r = result{err: failed("panicked: %v", p)}
			}
			<-f.running
			results <- r
		}()
		value, err := call()
		r = result{value, err}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		late := time.NewTimer(f.late)
		defer late.Stop()
		if f.late > 0 {
			select {
			case r := <-results:
				return r.value, r.err
			case <-late.C:
			}
		}
		go func() {
			if r := <-results; r.err == nil {
				discard(r.value)
			}
		}()
		return none, failed("did not return in time: %w", ctx.Err())
	}
}

// GuardedDialer returns a DialFunc that calls the dialer that o has, or the client's own, which calls functions of o.TLSConfig and
// o.Dialer.
//
//  1. If a TLS configuration is set, a connection without TLS is closed before a byte is written, and is ErrBadOption. The
//     client itself would write user and password on it.
//  2. An attempt ends with its context. A connection that comes later is closed.
//  3. A panic, and a connection that is nil, are errors of the attempt.
//  4. The TLS configuration that the dialer gets names the server: crypto/tls takes the name from an address, and the dialer may have
//     none but its connection.
//  5. A connection that has no deadlines gets them.
func GuardedDialer(o *rueidis.ClientOption) DialFunc {
	next, calls := dialerOf(o), newBoundCalls("the dialer", maxHung)
	if next == nil {
		next, calls.what, calls.late = dial, "connecting, or a function of TLSConfig or Dialer,", errorTime
	}
	return func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		config = withServerName(config, addr)
		made, err := within(ctx, calls, func() (net.Conn, error) { return next(ctx, addr, dialer, config) }, closeConn)
		switch {
		case err != nil:
			return nil, err
		case isNil(made):
			return nil, &connectError{errors.New("the dialer returned no connection and no error")}
		case config != nil && !isTLS(made):
			_ = made.Close()
			return nil, fmt.Errorf("%w: TLSConfig is set, and the dialer returned a connection without TLS (%T): let the dialer do TLS; "+
				"if it does, give its type a method NetConn or ConnectionState, or set no TLSConfig", errs.ErrBadOption, made)
		}
		return withDeadlines(made), nil
	}
}

// withServerName returns the configuration, with the host of the address as the name that the server's certificate has to have unless
// another one is given.
func withServerName(config *tls.Config, addr string) *tls.Config {
	host, _, err := net.SplitHostPort(addr)
	if config == nil || config.ServerName != "" || err != nil {
		return config
	}
	named := config.Clone()
	named.ServerName, _, _ = strings.Cut(host, "%") // no certificate has a zone
	return named
}

func closeConn(c net.Conn) {
	if !isNil(c) {
		_ = c.Close()
	}
}

// isNil reports whether there is no connection.
func isNil(c net.Conn) bool {
	if c == nil {
		return true
	}
	v := reflect.ValueOf(c)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// isTLS reports whether what is written to c is encrypted by TLS. It examines connections that embed another one, or show it
// by NetConn. A connection of a Connector was examined when it was made.
func isTLS(c net.Conn) bool {
	for range maxNested {
		switch outer := c.(type) {
		case interface{ ConnectionState() tls.ConnectionState }, *conn:
			return true
		case interface{ NetConn() net.Conn }:
			c = outer.NetConn()
		default:
			c = embedded(c)
		}
		if isNil(c) {
			return false
		}
	}
	return false
}

// maxNested bounds how many connections are looked into: one may show itself.
const maxNested = 16

// embedded returns the connection that the struct c embeds, or nil.
func embedded(c net.Conn) net.Conn {
	v := reflect.ValueOf(c)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Anonymous && f.IsExported() {
			if inner, ok := reflect.TypeAssert[net.Conn](v.Field(i)); ok {
				return inner
			}
		}
	}
	return nil
}

// timedConn gives deadlines to a connection that has none, such as one through SSH: it closes the connection at them. The client ends
// a connection on which one has passed.
type timedConn struct {
	net.Conn

	mu struct {
		sync.Mutex
		timer  *time.Timer // calls expire at the deadline; nil without one
		passed bool        // the deadline has passed, and the connection is closed
	}
}

// withDeadlines returns the connection, or one with its traffic that has deadlines.
func withDeadlines(made net.Conn) net.Conn {
	if made.SetDeadline(time.Time{}) == nil {
		return made
	}
	return &timedConn{Conn: made}
}

// SetDeadline implements net.Conn. It is for requests that are under way, too. The client sets no deadline for one direction alone.
func (c *timedConn) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.timer != nil {
		c.mu.timer.Stop() // if it is too late, the deadline has passed
	}
	c.mu.timer = nil
	if !at.IsZero() {
		c.mu.timer = time.AfterFunc(time.Until(at), c.expire) //nolint:forbidigo // the next deadline, and Close, stop it
	}
	return nil
}

func (c *timedConn) expire() {
	c.mu.Lock()
	c.mu.passed = true
	c.mu.Unlock()
	_ = c.Conn.Close()
}

// Read implements net.Conn.
func (c *timedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.explain(err)
}

// Write implements net.Conn.
func (c *timedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.explain(err)
}

// Close implements net.Conn.
func (c *timedConn) Close() error {
	_ = c.SetDeadline(time.Time{})
	return c.Conn.Close()
}

// explain says that an error is the end of the deadline.
func (c *timedConn) explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.mu.passed {
		return fmt.Errorf("%w (%w)", os.ErrDeadlineExceeded, err)
	}
	return err
}
