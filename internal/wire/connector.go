// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// DialFunc makes a connection for a client.
type DialFunc func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error)

// ConnectorOptions are the properties of a Connector's client.
type ConnectorOptions struct {
	// MaxAge is how long a connection is used; 0 or less means without limit.
	MaxAge time.Duration
	// SingleServer says that the client does not follow redirections.
	SingleServer bool
	// Sentinels says that the client asks sentinels for its server. All their addresses and its own share the limit of attempts.
	Sentinels bool
	// PlainSecret says that TLS was asked for, for the servers alone, while the sentinels are to get a password.
	PlainSecret bool
}

// The pause after a failed attempt to connect doubles from firstPause to longestPause. It is at most 2/5 shorter, at random.
const firstPause, longestPause = 10 * time.Millisecond, 125 * time.Millisecond

const (
	// stableAfter is the age from which a connection counts as a success: the next one is made at once.
	stableAfter = time.Second
	// maxPerSecond bounds the attempts in any second while they fail, those that discovered the failure included.
	maxPerSecond = 20
)

// Connector makes the connections of one client, and ends those that no longer lead to the right server.
//
//  1. A connection whose server says that it is the wrong one is left, with all others to the same address.
//  2. A connection is used for MaxAge at most, and not while a reply is due. So a client follows its address, also if
//     the old server lives.
//  3. After a failure, attempts to connect to an address come after pauses, whatever failed: connecting, TLS, the
//     credentials, the first reply, or a connection that lasted less than a second. No more than maxPerSecond are made
//     in a second. The first after a connection that lasted is made at once.
//  4. With PlainSecret no connection without TLS is made.
//  5. What a connection reads is returned after the first write. A server that accepts no client says so before a
//     request, and the client panics at a reply without a request.
//
// A Connector has no goroutine; a connection has a timer.
type Connector struct {
	next             DialFunc
	options          ConnectorOptions
	sentinelLimit    attemptLimit  // the limit of all endpoints together, if there are sentinels
	ofServers        credentials   // used if the program has a function for them, or for those of sentinels
	ofSentinels      credentials   // used as ofServers is
	sentinelMark     *net.Resolver // the resolver of the dialer with which the client dials sentinels; nil without sentinels
	sentinelResolver *net.Resolver // the resolver that the program gave that dialer
	lastEvents       [connEvents]atomic.Uint64
	acceptedAt       atomic.Pointer[time.Duration] // the time at which a server accepted a connection last, on the monotonic clock
	below            atomic.Pointer[Connector]     // the Connector that makes what c dials, if Tune was called twice
	ctx              context.Context               //nolint:containedctx // ends the attempts and the connections; nil if only the client ends them

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
	c := &Connector{next: next, options: terms}
	c.mu.endpoints = make(map[string]*endpoint)
	return c
}

func dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return dialer.DialContext(ctx, "tcp", addr)
	}
	secure := tls.Dialer{NetDialer: dialer, Config: config}
	return secure.DialContext(ctx, "tcp", addr)
}

// connectError is the reason why a connection could not be made. Nothing was sent except to make it.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// isConnectError reports whether err says that a call had no connection to be sent on.
func isConnectError(err error) bool {
	var network *net.OpError
	var connecting *connectError
	return errors.As(err, &connecting) || errors.As(err, &network) && network.Op == "dial"
}

// errPlainSecret is the reason why no connection is made with PlainSecret.
var errPlainSecret = fmt.Errorf("%w: TLSConfig is set, and the sentinels would get Sentinel.Password without TLS: set Sentinel.TLSConfig, too", errs.ErrBadOption)

// Check returns what is wrong with the options, whatever the servers are, or nil. Dial returns it for each connection.
func (c *Connector) Check() error {
	if c.options.PlainSecret {
		return errPlainSecret
	}
	return nil
}

