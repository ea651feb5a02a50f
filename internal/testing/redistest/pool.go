// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"
)

// PooledServer is a server whose Do and MustDo use a pool of connections, for tests that send thousands of commands. Unlike
// [Server.Do] they must not be used for commands that change their connection, and fail after a restart.
type PooledServer struct {
	*Server

	idle chan *pooledConn
}

type pooledConn struct {
	net.Conn

	replies *bufio.Reader
}

// poolSize is the greatest number of connections in a pool.
const poolSize = 16

// Pool returns the server with a pool of connections, which are kept until Close.
func Pool(s *Server) *PooledServer {
	return &PooledServer{Server: s, idle: make(chan *pooledConn, poolSize)}
}

// Close closes the connections that no command uses, and leaves the server alone.
func (p *PooledServer) Close() {
	for {
		select {
		case c := <-p.idle:
			_ = c.Close()
		default:
			return
		}
	}
}

// Do is Server.Do over a connection that is kept.
func (p *PooledServer) Do(args ...any) (any, error) {
	c, err := p.conn()
	if err != nil {
		return nil, err
	}
	reply, err := c.do(args)
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("redistest: %v: %w", args[0], err)
	}
	select {
	case p.idle <- c:
	default:
		_ = c.Close()
	}
	if e, isError := reply.(ReplyError); isError {
		return nil, e
	}
	return reply, nil
}

// MustDo is Do that fails the test if there is an error.
func (p *PooledServer) MustDo(tb testing.TB, args ...any) any {
	tb.Helper()
	reply, err := p.Do(args...)
	if err != nil {
		tb.Fatalf("%v: %v", args, err)
	}
	return reply
}

func (p *PooledServer) conn() (*pooledConn, error) {
	select {
	case c := <-p.idle:
		return c, nil
	default:
	}
	c, err := p.at().dial(Patience)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return &pooledConn{c, bufio.NewReader(c)}, nil
}

func (c *pooledConn) do(args []any) (any, error) {
	if err := c.SetDeadline(time.Now().Add(Patience)); err != nil {
		return nil, err
	}
	if _, err := c.Write(encode(args)); err != nil {
		return nil, err
	}
	f, err := readFrame(c.replies)
	if err != nil {
		return nil, err
	}
	return f.plain(), nil
}
