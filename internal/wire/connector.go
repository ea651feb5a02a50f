// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// DialFunc makes a connection for a client.
type DialFunc func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error)

// Terms are what a Connector knows of its client.
type ConnectorOptions struct {
	// Life is how long a connection is used; 0 or less is without end.
	MaxAge time.Duration
	// Single: the client does not follow redirections.
	SingleServer bool
	// Sentinels: the client asks sentinels for its server. All their addresses and its own share the limit of attempts.
	Sentinels bool
}

// The pause after a failed attempt to connect is at most 2/5 shorter than these. It doubles from the first to the
// last.
const firstKnock, lastKnock = 10 * time.Millisecond, 125 * time.Millisecond

const (
	// settled is how long a connection lives that was no failure: the next one is made at once.
	settled = time.Second
	// perSecond bounds the attempts in any second while they fail, with those that found out.
	perSecond = 20
)

// Connector makes the connections of one client, and ends those that no longer lead to the right server.
//
//  1. A connection whose server says that it is the wrong one is left, with all others to the same address.
//  2. A connection is used for Life at most, and not while a reply is due. So a client follows its address, also if
//     the old server lives.
//  3. After a failure, attempts to connect to an address come after pauses, whatever failed: connecting, TLS, the
//     credentials, the first reply, or a connection that lasted less than a second. No more than perSecond are made
//     in a second. The first after a connection that lasted is made at once.
//  4. What a connection reads is returned after the first write. A server that accepts no client says so before a
//     request, and the client panics at a reply without a request.
//
// A Connector has no goroutine; a connection has a timer.
type Connector struct {
	next    DialFunc
	options ConnectorOptions
	pace    pace // of all endpoints, if there are sentinels

	mu struct {
		sync.Mutex
		endpoints map[string]*endpoint // by the address that the client dials
	}
}

// NewConnector returns a Connector. next makes the connections; nil is the client's own dialer.
func NewConnector(next DialFunc, terms ConnectorOptions) *Connector {
	if next == nil {
		next = dial
	}
	k := &Connector{next: next, options: terms}
	k.mu.endpoints = make(map[string]*endpoint)
	return k
}

func dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return dialer.DialContext(ctx, "tcp", addr)
	}
	secure := tls.Dialer{NetDialer: dialer, Config: config}
	return secure.DialContext(ctx, "tcp", addr)
}

// connectError is why there is no connection. Nothing was sent but what makes one.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// Unconnected marks err as the reason why there is no connection, as a function for credentials returns it.
func AsConnectError(err error) error {
	if err == nil {
		return nil
	}
	return &connectError{err}
}

// isUnconnected reports whether err says that a call had no connection to be sent on.
func isConnectError(err error) bool {
	var network *net.OpError
	var connecting *connectError
	return errors.As(err, &connecting) || errors.As(err, &network) && network.Op == "dial"
}

// Dial is a DialFunc.
func (k *Connector) Dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	// The call that starts to connect does so for all calls that come meanwhile: the end of its context is not theirs.
	ctx = context.WithoutCancel(ctx)
	p := k.endpoint(addr)
	if err := p.wait(); err != nil {
		return nil, err
	}
	if dialer != nil && dialer.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialer.Timeout)
		defer cancel()
	}
	inner, err := k.next(ctx, addr, dialer, config)
	if err != nil {
		p.failed(err)
		if !isConnectError(err) {
			err = &connectError{err}
		}
		return nil, err
	}
	if below, ok := inner.(*translated); ok {
		if made, ok := below.Conn.(*conn); ok {
			return made, nil // of another Connector: Tune was called twice
		}
	}
	c := newConn(inner, p, dialed{dialer, config})
	p.join(c)
	opened(c)
	return c, nil
}

// life returns how long one connection is used: clients that began together do not end together.
func (k *Connector) maxAge() time.Duration {
	life := k.options.MaxAge
	if life <= 0 {
		return 0
	}
	return life - rand.N(life/5+1)
}

func (k *Connector) endpoint(addr string) *endpoint {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.mu.endpoints[addr]
	if p == nil {
		p = &endpoint{connector: k, addr: addr, conns: make(map[*conn]struct{}), pace: new(pace), gone: endedAt(addr)}
		if k.options.Sentinels {
			p.pace = &k.pace
		}
		k.mu.endpoints[addr] = p
	}
	return p
}

// departures has, by address, how many connections for calls ended there that their client did not close: by their age,
// by a refusal, or by the server. It is for the whole process, since a client does not say how it connects. It has an
// entry for each address that was ever dialled.
//
//nolint:gochecknoglobals // see above
var endedConnections sync.Map

func endedAt(addr string) *atomic.Uint64 {
	n, _ := endedConnections.LoadOrStore(addr, new(atomic.Uint64))
	return n.(*atomic.Uint64) //nolint:errcheck,forcetypeassert // it has nothing else
}

// Departures returns how often a connection for calls to an address of a client ended that the client did not close. So
// the next call uses another one, which may lead to another server.
func EndedConnections(addr string) uint64 {
	if n, known := endedConnections.Load(addr); known {
		return n.(*atomic.Uint64).Load() //nolint:errcheck,forcetypeassert // it has nothing else
	}
	return 0
}

