// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/scripts"
)

// runName is the name of connections of the test itself.
const runName = "run"

// struckName is the name of connections whose requests can be struck by a fault.
const struckName = "struck"

// struck is a session whose requests can be struck one by one, as redistest.Proxy does it on a real server. There is one
// in a world.
type struck struct {
	*signalbox.Session
	*wire

	w     *world
	match redistest.Match // which requests count
	delay atomic.Int64    // of what is delayed

	one   sync.Mutex // held while a script runs, whoever runs it
	after func()     // called after each of them, nil for nothing; guarded by one

	mu       sync.Mutex
	before   func(k int)                     // called before the k-th request
	requests int                             // that counted
	fault    redistest.Fault                 // its At counts from when it was armed
	fired    bool                            // it has struck
	silent   map[*server.Peer]redistest.Kind // connections that a fault made silent
}

// bubbleOfUsers is bubble for a test that opens sessions by user and struck, which are closed when it ends.
func bubbleOfUsers(t *testing.T, test func(w *world)) {
	t.Helper()
	bubble(t, func(w *world) {
		defer func() {
			for _, end := range slices.Backward(w.ends) {
				end()
			}
		}()
		test(w)
	})
}

// user opens a session.
func (w *world) user(options ...signalbox.SessionOption) lineUser {
	w.T.Helper()
	s, lines, end := w.session(w.T, options...)
	w.ends = append(w.ends, end)
	return lineUser{s, lines}
}

// struck opens a session. The server knows all scripts then, so that each call is one request.
func (w *world) struck(match redistest.Match, options ...signalbox.SessionOption) *struck {
	w.T.Helper()
	s := &struck{w: w, match: match, silent: make(map[*server.Peer]redistest.Kind)}
	s.delay.Store(int64(1500 * time.Millisecond)) // it is given up before
	w.redis.Server().SetPreHook(s.strike)
	all, err := scripts.All()
	require.NoError(w.T, err)
	for _, script := range all {
		s.run([]string{"SCRIPT", "LOAD", script.Source})
	}
	s.reopen(options...)
	return s
}

// reopen opens another session, which knows nothing of the server, instead of the last one.
func (s *struck) reopen(options ...signalbox.SessionOption) {
	c, lines := s.w.client(s.w.T, func(o *rueidis.ClientOption) {
		o.ClientName, o.ConnWriteTimeout, o.Dialer.KeepAlive = struckName, time.Second, time.Second
	})
	opened := signalbox.NewSession(c, options...)
	(*session.Session)(opened).UnlockPatience = time.Minute
	s.wire, s.Session = lines, opened
	s.w.ends = append(s.w.ends, func() {
		_ = opened.Close(endedContext())
		c.Close()
	})
}

// run executes a request, and returns the reply, which nobody has.
func (s *struck) run(request []string) string {
	var reply bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&reply))
	peer.ClientName = runName
	s.one.Lock()
	defer s.one.Unlock()
	s.w.redis.Server().Dispatch(peer, request)
	peer.Flush()
	if s.after != nil {
		s.after()
	}
	return reply.String()
}

// next returns what strikes a request.
func (s *struck) next(peer *server.Peer, request []string) (kind redistest.Kind) {
	s.mu.Lock()
	if kind = s.silent[peer]; kind != 0 || !s.match(request) {
		s.mu.Unlock()
		return kind
	}
	s.requests++
	k, before := s.requests, s.before
	if s.fired = s.fired || k == s.fault.At; k == s.fault.At {
		kind = s.fault.Kind
	}
	if kind == redistest.SwallowRequest || kind == redistest.SwallowReply || kind == redistest.HalfOpen {
		s.silent[peer] = kind
	}
	s.mu.Unlock()
	if before != nil {
		before(k)
	}
	return kind
}

// arm lets a fault strike the at-th request that counts from now on.
func (s *struck) arm(kind redistest.Kind, at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.fired = 0, false
	s.fault = redistest.Fault{Kind: kind, At: at}
}

// then lets do be called before the k-th request that counts.
func (s *struck) then(k int, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = func(asked int) {
		if asked == k {
			do()
		}
	}
}

// hasFired reports whether the fault has struck.
func (s *struck) hasFired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fired
}

// awaitFault returns when the fault has struck.
func (s *struck) awaitFault() {
	s.w.T.Helper()
	for range 600 {
		if s.hasFired() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.w.T.Fatalf("there were %d requests in a minute, and none was struck", s.asked())
}

// asked returns how many requests counted.
func (s *struck) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// strike is the server's hook. It reports whether the request is done.
func (s *struck) strike(peer *server.Peer, command string, args ...string) bool {
	if peer.ClientName == runName {
		return false
	}
	request := append([]string{command}, args...)
	if command != "PING" {
		s.w.commands.Add(1)
	}
	if strings.HasPrefix(command, "EVAL") {
		s.w.scripts.Add(1)
	}
	var kind redistest.Kind
	if peer.ClientName == struckName {
		kind = s.next(peer, request)
	}
	if command == "SUBSCRIBE" && kind != 0 { // a subscription is its connection's
		return s.strikeSubscription(peer, kind)
	}
	switch kind {
	case redistest.SwallowRequest, redistest.HalfOpen:
		return true
	case redistest.SwallowReply:
		s.run(request)
		return true
	case redistest.CutBeforeRequest:
		peer.Close()
		return true
	case redistest.CutAfterRequest:
		s.run(request)
		peer.Close()
		return true
	case redistest.CutAfterReply:
		peer.WriteRaw(s.run(request))
		peer.Close()
		return true
	case redistest.DelayRequest:
		time.Sleep(time.Duration(s.delay.Load()))
	case redistest.DelayReply:
		reply := s.run(request)
		time.Sleep(time.Duration(s.delay.Load()))
		peer.WriteRaw(reply)
		return true
	}
	if strings.HasPrefix(command, "EVAL") {
		peer.WriteRaw(s.run(request))
		return true
	}
	return false
}

// strikeSubscription is strike for a request that cannot be run on another connection.
func (s *struck) strikeSubscription(peer *server.Peer, kind redistest.Kind) (done bool) {
	switch kind {
	case redistest.CutBeforeRequest, redistest.CutAfterRequest:
		peer.Close()
		return true
	case redistest.CutAfterReply:
		time.AfterFunc(time.Millisecond, s.breakSubscriptions)
		return false
	case redistest.DelayRequest, redistest.DelayReply:
		time.Sleep(time.Duration(s.delay.Load()))
		return false
	case redistest.SwallowRequest, redistest.SwallowReply, redistest.HalfOpen:
	}
	return true
}