// Dial is a DialFunc.
func (c *Connector) Dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if c.options.PlainSecret && config == nil { // to a sentinel: for the servers there is a configuration
		return nil, &connectError{errPlainSecret}
	}
	if fault := mistakenName(addr); fault != "" { // of a client that DialWith did not make; others would quote the address
		return nil, &connectError{fmt.Errorf("%w: an address in InitAddress: %s", errs.ErrBadOption, fault)}
	}
	// The call that starts to connect does so for all calls that come meanwhile: the end of its context is not theirs.
	ctx, release := c.detached(ctx)
	defer release()
	e := c.endpoint(addr)
	if err := e.awaitAttempt(); err != nil {
		return nil, err
	}
	if dialer != nil && dialer.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialer.Timeout)
		defer cancel()
	}
	dialer, sentinel := c.unmarked(dialer)
	inner, fault, err := e.connect(ctx, dialer, config)
	if err != nil {
		e.recordFailure(err)
		if !isConnectError(err) {
			err = &connectError{err}
		}
		return nil, err
	}
	if made, isRecorded := connBelow(inner); made != nil {
		c.below.Store(made.endpoint.connector)
		if !isRecorded {
			return made, nil
		}
	}
	fresh := newConn(inner, e, dialSettings{dialer, config, sentinel}, fault)
	e.add(fresh)
	register(fresh)
	if c.base().Err() != nil { // it ended before it could find the connection
		fresh.end(net.ErrClosed)
		return nil, &connectError{net.ErrClosed}
	}
	return fresh, nil
}

// bound lets ctx end all attempts and connections of c. Call it before the first attempt.
func (c *Connector) bound(ctx context.Context) {
	c.ctx = ctx
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.mu.endpoints {
			for conn := range e.conns {
				go conn.end(net.ErrClosed) // closing may take a while with TLS
			}
		}
	})
}

// base returns the context in which c asks for credentials.
func (c *Connector) base() context.Context {
	if c.ctx == nil {
		return context.Background()
	}
	return c.ctx
}

// detached returns a context for an attempt, which ends if that of c does, and not with ctx.
func (c *Connector) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.base(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// connBelow returns the connection of another Connector that is below inner, as it is if Tune was called twice, or nil. isRecorded says
// that DialWith records what it receives.
func connBelow(inner net.Conn) (made *conn, isRecorded bool) {
	translated, is := inner.(*translatedConn)
	if !is {
		return nil, false
	}
	below := translated.Conn
	recorded, isRecorded := below.(*recordedConn)
	if isRecorded {
		below = recorded.Conn
	}
	made, _ = below.(*conn)
	return made, isRecorded
}

// connect makes a connection to the address, with what the files of the configuration say now. fault is why some of them cannot be
// used as they are; an error contains it.
func (e *endpoint) connect(ctx context.Context, dialer *net.Dialer, config *tls.Config) (inner net.Conn, fault, err error) {
	config, fault = currentTLS(ctx, config)
	e.report(FailureFiles, fault)
	inner, err = e.connector.next(ctx, e.addr, dialer, config)
	return inner, fault, withFault(err, fault)
}

// maxAge returns how long one connection is used. It is random, so that connections of the same age do not end together.
func (c *Connector) maxAge() time.Duration {
	age := c.options.MaxAge
	if age <= 0 {
		return 0
	}
	return age - rand.N(age/5+1)
}

func (c *Connector) endpoint(addr string) *endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.mu.endpoints[addr]
	if e == nil {
		e = &endpoint{connector: c, addr: addr, conns: make(map[*conn]struct{}), unreplaced: make(map[*conn]int), limit: new(attemptLimit)}
		if c.options.Sentinels {
			e.limit = &c.sentinelLimit
		}
		c.mu.endpoints[addr] = e
	}
	return e
}

// noteVersion records the version in a reply to HELLO.
func (e *endpoint) noteVersion(hello []byte) {
	_, rest, _ := bytes.Cut(hello, []byte("\r\nversion\r\n$"))
	_, rest, _ = bytes.Cut(rest, []byte("\r\n"))
	version, _, found := bytes.Cut(rest, []byte("\r\n"))
	if !found {
		return
	}
	e.connector.mu.Lock()
	defer e.connector.mu.Unlock()
	if e.version != "" && e.version != string(version) {
		e.connector.happened(NewVersion)
	}
	e.version = string(version)
}

