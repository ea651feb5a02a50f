// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// Proxy forwards connections to a server and fails as tests direct. It understands RESP2 and RESP3. All
// methods may be called from any goroutine.
//
// Each connection costs four goroutines, a reader and a writer for each direction. What follows a delayed
// request must be read meanwhile, or latencies would add up.
type Proxy struct {
	report   reporter
	upstream atomic.Pointer[string]
	port     int
	reserved *reservation
	links    sync.WaitGroup // the goroutines of all links, and the acceptor

	dropPushes atomic.Bool
	latency    atomic.Int64 // nanoseconds
	counter    requestCounter

	mu struct {
		sync.Mutex
		closed   bool
		listener *net.TCPListener // nil while connections are refused
		open     map[*link]struct{}
	}
}

// NewProxy runs a proxy before a server until the test ends.
func NewProxy(tb testing.TB, upstreamAddr string) *Proxy {
	tb.Helper()
	p, err := newProxy(reporter{tb}, upstreamAddr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// StartProxy is NewProxy for programs that are no tests. The caller must Close the proxy.
func StartProxy(upstreamAddr string) (*Proxy, error) {
	return newProxy(reporter{}, upstreamAddr)
}

func newProxy(r reporter, upstream string) (*Proxy, error) {
	p := &Proxy{report: r}
	p.upstream.Store(&upstream)
	p.counter.mu.match = Commands("EVAL", "EVALSHA")
	p.mu.open = make(map[*link]struct{})
	var err error
	for range startTries {
		if p.reserved, err = reserve(); err != nil {
			return nil, err
		}
		p.port = p.reserved.port
		if err = p.listen(); err == nil {
			return p, nil
		}
		p.reserved.free()
	}
	return nil, err
}

// Addr returns the proxy's address, "127.0.0.1:port". It never changes.
func (p *Proxy) Addr() string { return loopback(p.port) }

// URL returns the proxy's address as "redis://127.0.0.1:port".
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Client returns a client that goes through the proxy and is closed when the test ends. mod,
// if not nil, changes its options, of which only the address is set.
func (p *Proxy) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, rueidis.ClientOption{InitAddress: []string{p.Addr()}}, mod)
}

// Close cuts all connections, aborts all delays and returns when all goroutines have ended.
// A hook that is running is waited for, so a hook must not call Close. Close may be called
// twice.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.refuse()
	p.cut()
	p.links.Wait()
	p.reserved.free()
}

// Refuse makes new connections fail with "connection refused". Those that exist stay.
func (p *Proxy) Refuse() {
	tally.Fault("connections refused")
	p.refuse()
}

func (p *Proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.mu.listener; l != nil {
		p.mu.listener = nil
		if err := shutDown(l); err != nil {
			p.report.failf("refuse connections: %v", err)
		}
		_ = l.Close() // ends the acceptor, unless that has ended
	}
}

// shutDown ends a listener in every process that has it. Close is not enough: a process that is being
// started has inherited it until its exec, and until then the kernel would accept connections.
func shutDown(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) { failure = shutRead(fd) })
	return errors.Join(err, failure)
}

// listens reports whether a listener is the present one.
func (p *Proxy) listens(l *net.TCPListener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.listener == l
}

// Accept makes new connections succeed again.
func (p *Proxy) Accept() {
	var err error
	// A process that is being started has the last listener as well, until it becomes another program.
	PollUntil(startLimit, func() bool {
		err = p.listen()
		return !errors.Is(err, syscall.EADDRINUSE)
	})
	if err != nil {
		p.report.failf("accept connections: %v", err)
	}
}

// CutAll closes all connections at once, in both directions.
func (p *Proxy) CutAll() {
	if p.Connections() > 0 {
		tally.Fault("connections cut")
	}
	p.cut()
}

func (p *Proxy) cut() {
	for _, l := range p.current() {
		l.abort()
	}
}

// HalfOpenAll makes all connections half open, as HalfOpen does with one. New connections
// are not affected.
func (p *Proxy) HalfOpenAll() {
	if p.Connections() > 0 {
		tally.Fault("connections half open")
	}
	for _, l := range p.current() {
		l.silence()
	}
}

// Connections returns how many connections there are that have not been cut.
func (p *Proxy) Connections() int {
	n := 0
	for _, l := range p.current() {
		if !l.isSevered() {
			n++
		}
	}
	return n
}

// SwitchTo makes new connections lead to another server, as an address does that has changed its meaning. Those that
// exist stay where they are.
func (p *Proxy) SwitchTo(upstreamAddr string) { p.upstream.Store(&upstreamAddr) }

// DropPushes makes published messages vanish, or arrive again. Confirmations of
// subscriptions and other pushes arrive in any case.
func (p *Proxy) DropPushes(on bool) { p.dropPushes.Store(on) }

// SetLatency makes everything that arrives from now on take d longer, in each direction,
// in order. It models distance, not bandwidth.
func (p *Proxy) SetLatency(d time.Duration) {
	if p.latency.Swap(int64(d)) == 0 && d > 0 {
		tally.Fault("everything late")
	}
}

// current returns the open links.
func (p *Proxy) current() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	links := make([]*link, 0, len(p.mu.open))
	for l := range p.mu.open {
		links = append(links, l)
	}
	return links
}

// listen starts to accept connections unless that is done already, or the proxy is closed.
func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed || p.mu.listener != nil {
		return nil
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.port})
	if err != nil {
		return fmt.Errorf("redistest: proxy: %w", err)
	}
	p.mu.listener = l
	p.links.Go(func() { p.accept(l) })
	return nil
}

// accept is the goroutine of a listener, which ends it when it is closed.
func (p *Proxy) accept(listener *net.TCPListener) {
	for {
		client, err := listener.AcceptTCP()
		if err != nil {
			if p.listens(listener) {
				p.report.failf("redistest: proxy: %v", err)
			}
			return
		}
		server, err := dialTCP(*p.upstream.Load())
		if err != nil {
			_ = client.Close() // nothing was exchanged
			continue
		}
		p.join(listener, newLink(p, client, server))
	}
}

// dialLimit bounds what takes microseconds: only a machine that stalls makes it last.
const dialLimit = 10 * time.Second

// dialTCP connects to a server on loopback. That takes microseconds, also if the server is
// frozen, since the kernel accepts for it, so it may hold up the connections after it.
func dialTCP(addr string) (*net.TCPConn, error) {
	c, err := net.DialTimeout("tcp", addr, dialLimit)
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("redistest: proxy: connected to %s by %T", addr, c)
	}
	return tcp, nil
}

// join starts a link of a listener, unless the proxy was closed, or refuses connections, since the link was accepted: after
// Refuse and CutAll there is no connection.
func (p *Proxy) join(of *net.TCPListener, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed || p.mu.listener != of {
		l.abort()
		return
	}
	p.mu.open[l] = struct{}{}
	l.start(&p.links)
}

// leave forgets a link whose goroutines have ended.
func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.open, l)
}
