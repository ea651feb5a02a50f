// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// credentialsTimeout bounds a call of a function for credentials, unless Dialer.Timeout is longer.
const credentialsTimeout = 5 * time.Second

// minRefresh is the shortest time after which the client asks for credentials again. A function that names a time in the past
// would be called without a pause.
const minRefresh = 2 * time.Second

// ErrCredentialsChanged ends a subscribed connection in RESP2 that has other credentials than its client has by now.
var ErrCredentialsChanged = errors.New("the credentials have changed, and a subscribed connection in RESP2 refuses AUTH: it is made anew")

// CredentialsFunc is a program's function for credentials.
type CredentialsFunc func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error)

// credentials are those for the servers of a client, or for its sentinels.
type credentials struct {
	fixed    rueidis.AuthCredentials // the credentials if there is no function
	function CredentialsFunc         // the program's function, or nil
	calls    *boundCalls
	limit    time.Duration
}

// fetch returns the credentials for a connection to an address. It holds no lock while it calls the program's function.
// It ends with ctx, and after the limit. Its error is a reason why a connection could not be made: nothing was sent.
func (c *credentials) fetch(ctx context.Context, at net.Addr) (rueidis.AuthCredentials, error) {
	if c.function == nil {
		return c.fixed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	found, err := within(ctx, c.calls, func() (rueidis.AuthCredentials, error) {
		return c.function(rueidis.AuthCredentialsContext{Address: at})
	}, func(rueidis.AuthCredentials) {})
	if err != nil {
		return rueidis.AuthCredentials{}, &connectError{&credentialsError{err}}
	}
	if at := found.RefreshAfter; !at.IsZero() && time.Until(at) < minRefresh {
		found.RefreshAfter = time.Now().Add(minRefresh)
	}
	return found, nil
}

type credentialsError struct{ error }

func (e *credentialsError) Unwrap() error { return e.error }

// connAddr is the remote address of a connection, as its client sees it. The client passes it to the function for credentials,
// which finds the connection by it. It is not the program's: its function gets the address below.
type connAddr struct{ conn *conn }

// Network implements net.Addr.
func (a connAddr) Network() string { return a.conn.current().RemoteAddr().Network() }

// String implements net.Addr.
func (a connAddr) String() string { return addressOf(a.conn.current()) }

// SetCredentials lets the function of o be called for connections of c to servers alone, and ofSentinels for those to
// sentinels. The client has one function for both, and would log in at sentinels as the user of the servers. Either may
// be nil: then the user and the password in o are used. Call it before the first connection is made.
func (c *Connector) SetCredentials(o *rueidis.ClientOption, ofSentinels CredentialsFunc) {
	if o.Sentinel.MasterSet != "" {
		// The client dials sentinels by a copy of Sentinel.Dialer, and nothing else shows which they are: they may be found
		// later, at the host of a server. So that dialer gets a resolver by which it is recognised, until it dials.
		c.sentinelMark, c.sentinelResolver = &net.Resolver{}, o.Sentinel.Dialer.Resolver
		o.Sentinel.Dialer.Resolver = c.sentinelMark
	}
	if o.AuthCredentialsFn == nil && ofSentinels == nil {
		return
	}
	limit := max(o.Dialer.Timeout, credentialsTimeout)
	c.ofServers = credentials{
		rueidis.AuthCredentials{Username: o.Username, Password: o.Password},
		o.AuthCredentialsFn, newBoundCalls("the function for credentials", maxHung), limit,
	}
	c.ofSentinels = credentials{
		rueidis.AuthCredentials{Username: o.Sentinel.Username, Password: o.Sentinel.Password},
		ofSentinels, newBoundCalls("the function for credentials of sentinels", maxHung), limit,
	}
	o.AuthCredentialsFn = c.credentialsFor
}

// credentials returns those for servers, or for sentinels.
func (c *Connector) credentials(sentinel bool) *credentials { //nolint:revive // a fact about the connection
	if sentinel {
		return &c.ofSentinels
	}
	return &c.ofServers
}

// unmarked returns the dialer as the program made it, and whether it is the one for sentinels.
func (c *Connector) unmarked(dialer *net.Dialer) (own *net.Dialer, sentinel bool) {
	if dialer == nil || c.sentinelMark == nil || dialer.Resolver != c.sentinelMark {
		return dialer, false
	}
	plain := *dialer
	plain.Resolver = c.sentinelResolver
	return &plain, true
}

// credentialsFor is a CredentialsFunc.
func (c *Connector) credentialsFor(of rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	at, own := of.Address.(connAddr)
	if !own || at.conn.endpoint.connector != c { // of another Connector: Tune was called twice
		return c.credentials(own && at.conn.sentinel).fetch(c.base(), of.Address)
	}
	return at.conn.credentialsForClient()
}

func (c *conn) credentials() *credentials { return c.endpoint.connector.credentials(c.sentinel) }

// credentialsForClient returns the credentials with which the client opens the connection, and those that it sends later, when a time
// comes that RefreshAfter named.
//
// The client sends what it was given here, in an AUTH, while the inner connection may be replaced by one that was greeted with what
// connectNext was given. Both come from the program's function, and no request is written while the inner connection is replaced. So
// the AUTH reaches one of the two, whole. If the server refuses it, the connection stays what it was, and the client does not learn of
// the refusal: it would end the connection.
func (c *conn) credentialsForClient() (rueidis.AuthCredentials, error) {
	found, err := c.credentials().fetch(c.endpoint.connector.base(), c.current().RemoteAddr())
	c.mu.Lock()
	if !c.mu.accepted { // the client opens the connection
		c.mu.given = found
		c.mu.Unlock()
		if c.sentinel { // no call fails for it
			c.endpoint.report(FailureCredentials, err)
		}
		return found, err
	}
	unsent := c.mu.subscribed && c.speaksRESP2Locked()
	changed := err == nil && (found.Username != c.mu.given.Username || found.Password != c.mu.given.Password)
	if changed {
		c.mu.given = found
	}
	c.mu.awaitsLogin = err == nil && !unsent && found.Username+found.Password != ""
	c.mu.Unlock()
	if err != nil {
		// An error would end the connection, which works. Without a user the client sends nothing, and asks again.
		c.endpoint.report(FailureCredentials, err)
		return rueidis.AuthCredentials{RefreshAfter: time.Now().Add(minRefresh)}, nil
	}
	c.endpoint.report(FailureCredentials, nil)
	if !unsent {
		return found, nil
	}
	if changed {
		c.ended() // before the server can know
		c.end(ErrCredentialsChanged)
	}
	return rueidis.AuthCredentials{RefreshAfter: found.RefreshAfter}, nil
}

// shortSecret is the length below which a secret may be a part of ordinary words. It is recognised between quotes only.
const shortSecret = 6

func passwords(requests []greetingRequest) (found []string) {
	for _, r := range requests {
		at := slices.IndexFunc(r.words, func(word string) bool { return strings.EqualFold(word, "AUTH") })
		switch {
		case at == 0 && len(r.words) > 1:
			found = append(found, r.words[len(r.words)-1])
		case at > 0 && r.is("HELLO") && len(r.words) > at+2:
			found = append(found, r.words[at+2])
		}
	}
	return found
}

// maskSecrets overwrites secrets in an error of a server, by as many stars: servers and proxies repeat what they refuse. The first word,
// which says what is refused, stays. A server may repeat the beginning of a secret alone, and write some bytes in another way.
func maskSecrets(refusal []byte, secrets []string) {
	_, words, _ := bytes.Cut(refusal, []byte(" "))
	for _, secret := range secrets {
		quoted := strconv.Quote(secret)
		for _, form := range []string{secret, quoted[1 : len(quoted)-1], strings.NewReplacer("\r", " ", "\n", " ").Replace(secret)} {
			maskForm(words, form)
		}
	}
}

func maskForm(text []byte, form string) {
	beginning := form[:min(len(form), shortSecret)]
	for at := 0; beginning != ""; {
		i := bytes.Index(text[at:], []byte(beginning))
		if i < 0 {
			return
		}
		i += at
		at = i + len(beginning)
		for at < len(text) && at-i < len(form) && text[at] == form[at-i] {
			at++
		}
		if len(form) >= shortSecret || isQuoted(text, i, at) {
			copy(text[i:at], strings.Repeat("*", at-i))
		}
	}
}

// isQuoted reports whether text[i:end] is between two quotes.
func isQuoted(text []byte, i, end int) bool {
	return i > 0 && end < len(text) && strings.IndexByte("'`\"", text[i-1]) >= 0 && strings.IndexByte("'`\"", text[end]) >= 0
}