// attemptLimit bounds the attempts to connect in a second.
type attemptLimit struct {
	attempts [maxPerSecond - 3]time.Time // the last attempts; some more are made before a failure is known
	next     int
}

// endpoint is the state of one address of a Connector. The Connector's lock guards it.
type endpoint struct {
	connector  *Connector
	addr       string
	conns      map[*conn]struct{} // the open connections
	limit      *attemptLimit
	remoteHost string // the host to which the address led last
	version    string // the version that the server named last, or ""

	redirectedAt time.Time // when connections were left last because of a redirection

	acceptedAt  time.Time     // the time of the last accepted connection; zero if an attempt has failed since
	failures    int           // the failures since a stable connection
	unreplaced  map[*conn]int // the failed attempts to replace an open connection, since it was made or replaced
	lasting     [failureKinds]error
	nextAttempt time.Time // the time from which the next attempt may be made
	lastErr     error     // the last failure
}

// awaitAttempt blocks until an attempt to connect may be made. If others wait already, it returns the last failure. Where nothing has
// failed there is no limit, except among sentinels: if a primary refuses the client, the client asks a sentinel for the next one at once.
func (e *endpoint) awaitAttempt() error {
	c := e.connector
	c.mu.Lock()
	now := time.Now()
	e.forgetFailuresLocked(now)
	if e.failures == 0 && !c.options.Sentinels {
		c.mu.Unlock()
		return nil
	}
	pause := max(0, e.limit.attempts[e.limit.next].Add(time.Second).Sub(now))
	if e.failures == 0 {
		pause = min(pause, longestPause)
	} else {
		pause = max(pause, e.nextAttempt.Sub(now))
	}
	if pause > 2*longestPause {
		err := e.lastErr
		c.mu.Unlock()
		return &connectError{err}
	}
	at := now.Add(pause)
	e.limit.attempts[e.limit.next] = at
	e.limit.next = (e.limit.next + 1) % len(e.limit.attempts)
	if e.failures > 0 {
		e.nextAttempt = at.Add(e.pauseLocked())
	}
	c.mu.Unlock()
	time.Sleep(pause) //nolint:forbidigo // at most 2*longestPause, which nothing can shorten
	return nil
}

// awaitReplacement blocks until an attempt to replace a connection may be made, for as long as others wait, and reports false if ctx
// ends first. It is no failure of the attempt that others wait.
func (e *endpoint) awaitReplacement(ctx context.Context) bool {
	for e.awaitAttempt() != nil {
		if !Sleep(ctx, longestPause+rand.N(longestPause), nil) {
			return false
		}
	}
	return ctx.Err() == nil
}

// pauseLocked returns the pause before the next attempt.
func (e *endpoint) pauseLocked() time.Duration {
	pause := min(firstPause<<min(max(e.failures-1, 0), 10), longestPause)
	return pause - rand.N(pause*2/5)
}

// recordFailure records that an attempt has failed, or that a connection was not stable.
func (e *endpoint) recordFailure(err error) {
	e.connector.mu.Lock()
	defer e.connector.mu.Unlock()
	e.recordFailureLocked(err)
}

func (e *endpoint) recordFailureLocked(err error) {
	now := time.Now()
	e.forgetFailuresLocked(now)
	e.failures++
	if next := now.Add(e.pauseLocked()); next.After(e.nextAttempt) {
		e.nextAttempt = next
	}
	e.acceptedAt, e.lastErr = time.Time{}, err
}

// forgetFailuresLocked forgets the failures before a stable connection, unless others failed since.
func (e *endpoint) forgetFailuresLocked(now time.Time) {
	if !e.acceptedAt.IsZero() && now.Sub(e.acceptedAt) >= stableAfter {
		e.failures = 0
	}
}

// add records an open connection.
func (e *endpoint) add(c *conn) {
	connector := e.connector
	connector.mu.Lock()
	defer connector.mu.Unlock()
	e.conns[c] = struct{}{}
	e.remoteHost, _ = canonical(addressOf(c.mu.inner), "") // no other goroutine has it yet
}

