// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
)

// Routing says what a Router does with a script whose keys are in several slots.
type Routing struct {
	// Refusal is what it replies instead of sending it anywhere. If it is empty, the script goes to the shard of the
	// first key.
	Refusal string
	// Hangup says that it closes the connection instead.
	Hangup bool
	// Alone says that all slots belong to the first server, whatever servers there are.
	Alone bool
}

// FirstKey sends every script to the shard of its first key.
//
//nolint:gochecknoglobals // constants in all but name
var (
	FirstKey = Routing{}
	// Refusing refuses scripts as a cluster does.
	Refusing = Routing{Refusal: "CROSSSLOT Keys in request don't hash to the same slot"}
	// OwnWords refuses them in words that no server uses.
	OwnWords = Routing{Refusal: "ERR invalid request: the keys belong to several shards"}
	// Hangup closes the connection.
	Hangup = Routing{Hangup: true}
	// OneShard has one server for all slots.
	OneShard = Routing{Alone: true}
)

// Router is one endpoint in front of several servers, the shards, each of which has an equal range of the slots. Its
// clients see one server. A command goes to the shard of its first key, or of its channel, and one without a key to all
// shards; then the client gets the reply of the first. It forwards what shards publish. All methods may be called from
// any goroutine.
type Router struct {
	shards   []func() (net.Conn, error)
	routing  atomic.Pointer[Routing]
	injected atomic.Pointer[func(words []string) string]
	several  atomic.Int64
	proxy    *net.TCPListener
	running  sync.WaitGroup

	mu struct {
		sync.Mutex
		open   map[*routedConn]struct{}
		closed bool
	}
}

// NewRouter runs a router in front of these servers until the test ends.
func NewRouter(tb testing.TB, routing Routing, shards ...*Server) *Router {
	tb.Helper()
	r, err := StartRouter(routing, shards...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}

// StartRouter is NewRouter for what several tests share. Close it.
func StartRouter(routing Routing, shards ...*Server) (*Router, error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	dials := make([]func() (net.Conn, error), len(shards))
	for i, s := range shards {
		dials[i] = func() (net.Conn, error) { return dialTCP(s.Addr()) }
	}
	r := &Router{shards: dials, proxy: listener}
	r.mu.open = make(map[*routedConn]struct{})
	r.Route(routing)
	r.InjectErrors(nil)
	r.running.Go(r.accept)
	return r, nil
}

// Route changes what it does, for all connections.
func (r *Router) Route(routing Routing) { r.routing.Store(&routing) }

// InjectErrors sets a hook that is asked for an error to each request that was executed, in place of the reply. No error is "".
func (r *Router) InjectErrors(errorFor func(words []string) string) {
	if errorFor == nil {
		errorFor = func([]string) string { return "" }
	}
	r.injected.Store(&errorFor)
}

// Several returns how many scripts with keys of several slots have come.
func (r *Router) Several() int { return int(r.several.Load()) }

// Addr returns the address of the endpoint.
func (r *Router) Addr() string { return r.proxy.Addr().String() }

// URL returns the address as "redis://127.0.0.1:port".
func (r *Router) URL() string { return "redis://" + r.Addr() }

// Client implements Dialer. The client does not ask whether there is a cluster.
func (r *Router) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, rueidis.ClientOption{InitAddress: []string{r.Addr()}, ForceSingleClient: true}, mod)
}

// CutAll closes all connections.
func (r *Router) CutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.mu.open {
		c.close()
	}
}

// Close ends the router, and returns when all its goroutines have ended. It may be called twice.
func (r *Router) Close() {
	r.mu.Lock()
	r.mu.closed = true
	r.mu.Unlock()
	_ = r.proxy.Close()
	r.CutAll()
	r.running.Wait()
}

func (r *Router) accept() {
	for {
		client, err := r.proxy.Accept()
		if err != nil {
			return
		}
		if r.serve(client) != nil {
			_ = client.Close() // a shard is down
		}
	}
}

// serve serves a client on its connection, in the background.
func (r *Router) serve(client net.Conn) error {
	c, err := r.connect(client)
	if err != nil {
		return err
	}
	r.mu.Lock()
	if r.mu.closed {
		c.close()
	}
	r.mu.open[c] = struct{}{}
	r.mu.Unlock()
	r.running.Go(c.serve)
	return nil
}

// keysOf returns what a request is routed by: keys, or a channel.
func keysOf(command string, words []string) []string {
	switch command {
	case "EVAL", "EVALSHA":
		if len(words) > 2 {
			n, _ := strconv.Atoi(words[2])
			return words[3:min(3+n, len(words))]
		}
	case "HELLO", "AUTH", "CLIENT", "PING", "SELECT", "INFO", "ROLE", "CLUSTER", "SCRIPT", "COMMAND", "WAIT", "SCAN", "ECHO", "QUIT", "READONLY", "PUBSUB":
	default:
		if len(words) > 1 {
			return words[1:2]
		}
	}
	return nil
}
