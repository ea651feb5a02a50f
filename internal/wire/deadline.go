// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

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
