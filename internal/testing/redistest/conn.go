// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"
)

// ReplyError is an error that the server replied, in its words.
type ReplyError string

// Error returns the reply.
func (e ReplyError) Error() string { return string(e) }

// target is the address of a server, and how to connect to it.
type target struct {
	addr string
	tls  *tls.Config // nil: in plain
}

// dial connects within limit.
func (t target) dial(limit time.Duration) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: limit}
	if t.tls == nil {
		return dialer.Dial("tcp", t.addr)
	}
	return tls.DialWithDialer(dialer, "tcp", t.addr, t.tls)
}

// do sends one command over a connection of its own and returns the reply: a string, an
// int64, nil, or a []any of these and of ReplyError. A ReplyError as the whole reply is
// returned as the error.
func (t target) do(limit time.Duration, args ...any) (any, error) {
	deadline := time.Now().Add(limit)
	c, err := t.dial(limit)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	defer c.Close()
	if err := c.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	if _, err := c.Write(encode(args)); err != nil {
		return nil, fmt.Errorf("redistest: send %v: %w", args[0], err)
	}
	f, err := readFrame(bufio.NewReader(c))
	if err != nil {
		return nil, fmt.Errorf("redistest: reply to %v: %w", args[0], err)
	}
	reply := f.plain()
	if e, ok := reply.(ReplyError); ok {
		return nil, e
	}
	return reply, nil
}

// encode is the request of args. What is not a string or bytes is sent as fmt prints it.
func encode(args []any) []byte {
	req := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		var word []byte
		switch a := a.(type) {
		case []byte:
			word = a
		case string:
			word = []byte(a)
		default:
			word = fmt.Append(nil, a)
		}
		req = fmt.Appendf(req, "$%d\r\n%s\r\n", len(word), word)
	}
	return req
}

// plain returns a value in Go's own types.
func (v value) plain() any {
	switch {
	case v.null:
		return nil
	case v.kind == '-' || v.kind == '!':
		return ReplyError(v.text)
	case v.kind == ':':
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil {
			return v.text
		}
		return n
	case v.kind == '*' || v.kind == '~' || v.kind == '>' || v.kind == '%':
		list := make([]any, len(v.elems))
		for i, e := range v.elems {
			list[i] = e.plain()
		}
		return list
	default:
		return v.text
	}
}