// pace bounds how many attempts there are in a second.
type pace struct {
	made [perSecond - 3]time.Time // some more are made before a failure is known
	next int
}

// endpoint is what a Connector knows of one address. The Connector's lock guards it.
type endpoint struct {
	connector *Connector
	addr      string
	conns     map[*conn]struct{} // those that are open
	pace      *pace
	gone      *atomic.Uint64
	remote    string // the host that the address led to last

	good  time.Time // when a connection was accepted last; zero if an attempt has failed since
	fails int       // failures since a connection lasted
	until time.Time // when the next attempt may be made
	err   error     // the last failure
}

// wait blocks until an attempt to connect may be made. If others wait already, it returns the last failure.
func (p *endpoint) wait() error {
	k := p.connector
	k.mu.Lock()
	now := time.Now()
	p.settleLocked(now)
	if p.fails == 0 {
		k.mu.Unlock()
		return nil
	}
	pause := max(0, p.until.Sub(now), p.pace.made[p.pace.next].Add(time.Second).Sub(now))
	if pause > 2*lastKnock {
		err := p.err
		k.mu.Unlock()
		return &connectError{err}
	}
	at := now.Add(pause)
	p.pace.made[p.pace.next] = at
	p.pace.next = (p.pace.next + 1) % len(p.pace.made)
	p.until = at.Add(p.pauseLocked())
	k.mu.Unlock()
	time.Sleep(pause) //nolint:forbidigo // at most 2*lastKnock, which nothing can shorten
	return nil
}

func (p *endpoint) pauseLocked() time.Duration {
	pause := min(firstKnock<<min(max(p.fails-1, 0), 10), lastKnock)
	return pause - rand.N(pause*2/5)
}

// failed records that an attempt has failed, or that a connection did not last.
func (p *endpoint) failed(err error) {
	p.connector.mu.Lock()
	defer p.connector.mu.Unlock()
	p.failedLocked(err)
}

func (p *endpoint) failedLocked(err error) {
	now := time.Now()
	p.settleLocked(now)
	p.fails++
	if until := now.Add(p.pauseLocked()); until.After(p.until) {
		p.until = until
	}
	p.good, p.err = time.Time{}, err
}

// settleLocked forgets failures before a connection that has lasted, unless others failed since.
func (p *endpoint) settleLocked(now time.Time) {
	if !p.good.IsZero() && now.Sub(p.good) >= settled {
		p.fails = 0
	}
}

func (p *endpoint) join(c *conn) {
	k := p.connector
	k.mu.Lock()
	defer k.mu.Unlock()
	p.conns[c] = struct{}{}
	p.remote, _ = canonical(addressOf(c.mu.inner), "") // no other goroutine has it yet
}

// accepted records that the server accepts the client: more connections may be made at once.
func (p *endpoint) accepted() {
	k := p.connector
	k.mu.Lock()
	defer k.mu.Unlock()
	p.good, p.until = time.Now(), time.Time{}
}

// leave gives up the connections to the address, since the server there is not the one that is wanted.
func (p *endpoint) leave(by *conn, why string) {
	k := p.connector
	k.mu.Lock()
	if time.Since(by.born) < settled {
		p.failedLocked(fmt.Errorf("%w: %s", errs.ErrRefused, why))
	}
	others := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		if c != by {
			others = append(others, c)
		}
	}
	k.mu.Unlock()
	by.drain(true)
	for _, c := range others {
		go c.drain(true) // closing may take a while with TLS
	}
}

// broke records that the server or the network ended a connection.
func (p *endpoint) broke(c *conn, why error) {
	k := p.connector
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, open := p.conns[c]; open && time.Since(c.born) < settled {
		delete(p.conns, c)
		p.failedLocked(why)
	}
}

// errUnaccepted is the failure of a connection that the client closed before the server accepted it.
var errUnaccepted = errors.New("the server did not accept the connection")

// ended records that a connection was closed.
func (p *endpoint) ended(c *conn) {
	c.mu.Lock()
	good, refusal := c.mu.good, c.mu.refusal
	c.mu.Unlock()
	k := p.connector
	k.mu.Lock()
	defer k.mu.Unlock()
	_, open := p.conns[c]
	delete(p.conns, c)
	switch {
	case !open || good:
	case refusal != "":
		p.failedLocked(fmt.Errorf("%w: %s", errUnaccepted, refusal))
	default:
		p.failedLocked(errUnaccepted)
	}
}

// addressOf returns where a connection leads to, "" if it does not say.
func addressOf(c net.Conn) string {
	if remote := c.RemoteAddr(); remote != nil {
		return remote.String()
	}
	return ""
}

// isAt reports whether an address in a reply of a server leads to this endpoint, to which a connection has that remote
// address. Without a host it means the host of that server.
func (p *endpoint) isAt(to, remote string) bool {
	here, _ := canonical(remote, "")
	host, port := canonical(to, here)
	own, ownPort := canonical(p.addr, "")
	switch {
	case port != ownPort:
		return false
	case host == own || host == here:
		return true
	}
	k := p.connector
	k.mu.Lock()
	defer k.mu.Unlock()
	for addr, other := range k.mu.endpoints { // this one may have another name
		if name, _ := canonical(addr, ""); name == host && other.remote == here {
			return true
		}
	}
	return false
}
