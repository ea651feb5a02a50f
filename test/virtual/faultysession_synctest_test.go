// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// runName is the name of connections of the test itself.
const runName = "run"

// faultyName is the name of connections whose requests can have faults.
const faultyName = "faulty"

// faultySession is a session whose calls of some scripts can be given faults, as redistest.Proxy does it on a real server. There is one
// in a fixture.
type faultySession struct {
	*signalbox.Session
	*wire

	fixture *fixture
	delay   atomic.Int64 // the delay of what is late
	close   func()       // closes the session and its client

	one   sync.Mutex // held while any script runs
	after func()     // called after each of them, nil for nothing; guarded by one

	loading sync.Mutex
	loaded  map[string]bool // the digests of scripts that the server knows; guarded by loading, which is held while one is loaded

	mu     sync.Mutex
	match  redistest.Match                      // matches the calls that count
	calls  int                                  // how many counted since arm
	fault  redistest.FaultKind                  // the armed fault
	at     int                                  // the number of the call that has it; 0 for none
	before func(n int)                          // called before the n-th call, nil for nothing
	silent map[*server.Peer]redistest.FaultKind // connections that a fault made silent
}

// faultySession opens a session. Calls of these scripts count. The server knows each script when it is first asked for it, so that each
// call is one request.
func (f *fixture) faultySession(which ...*scripts.Script) *faultySession {
	f.T.Helper()
	s := &faultySession{fixture: f, match: locktest.RunsScript(which...), silent: make(map[*server.Peer]redistest.FaultKind), loaded: make(map[string]bool)}
	s.delay.Store(int64(1500 * time.Millisecond)) // it is given up before
	f.redis.Server().SetPreHook(s.hook)
	s.reopen()
	f.ends = append(f.ends, func() { s.close() })
	return s
}

// reopen opens another session, which knows nothing of the server, instead of the last one.
func (s *faultySession) reopen() {
	if s.close != nil {
		s.close()
	}
	c, link := s.fixture.client(s.fixture.T, func(o *rueidis.ClientOption) {
		o.ClientName, o.ConnWriteTimeout, o.Dialer.KeepAlive = faultyName, time.Second, time.Second
	})
	opened := signalbox.NewSession(c)
	(*session.Handle)(opened).Session().UnlockPatience = time.Minute
	s.wire, s.Session = link, opened
	s.close = sync.OnceFunc(func() {
		_ = opened.Close(locktest.Ended())
		c.Close()
	})
}

// run executes a request, and returns the reply, which no connection has received.
func (s *faultySession) run(request []string) string {
	s.one.Lock()
	defer s.one.Unlock()
	reply := run(s.fixture.redis.Server(), request)
	if s.after != nil {
		s.after()
	}
	return reply
}

// run executes a request on a server, and returns the reply, which no connection has received.
func run(on *server.Server, request []string) string {
	var reply bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&reply))
	peer.ClientName = runName
	on.Dispatch(peer, request)
	peer.Flush()
	return reply.String()
}

// load sends the server the script that a request is about to run, unless the server knows it.
func (s *faultySession) load(request []string) {
	script := locktest.Script(request)
	if script == nil {
		return
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	if !s.loaded[script.SHA1] {
		s.loaded[script.SHA1] = strings.HasPrefix(s.run([]string{"SCRIPT", "LOAD", script.Source}), "$")
	}
}

// next returns the fault of a request.
func (s *faultySession) next(peer *server.Peer, request []string) (kind redistest.FaultKind) {
	s.mu.Lock()
	if kind = s.silent[peer]; kind != 0 || !s.match(request) {
		s.mu.Unlock()
		return kind
	}
	s.calls++
	n, before := s.calls, s.before
	if n == s.at {
		kind = s.fault
	}
	if kind == redistest.SwallowRequest || kind == redistest.SwallowReply || kind == redistest.HalfOpen {
		s.silent[peer] = kind
	}
	s.mu.Unlock()
	if before != nil {
		before(n)
	}
	return kind
}

// arm gives a fault to the at-th call that counts from now on.
func (s *faultySession) arm(kind redistest.FaultKind, at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.fault, s.at = 0, kind, at
}

// armScript is arm for calls of another script.
func (s *faultySession) armScript(script *scripts.Script, kind redistest.FaultKind, at int) {
	s.mu.Lock()
	s.match = locktest.RunsScript(script)
	s.mu.Unlock()
	s.arm(kind, at)
}

// then lets do be called before the n-th call that counts.
func (s *faultySession) then(n int, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = func(called int) {
		if called == n {
			do()
		}
	}
}

// called returns how many calls counted.
func (s *faultySession) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// hasFault reports whether the armed fault has happened, if there is one.
func (s *faultySession) hasFault() bool { return s.called() >= s.at }

// awaitFault returns when the fault has happened.
func (s *faultySession) awaitFault() {
	s.fixture.T.Helper()
	for range 600 {
		if s.hasFault() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.fixture.T.Fatalf("there were %d calls in a minute, and none had a fault", s.called())
}

// hook is the server's hook. It reports whether the request is done.
func (s *faultySession) hook(peer *server.Peer, command string, args ...string) bool {
	if peer.ClientName == runName {
		return false
	}
	request := append([]string{command}, args...)
	s.load(request)
	if command != "PING" {
		s.fixture.commands.Add(1)
	}
	if strings.HasPrefix(command, "EVAL") {
		s.fixture.scripts.Add(1)
	}
	var kind redistest.FaultKind
	if peer.ClientName == faultyName {
		kind = s.next(peer, request)
	}
	delay := time.Duration(s.delay.Load())
	var reply string
	if slices.Contains([]redistest.FaultKind{redistest.SwallowReply, redistest.CutAfterRequest, redistest.CutAfterReply, redistest.DelayReply}, kind) {
		reply = s.run(request)
	}
	switch kind {
	case redistest.SwallowRequest, redistest.HalfOpen, redistest.SwallowReply:
		return true
	case redistest.CutBeforeRequest, redistest.CutAfterRequest:
		peer.Close()
		return true
	case redistest.CutAfterReply:
		peer.WriteRaw(reply)
		peer.Close()
		return true
	case redistest.DelayRequest:
		time.Sleep(delay)
	case redistest.DelayReply:
		time.Sleep(delay)
		peer.WriteRaw(reply)
		return true
	}
	if strings.HasPrefix(command, "EVAL") {
		peer.WriteRaw(s.run(request))
		return true
	}
	return false
}
