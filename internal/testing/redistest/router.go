// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/names"
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
	shards   []string
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
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		tb.Fatal(err)
	}
	r := &Router{proxy: listener}
	for _, s := range shards {
		r.shards = append(r.shards, s.Addr())
	}
	r.mu.open = make(map[*routedConn]struct{})
	r.Route(routing)
	r.InjectErrors(nil)
	r.running.Go(r.accept)
	tb.Cleanup(r.Close)
	return r
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
		c, err := r.connect(client)
		if err != nil {
			_ = client.Close() // a shard is down
			continue
		}
		r.mu.Lock()
		if r.mu.closed {
			c.close()
		}
		r.mu.open[c] = struct{}{}
		r.mu.Unlock()
		r.running.Go(c.serve)
	}
}

// routedConn is one connection of a client, and one to each shard. Requests are served one after the other.
type routedConn struct {
	router  *Router
	client  net.Conn
	shards  []net.Conn
	replies []chan frame // the replies of each shard; closed when its connection ends
	once    sync.Once
	ended   chan struct{}
	writing sync.Mutex // serializes writes to the client
}

func (r *Router) connect(client net.Conn) (*routedConn, error) {
	c := &routedConn{router: r, client: client, ended: make(chan struct{})}
	for _, addr := range r.shards {
		shard, err := dialTCP(addr)
		if err != nil {
			c.close()
			return nil, err
		}
		c.shards = append(c.shards, shard)
		c.replies = append(c.replies, make(chan frame))
	}
	for i := range c.shards {
		r.running.Go(func() { c.read(i) })
	}
	return c, nil
}

func (c *routedConn) close() {
	c.once.Do(func() {
		close(c.ended)
		_ = c.client.Close()
		for _, shard := range c.shards {
			_ = shard.Close()
		}
	})
}

// read is the reader of a shard: pushes go to the client at once.
func (c *routedConn) read(i int) {
	defer c.close()
	defer close(c.replies[i])
	from := bufio.NewReader(c.shards[i])
	for {
		f, err := readFrame(from)
		if err != nil {
			return
		}
		if f.kind == '>' {
			c.write(f.raw)
			continue
		}
		select {
		case c.replies[i] <- f:
		case <-c.ended:
			return
		}
	}
}

func (c *routedConn) write(raw []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, _ = c.client.Write(raw) // its reader sees that it has gone
}

func (c *routedConn) serve() {
	defer func() {
		c.close()
		c.router.mu.Lock()
		defer c.router.mu.Unlock()
		delete(c.router.mu.open, c)
	}()
	from := bufio.NewReader(c.client)
	for {
		words, raw, err := readRequest(from)
		if err != nil || len(words) == 0 || c.request(words, raw) != nil {
			return
		}
	}
}

var errHangup = errors.New("redistest: the router closes the connection")

// request serves one request.
func (c *routedConn) request(words []string, raw []byte) error {
	routing, command := *c.router.routing.Load(), strings.ToUpper(words[0])
	keys := keysOf(command, words)
	for _, key := range keys {
		if names.Slot(key) != names.Slot(keys[0]) {
			c.router.several.Add(1)
			switch {
			case routing.Hangup:
				return errHangup
			case routing.Refusal != "":
				c.write([]byte("-" + routing.Refusal + "\r\n"))
				return nil
			}
			break
		}
	}
	first, last := 0, len(c.shards)
	if len(keys) > 0 {
		if !routing.Alone {
			first = int(names.Slot(keys[0])) * len(c.shards) / names.Slots
		}
		last = first + 1
	}
	for _, shard := range c.shards[first:last] {
		if _, err := shard.Write(raw); err != nil {
			return err
		}
	}
	if strings.HasSuffix(command, "SUBSCRIBE") {
		return nil // the confirmation is a push
	}
	var reply []byte
	for i := first; i < last; i++ {
		f, open := <-c.replies[i]
		if !open {
			return net.ErrClosed
		}
		if i == first {
			reply = f.raw
		}
	}
	if invented := (*c.router.injected.Load())(words); invented != "" {
		reply = []byte("-" + invented + "\r\n")
	}
	c.write(reply)
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
