// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
	_ "unsafe" // for linkname
)

// expired is the client's own error for a connection that its ConnLifetime has ended. The client sends again what fails with
// it, whatever it is. It exports neither the error nor another one of that meaning. If a version of the client lacks an error
// of that name, it is nil, and own commands of a program fail with errUnsent instead; a test finds that out.
//
//go:linkname expired github.com/redis/rueidis.errConnExpired
var expired error //nolint:gochecknoglobals // the client's

// errUnsent says that a connection was given up, with a reply to every request that was sent. So what fails with it was not sent,
// and can be sent again.
var errUnsent = errors.New("its connection was given up before the request was sent")

// unsent returns what the client is to be shown for errUnsent.
func unsent(err error) error {
	if errors.Is(err, errUnsent) && expired != nil {
		return expired
	}
	return err
}

// isUnsent reports whether err is errUnsent, in either form.
func isUnsent(err error) bool {
	return errors.Is(err, errUnsent) || expired != nil && errors.Is(err, expired)
}

// isReplaceable reports whether the client could connect again: a connection whose age is over stays if not, since the
// server may be full, or the credentials be on their way.
func (c *conn) isReplaceable() bool {
	p := c.place
	if check := p.connector.terms.Credentials; check != nil && check(c.Conn.RemoteAddr()) != nil {
		return false
	}
	if p.isFailing() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeFor)
	defer cancel()
	inner, err := p.connector.next(ctx, p.addr, c.dialer, c.config)
	if err != nil {
		return false
	}
	defer func() { _ = inner.Close() }()            // nothing is under way on it that counts
	_ = inner.SetDeadline(time.Now().Add(probeFor)) // without one it ends with the server's reply
	c.mu.Lock()
	request := c.mu.greeting
	c.mu.Unlock()
	if p.connector.terms.Credentials != nil {
		request = []byte("*1\r\n$4\r\nPING\r\n") // the greeting has credentials that may be over
	}
	if _, err := inner.Write(request); err != nil {
		return false
	}
	var f frames
	reply := make([]byte, maxText)
	for {
		n, err := inner.Read(reply)
		if _, ended := f.next(reply[:n]); ended {
			return f.kind != '-' || p.connector.terms.Credentials != nil && len(f.text) > 6 && string(f.text[:6]) == "NOAUTH"
		}
		if err != nil || f.lost {
			return false
		}
	}
}

// probeFor bounds an attempt to find out whether the client could connect again.
const probeFor = 2 * time.Second

// dialed is how a connection was made.
type dialed struct {
	dialer *net.Dialer
	config *tls.Config
}

func (p *place) isFailing() bool {
	p.connector.mu.Lock()
	defer p.connector.mu.Unlock()
	p.settleLocked(time.Now())
	return p.fails > 0
}