// recordAccepted records that the server accepts the client: more connections may be made at once.
func (e *endpoint) recordAccepted() {
	c := e.connector
	c.mu.Lock()
	defer c.mu.Unlock()
	e.recordAcceptedLocked()
}

func (e *endpoint) recordAcceptedLocked() {
	e.acceptedAt, e.nextAttempt = time.Now(), time.Time{}
	now := timers.Mono()
	e.connector.acceptedAt.Store(&now)
	e.reportLocked(FailureSentinel, nil)
	e.reportLocked(FailurePrimary, nil)
	e.reportLocked(FailureLogin, nil)
	if len(e.unreplaced) == 0 { // an older connection may still be one that cannot be replaced
		e.reportLocked(FailureReplacement, nil)
	}
}

// giveUpAll gives up all connections to the address, since its server is not the right one. by is the connection that found out.
func (e *endpoint) giveUpAll(by *conn, why string) {
	reason := fmt.Errorf("%w: %w", errs.ErrRefused, &refusedError{why})
	connector := e.connector
	connector.mu.Lock()
	if time.Since(by.born) < stableAfter {
		e.recordFailureLocked(reason)
	}
	others := make([]*conn, 0, len(e.conns))
	for c := range e.conns {
		if c != by {
			others = append(others, c)
		}
	}
	connector.mu.Unlock()
	reason = fmt.Errorf("%w: %w", errUnsent, reason)
	by.drain(reason)
	for _, c := range others {
		go c.drain(reason) // closing may take a while with TLS
	}
}

// endOthers ends the other connections to a sentinel before the client learns of the end of the one with its subscription in RESP2. It
// subscribes again if it connects anew, and never on a connection that it has.
func (e *endpoint) endOthers(subscribed *conn, why error) {
	e.connector.mu.Lock()
	others := maps.Clone(e.conns)
	e.connector.mu.Unlock()
	delete(others, subscribed)
	for c := range others {
		c.end(why)
	}
}

// mayLeaveForRedirection reports whether the connections may be left because of a redirection. That is once in suspectFor: if a
// new connection redirects as well, the next one would.
func (e *endpoint) mayLeaveForRedirection(now time.Time) bool {
	e.connector.mu.Lock()
	defer e.connector.mu.Unlock()
	if now.Sub(e.redirectedAt) < suspectFor {
		return false
	}
	e.redirectedAt = now
	return true
}

// recordBroken records that the server or the network ended a connection.
func (e *endpoint) recordBroken(c *conn, why error) {
	connector := e.connector
	connector.mu.Lock()
	defer connector.mu.Unlock()
	if _, open := e.conns[c]; open && time.Since(c.born) < stableAfter {
		delete(e.conns, c)
		e.recordFailureLocked(why)
	}
}

// errNotAccepted is the failure of a connection that the client closed before the server accepted the client.
var errNotAccepted = errors.New("the server did not accept the connection")

// recordClosed records that a connection was closed.
func (e *endpoint) recordClosed(c *conn) {
	c.mu.Lock()
	accepted, refusal := c.mu.accepted, c.mu.refusal
	c.mu.Unlock()
	connector := e.connector
	connector.mu.Lock()
	defer connector.mu.Unlock()
	_, open := e.conns[c]
	delete(e.conns, c)
	delete(e.unreplaced, c)
	switch {
	case !open || accepted:
	case refusal != "":
		e.recordFailureLocked(fmt.Errorf("%w: %w", errNotAccepted, &refusedError{refusal}))
		switch {
		case c.sentinel:
			e.reportLocked(FailureSentinel, &refusedError{refusal})
		case connector.options.Sentinels && begins(refusal, connectRefusals):
			e.reportLocked(FailurePrimary, &refusedError{refusal})
		}
	default:
		e.recordFailureLocked(errNotAccepted)
	}
}

// addressOf returns the remote address of a connection, or "".
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
	c := e.connector
	c.mu.Lock()
	defer c.mu.Unlock()
	for addr, other := range c.mu.endpoints { // this one may have another name
		if name, _ := canonical(addr, ""); name == host && other.remoteHost == here {
			return true
		}
	}
	return false
}
