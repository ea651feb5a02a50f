// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/redis/rueidis"
)

// HideCredentialsFromSentinels restricts the credentials function of o to the servers. The client calls it for every
// connection, and would log in at the sentinels as the user of the servers. With it, as with Username and Password,
// sentinels get Sentinel.Username and Sentinel.Password. It needs a DialCtxFn.
func HideCredentialsFromSentinels(o *rueidis.ClientOption) {
	credentials, next := o.AuthCredentialsFn, o.DialCtxFn
	if o.Sentinel.MasterSet == "" || credentials == nil || next == nil {
		return
	}
	// The client dials sentinels by a copy of Sentinel.Dialer, and nothing else shows which they are: they may be found
	// later, at the host of a server. So that dialer gets a resolver by which it is recognised.
	sentinelResolver := &net.Resolver{}
	if own := o.Sentinel.Dialer.Resolver; own != nil {
		sentinelResolver.PreferGo, sentinelResolver.StrictErrors, sentinelResolver.Dial = own.PreferGo, own.StrictErrors, own.Dial
	}
	o.Sentinel.Dialer.Resolver = sentinelResolver
	o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := next(ctx, addr, dialer, config)
		if err != nil || dialer.Resolver != sentinelResolver {
			return conn, err
		}
		return sentinelConn{conn}, nil
	}
	sentinels := rueidis.AuthCredentials{Username: o.Sentinel.Username, Password: o.Sentinel.Password}
	o.AuthCredentialsFn = func(of rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		if _, is := of.Address.(sentinelAddr); is {
			return sentinels, nil
		}
		return credentials(of)
	}
}

// sentinelConn is a connection to a sentinel.
type sentinelConn struct{ net.Conn }

// RemoteAddr implements net.Conn. The client passes the address to the credentials function.
func (c sentinelConn) RemoteAddr() net.Addr { return sentinelAddr{c.Conn.RemoteAddr()} }

// sentinelAddr is the address of a sentinel.
type sentinelAddr struct{ net.Addr }
