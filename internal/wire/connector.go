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

// ConnectorOptions are what a Connector knows of its client.
type ConnectorOptions struct {
	// MaxAge is how long a connection is used; 0 or less is without end.
	MaxAge time.Duration
	// SingleServer: the client does not follow redirections.
	SingleServer bool
	// Sentinels: the client asks sentinels for its server. All their addresses and its own share the limit of attempts.
	Sentinels bool
}

// The pause after a failed attempt to connect is at most 2/5 shorter than these. It doubles from the first to the
// last.
const firstPause, longestPause = 10 * time.Millisecond, 125 * time.Millisecond

const (
	// stableAfter is how long a connection lives that was no failure: the next one is made at once.
	stableAfter = time.Second
	// maxPerSecond bounds the attempts in any second while they fail, with those that found out.
	maxPerSecond = 20
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
	next          DialFunc
	options       ConnectorOptions
	sentinelLimit attemptLimit // of all endpoints, if there are sentinels

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

// AsConnectError marks err as the reason why there is no connection, as a function for credentials returns it.
func AsConnectError(err error) error {
	if err == nil {
		return nil
	}
	return &connectError{err}
}

// isConnectError reports whether err says that a call had no connection to be sent on.
func isConnectError(err error) bool {
	var network *net.OpError
	var connecting *connectError
	return errors.As(err, &connecting) || errors.As(err, &network) && network.Op == "dial"
}

// Dial is a DialFunc.
func (k *Connector) Dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	// The call that starts to connect does so for all calls that come meanwhile: the end of its context is not theirs.
	ctx = context.WithoutCancel(ctx)
	e := k.endpoint(addr)
	if err := e.awaitAttempt(); err != nil {
		return nil, err
	}
	if dialer != nil && dialer.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialer.Timeout)
		defer cancel()
	}
	inner, err := k.next(ctx, addr, dialer, config)
	if err != nil {
		e.recordFailure(err)
		if !isConnectError(err) {
			err = &connectError{err}
		}
		return nil, err
	}
	if below, ok := inner.(*translatedConn); ok {
		if made, ok := below.Conn.(*conn); ok {
			return made, nil // of another Connector: Tune was called twice
		}
	}
	c := newConn(inner, e, dialSettings{dialer, config})
	e.add(c)
	register(c)
	return c, nil
}

// maxAge returns how long one connection is used: clients that began together do not end together.
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
	e := k.mu.endpoints[addr]
	if e == nil {
		e = &endpoint{connector: k, addr: addr, conns: make(map[*conn]struct{}), limit: new(attemptLimit), endedCount: endedAt(addr)}
		if k.options.Sentinels {
			e.limit = &k.sentinelLimit
		}
		k.mu.endpoints[addr] = e
	}
	return e
}

// endedConnections has, by address, how many connections for calls ended there that their client did not close: by their age,
// by a refusal, or by the server. It is for the whole process, since a client does not say how it connects. It has an
// entry for each address that was ever dialled.
//
//nolint:gochecknoglobals // see above
var endedConnections sync.Map

func endedAt(addr string) *atomic.Uint64 {
	n, _ := endedConnections.LoadOrStore(addr, new(atomic.Uint64))
	return n.(*atomic.Uint64) //nolint:errcheck,forcetypeassert // it has nothing else
}

// EndedConnections returns how often a connection for calls to an address of a client ended that the client did not close. So
// the next call uses another one, which may lead to another server.
func EndedConnections(addr string) uint64 {
	if n, known := endedConnections.Load(addr); known {
		return n.(*atomic.Uint64).Load() //nolint:errcheck,forcetypeassert // it has nothing else
	}
	return 0
}

// attemptLimit bounds how many attempts there are in a second.
type attemptLimit struct {
	attempts [maxPerSecond - 3]time.Time // some more are made before a failure is known
	next     int
}

// endpoint is what a Connector knows of one address. The Connector's lock guards it.
type endpoint struct {
	connector  *Connector
	addr       string
	conns      map[*conn]struct{} // those that are open
	limit      *attemptLimit
	endedCount *atomic.Uint64
	remoteHost string // the host that the address led to last

	acceptedAt  time.Time // when a connection was accepted last; zero if an attempt has failed since
	failures    int       // failures since a connection lasted
	nextAttempt time.Time // when the next attempt may be made
	lastErr     error     // the last failure
}

