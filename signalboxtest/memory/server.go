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
// and an Unlock take about a millisecond, whatever waits; a real server is ten times as fast.
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
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/signalbox-go/signalbox/internal/testing/testkit"
)

// Server is a server in memory. Start makes one.
type Server struct {
	embedded *miniredis.Miniredis
	password string
}

// Start starts a server, which listens on a free port of the loopback interface.
func Start() (*Server, error) {
	s := &Server{embedded: miniredis.NewMiniRedis(), password: rand.Text()}
	s.embedded.RequireAuth(s.password)
	if err := s.embedded.Start(); err != nil {
		return nil, fmt.Errorf("signalboxtest/memory: %w", err)
	}
	s.embedded.ClockTTL(true)
	s.embedded.Server().SetPreHook(s.before)
	return s, nil
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
	return "redis://:" + s.password + "@" + s.embedded.Addr() + "?protocol=2"
}

// Close ends the server and its connections. Close sessions before.
func (s *Server) Close() { s.embedded.Close() }
