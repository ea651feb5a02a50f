// SPDX-License-Identifier: Apache-2.0

// Package memory is a server of locks in the memory of this process.
//
// Use it for development, for desktop programs, and for a service of one process that wants the packages of signalbox, and no
// server to run. For a second host use a real server, for tests package signalboxtest, whose servers also fail when a test
// says so.
//
//	server, err := memory.Start()
//	...
//	defer server.Close()
//	session, err := signalbox.Dial(ctx, server.URL())
//
// All kinds of lock work on it, and the code stays as it is when a real server comes: its URL takes the place of this one. A Lock
// and an Unlock take about half a millisecond of one processor, and as much again for each 1,500 names that are in use or were released
// in the last minute (signalbox.WithTokenFloor): each call goes through all of them. A real server is ten times as fast, and does not.
//
// # Not promised
//
//   - Nothing outlives the process: the data are in its memory. Tokens rise all the same after a restart, since they begin with
//     the time; not if the clock is set back meanwhile.
//   - No replicas, no cluster, no TLS, no limit of memory. A redlock needs three servers in three processes to be of use.
//   - Other processes of this machine can use it, if they have its URL, which has a password. Others cannot reach it.
package memory

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/signalbox-go/signalbox/internal/testing/testkit"
)

// Server is a server in memory. Start makes one.
type Server struct {
	embedded *miniredis.Miniredis
	password string
	listener net.Listener
	accepted chan struct{} // closed when no further connection is accepted
}

// Start starts a server, which listens on a free port of the loopback interface.
func Start() (*Server, error) {
	s := &Server{embedded: miniredis.NewMiniRedis(), password: rand.Text(), accepted: make(chan struct{})}
	s.embedded.RequireAuth(s.password)
	first, err := s.embedded.Dial() // which starts it without a listener of its own
	if err == nil {
		_ = first.Close()
		s.listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		s.embedded.Close()
		return nil, fmt.Errorf("signalboxtest/memory: %w", err)
	}
	s.embedded.ClockTTL(true)
	s.embedded.Server().SetPreHook(s.before)
	go s.accept()
	return s, nil
}

// accept accepts connections until Close.
func (s *Server) accept() {
	defer close(s.accepted)
	for pause := time.Duration(0); ; {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			pause = 0
			s.embedded.Server().ServeConn(&guardedConn{Conn: conn})
		case errors.Is(err, net.ErrClosed):
			return
		default: // such as too many open files
			pause = min(pause+time.Millisecond, 100*time.Millisecond)
			time.Sleep(pause) //nolint:forbidigo // for a tenth of a second at most
		}
	}
}

// before is called before each command. As on a real server, keys expire by the clock, and none expires while a script runs.
func (s *Server) before(peer *server.Peer, command string, _ ...string) (isDone bool) {
	testkit.KeepTime(s.embedded)
	if command == "CLUSTER" { // it would report a cluster of one node
		peer.WriteError("ERR This instance has cluster support disabled")
		return true
	}
	return false
}

// URL returns the address for signalbox.Dial, with a password.
func (s *Server) URL() string {
	// In RESP3 the embedded server refuses commands on a connection that has subscriptions.
	return "redis://:" + s.password + "@" + s.listener.Addr().String() + "?protocol=2"
}

// Close ends the server and its connections. Close sessions before.
func (s *Server) Close() {
	_ = s.listener.Close()
	<-s.accepted
	s.embedded.Close()
}