// awaitAttempt blocks until an attempt to connect may be made. If others wait already, it returns the last failure.
func (e *endpoint) awaitAttempt() error {
	k := e.connector
	k.mu.Lock()
	now := time.Now()
	e.forgetFailuresLocked(now)
	if e.failures == 0 {
		k.mu.Unlock()
		return nil
	}
	pause := max(0, e.nextAttempt.Sub(now), e.limit.attempts[e.limit.next].Add(time.Second).Sub(now))
	if pause > 2*longestPause {
		err := e.lastErr
		k.mu.Unlock()
		return &connectError{err}
	}
	at := now.Add(pause)
	e.limit.attempts[e.limit.next] = at
	e.limit.next = (e.limit.next + 1) % len(e.limit.attempts)
	e.nextAttempt = at.Add(e.pauseLocked())
	k.mu.Unlock()
	time.Sleep(pause) //nolint:forbidigo // at most 2*lastKnock, which nothing can shorten
	return nil
}

func (e *endpoint) pauseLocked() time.Duration {
	pause := min(firstPause<<min(max(e.failures-1, 0), 10), longestPause)
	return pause - rand.N(pause*2/5)
}

// recordFailure records that an attempt has failed, or that a connection did not last.
func (e *endpoint) recordFailure(err error) {
	e.connector.mu.Lock()
	defer e.connector.mu.Unlock()
	e.recordFailureLocked(err)
}

func (e *endpoint) recordFailureLocked(err error) {
	now := time.Now()
	e.forgetFailuresLocked(now)
	e.failures++
	if until := now.Add(e.pauseLocked()); until.After(e.nextAttempt) {
		e.nextAttempt = until
	}
	e.acceptedAt, e.lastErr = time.Time{}, err
}

// forgetFailuresLocked forgets failures before a connection that has lasted, unless others failed since.
func (e *endpoint) forgetFailuresLocked(now time.Time) {
	if !e.acceptedAt.IsZero() && now.Sub(e.acceptedAt) >= stableAfter {
		e.failures = 0
	}
}

func (e *endpoint) add(c *conn) {
	k := e.connector
	k.mu.Lock()
	defer k.mu.Unlock()
	e.conns[c] = struct{}{}
	e.remoteHost, _ = canonical(addressOf(c.mu.inner), "") // no other goroutine has it yet
}

// recordAccepted records that the server accepts the client: more connections may be made at once.
func (e *endpoint) recordAccepted() {
	k := e.connector
	k.mu.Lock()
	defer k.mu.Unlock()
	e.acceptedAt, e.nextAttempt = time.Now(), time.Time{}
}

// giveUpAll gives up the connections to the address, since the server there is not the one that is wanted.
func (e *endpoint) giveUpAll(by *conn, why string) {
	k := e.connector
	k.mu.Lock()
	if time.Since(by.born) < stableAfter {
		e.recordFailureLocked(fmt.Errorf("%w: %s", errs.ErrRefused, why))
	}
	others := make([]*conn, 0, len(e.conns))
	for c := range e.conns {
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

// recordBroken records that the server or the network ended a connection.
func (e *endpoint) recordBroken(c *conn, why error) {
	k := e.connector
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, open := e.conns[c]; open && time.Since(c.born) < stableAfter {
		delete(e.conns, c)
		e.recordFailureLocked(why)
	}
}

// errNotAccepted is the failure of a connection that the client closed before the server accepted it.
var errNotAccepted = errors.New("the server did not accept the connection")

// recordClosed records that a connection was closed.
func (e *endpoint) recordClosed(c *conn) {
	c.mu.Lock()
	good, refusal := c.mu.accepted, c.mu.refusal
	c.mu.Unlock()
	k := e.connector
	k.mu.Lock()
	defer k.mu.Unlock()
	_, open := e.conns[c]
	delete(e.conns, c)
	switch {
	case !open || good:
	case refusal != "":
		e.recordFailureLocked(fmt.Errorf("%w: %s", errNotAccepted, refusal))
	default:
		e.recordFailureLocked(errNotAccepted)
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
func (e *endpoint) isAt(to, remote string) bool {
	here, _ := canonical(remote, "")
	host, port := canonical(to, here)
	own, ownPort := canonical(e.addr, "")
	switch {
	case port != ownPort:
		return false
	case host == own || host == here:
		return true
	}
	k := e.connector
	k.mu.Lock()
	defer k.mu.Unlock()
	for addr, other := range k.mu.endpoints { // this one may have another name
		if name, _ := canonical(addr, ""); name == host && other.remoteHost == here {
			return true
		}
	}
	return false
}
