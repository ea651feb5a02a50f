// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// Fault is what goes wrong with one request. What is hidden or lost is so with all that follows on its connection, since a
// stream has no holes.
type Fault int

// The faults of one request.
const (
	None        Fault = iota
	LoseRequest       // the connection is closed instead of the request
	LoseReply         // the request is executed, and the connection closed instead of the reply
	HideRequest       // nothing reaches the server any more, and the connection stays open
	HideReply         // the request is executed, nothing comes back any more, and the connection stays open
	LateRequest       // the request arrives when the client has given up the connection
	LateReply         // so does the reply
	Twice             // the request is executed twice, and one of the replies comes back
	CutAfter          // the connection is closed behind the reply
	faults            // the number of faults

	dropped // the reply of a copy
)

// String returns the name of the fault.
func (f Fault) String() string {
	return strings.Fields("None LoseRequest LoseReply HideRequest HideReply LateRequest LateReply Twice CutAfter")[f]
}

// late is how long a late request or reply takes: longer than a client waits.
const late = 1500 * time.Millisecond

// Wire is the connections of one process, whatever they are: pipes to an embedded server, or TCP to real ones.
type Wire struct {
	mu struct {
		sync.Mutex
		links    map[*link]bool
		executed int               // the number of scripts whose replies have come
		requests []string          // the counted requests since Arm
		onCount  func(name string) // called with each request that counts
		at       int               // the number of requests until the one with the fault; 0 or less: it has come
		fault    Fault
		refuses  bool // new connections are refused
		silent   bool // nothing passes any more, in any direction
		away     int  // the same, to and from the server of this number, counted from 1; 0: none
		loses    bool // published messages are lost
		latency  time.Duration
	}
}

// Arm forgets the requests so far, and gives a fault to the at-th from now on. Requests count that run a script or subscribe.
func (w *Wire) Arm(at int, f Fault) {
	w.locked(func() { w.mu.at, w.mu.fault, w.mu.requests = at, f, nil })
}

// Requests returns the names of the requests that counted since Arm.
func (w *Wire) Requests() (names []string) {
	w.locked(func() { names = slices.Clone(w.mu.requests) })
	return names
}

// OnRequest calls do with the name of each request that counts, before it is forwarded.
func (w *Wire) OnRequest(do func(name string)) { w.locked(func() { w.mu.onCount = do }) }

// Silence swallows everything, on the connections that are there and on new ones.
func (w *Wire) Silence() {
	tally.Fault("connections silent")
	w.locked(func() { w.mu.silent = true })
}

// SilenceServer does so on the connections to one of several servers.
func (w *Wire) SilenceServer(server int) { w.locked(func() { w.mu.away = server + 1 }) }

// Refuse closes all connections, and refuses new ones.
func (w *Wire) Refuse() {
	tally.Fault("connections refused")
	w.locked(func() { w.mu.refuses = true })
	w.Cut()
}

// LoseMessages loses what is published.
func (w *Wire) LoseMessages(on bool) { w.locked(func() { w.mu.loses = on }) }

// Latency delays everything, in each direction.
func (w *Wire) Latency(d time.Duration) { w.locked(func() { w.mu.latency = d }) }

// Heal closes all connections, and new ones work.
func (w *Wire) Heal() {
	w.Cut()
	w.locked(func() { w.mu.silent, w.mu.refuses, w.mu.away, w.mu.at = false, false, 0, 0 })
}

// Cut closes all connections.
func (w *Wire) Cut() { w.cutIf(func(*link) bool { return true }) }

// CutSubscriptions closes the connections that receive messages.
func (w *Wire) CutSubscriptions() { w.cutIf(func(l *link) bool { return l.subscribed }) }

func (w *Wire) cutIf(is func(l *link) bool) {
	w.locked(func() {
		for l := range w.mu.links {
			if is(l) {
				l.closeLocked()
			}
		}
	})
}

func (w *Wire) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// connect returns the client's end of a connection to a server, which dial reaches.
func (w *Wire) connect(number int, dial func() (net.Conn, error)) (net.Conn, error) {
	server, err := dial()
	if err != nil {
		return nil, err
	}
	near, client := net.Pipe()
	l := &link{w: w, number: number, client: client, server: server}
	var refused bool
	w.locked(func() {
		if refused = w.mu.refuses; refused {
			return
		}
		if w.mu.links == nil {
			w.mu.links = make(map[*link]bool)
		}
		w.mu.links[l] = true
	})
	if refused {
		_ = server.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	l.start()
	if secure, is := server.(*tls.Conn); is {
		return overTLS{near, secure}, nil
	}
	return near, nil
}

// overTLS is the client's end of a connection of which the other half has TLS.
type overTLS struct {
	net.Conn

	server *tls.Conn
}

// ConnectionState says that the connection has TLS.
func (o overTLS) ConnectionState() tls.ConnectionState { return o.server.ConnectionState() }

// Busy returns how many scripts were executed, and whether replies are awaited.
func (w *Wire) Busy() (executed int, awaits bool) {
	w.locked(func() {
		executed = w.mu.executed
		for l := range w.mu.links {
			awaits = awaits || len(l.pending) > 0
		}
	})
	return executed, awaits
}

func isScript(name string, words []string) bool {
	return locktest.Script(words) != nil || strings.HasPrefix(name, "EVAL")
}

// count counts a request, and returns its fault. A ping is not counted.
func (l *link) count(name string, words []string) (f Fault, onCount func(string)) {
	w := l.w
	subscribes := strings.HasSuffix(name, "SUBSCRIBE") && !strings.Contains(name, "UNSUB")
	w.locked(func() {
		if isScript(name, words) || subscribes {
			w.mu.requests = append(w.mu.requests, name)
			onCount = w.mu.onCount
			if w.mu.at--; w.mu.at == 0 {
				f = w.mu.fault
			}
		}
		if l.isSilentLocked() {
			f = HideRequest
		}
	})
	if f != None {
		tally.Fault(f.String())
	}
	return f, onCount
}
