// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bufio"
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// runName is the name of connections of the test itself.
const runName = "run"

// faultyName is the name of connections whose requests can have faults.
const faultyName = "faulty"

// faultySession is a session whose requests can be given faults one by one, as redistest.Proxy does it on a real server. There is one
// in a fixture.
type faultySession struct {
	*signalbox.Session
	*wire

	fixture *fixture
	match   redistest.Match // matches the requests that count
	delay   atomic.Int64    // the delay of a fault without its own
	close   func()          // closes the session and its client

	one   sync.Mutex // held while any script runs
	after func()     // called after each of them, nil for nothing; guarded by one

	loading sync.Mutex
	loaded  map[string]bool // the digests of scripts that the server knows; guarded by loading, which is held while one is loaded

	mu     sync.Mutex
	before func(k int)                          // called before the k-th request
	seen   []string                             // the requests that counted, by name
	faults []redistest.Fault                    // the armed faults; At counts from when a fault was armed
	fired  int                                  // the number of faults that have happened
	silent map[*server.Peer]redistest.FaultKind // connections that a fault made silent
}

// bubbleOfUsers is bubble for a test that opens sessions by user and faultySession, which are closed when it ends.
func bubbleOfUsers(t *testing.T, test func(f *fixture)) {
	t.Helper()
	bubble(t, func(f *fixture) {
		defer func() {
			for _, end := range slices.Backward(f.ends) {
				end()
			}
		}()
		test(f)
	})
}

// user opens a session.
func (f *fixture) user(options ...signalbox.SessionOption) queueUser {
	f.T.Helper()
	s, link, end := f.session(f.T, options...)
	f.ends = append(f.ends, end)
	return queueUser{s, link}
}

// open opens a session, and returns its wire, too.
func (f *fixture) open(options ...signalbox.SessionOption) (*signalbox.Session, *wire) {
	f.T.Helper()
	u := f.user(options...)
	return u.Session, u.wire
}

// faultySession opens a session. The server knows each script when it is first asked for it, so that each call is one request.
func (f *fixture) faultySession(match redistest.Match, options ...signalbox.SessionOption) *faultySession {
	f.T.Helper()
	s := &faultySession{fixture: f, match: match, silent: make(map[*server.Peer]redistest.FaultKind), loaded: make(map[string]bool)}
	s.delay.Store(int64(1500 * time.Millisecond)) // it is given up before
	f.redis.Server().SetPreHook(s.hook)
	s.reopen(options...)
	f.ends = append(f.ends, func() { s.close() })
	return s
}

// reopen opens another session, which knows nothing of the server, instead of the last one.
func (s *faultySession) reopen(options ...signalbox.SessionOption) {
	if s.close != nil {
		s.close()
	}
	c, link := s.fixture.client(s.fixture.T, func(o *rueidis.ClientOption) {
		o.ClientName, o.ConnWriteTimeout, o.Dialer.KeepAlive = faultyName, time.Second, time.Second
	})
	opened := signalbox.NewSession(c, options...)
	(*session.Handle)(opened).Session().UnlockPatience = time.Minute
	s.wire, s.Session = link, opened
	s.close = sync.OnceFunc(func() {
		_ = opened.Close(endedContext())
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
func (s *faultySession) next(peer *server.Peer, request []string) (f redistest.Fault) {
	s.mu.Lock()
	if kind := s.silent[peer]; kind != 0 || !s.match(request) {
		s.mu.Unlock()
		return redistest.Fault{Kind: kind}
	}
	s.seen = append(s.seen, locktest.CommandName(request))
	k, before := len(s.seen), s.before
	for _, armed := range s.faults {
		if armed.At == k {
			f = armed
			s.fired++
		}
	}
	if f.Kind == redistest.SwallowRequest || f.Kind == redistest.SwallowReply || f.Kind == redistest.HalfOpen {
		s.silent[peer] = f.Kind
	}
	s.mu.Unlock()
	if before != nil {
		before(k)
	}
	return f
}

// arm gives a fault to the at-th request that counts from now on.
func (s *faultySession) arm(kind redistest.FaultKind, at int) {
	s.armAll(redistest.Fault{Kind: kind, At: at})
}

// armAll gives faults to the requests that count from now on.
func (s *faultySession) armAll(faults ...redistest.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.fired, s.faults = nil, 0, faults
}

// on lets do be called with its number before each request that counts.
func (s *faultySession) on(do func(k int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = do
}

// then lets do be called before the k-th request that counts.
func (s *faultySession) then(k int, do func()) {
	s.on(func(requested int) {
		if requested == k {
			do()
		}
	})
}

// allFired reports whether all faults have happened.
func (s *faultySession) allFired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fired == len(s.faults)
}

// awaitFault returns when the fault has happened.
func (s *faultySession) awaitFault() {
	s.fixture.T.Helper()
	for range 600 {
		if s.allFired() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.fixture.T.Fatalf("there were %d requests in a minute, and none had a fault", s.requestCount())
}

// requestCount returns how many requests counted.
func (s *faultySession) requestCount() int { return len(s.log()) }

// log returns the requests that counted, by name.
func (s *faultySession) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
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
	var f redistest.Fault
	if peer.ClientName == faultyName {
		f = s.next(peer, request)
	}
	delay := cmp.Or(f.Delay, time.Duration(s.delay.Load()))
	if command == "SUBSCRIBE" && f.Kind != 0 { // a subscription is its connection's
		return s.faultSubscription(peer, f.Kind, delay)
	}
	var reply string
	if slices.Contains([]redistest.FaultKind{redistest.SwallowReply, redistest.CutAfterRequest, redistest.CutAfterReply, redistest.DelayReply}, f.Kind) {
		reply = s.run(request)
	}
	switch f.Kind {
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

// faultSubscription is hook for a request that cannot be run on another connection.
func (s *faultySession) faultSubscription(peer *server.Peer, kind redistest.FaultKind, delay time.Duration) (done bool) {
	switch kind {
	case redistest.CutBeforeRequest, redistest.CutAfterRequest:
		peer.Close()
		return true
	case redistest.CutAfterReply:
		time.AfterFunc(time.Millisecond, s.breakSubscriptions)
		return false
	case redistest.DelayRequest, redistest.DelayReply:
		time.Sleep(delay)
		return false
	case redistest.SwallowRequest, redistest.SwallowReply, redistest.HalfOpen:
	}
	return true
}
