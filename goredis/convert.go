// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// connecting is what all options have: how a connection is made, and who connects. It is written as the options of a server.
type connecting struct {
	redis.Options

	refused map[string]bool // the fields that are set and cannot be followed
}

// defaultDialTimeout is what go-redis sets where nothing was. For locks it is long: Tune has 2 s in its place.
const defaultDialTimeout = 5 * time.Second

// failoverAddr is the address that go-redis gives to a client behind sentinels.
const failoverAddr = "FailoverClient"

func ofServer(o *redis.Options) (rueidis.ClientOption, error) {
	if o.Addr == failoverAddr {
		return refuse("the client is one behind sentinels and does not show them: give its redis.FailoverOptions to DialOptions")
	}
	c := connecting{*o, map[string]bool{"OnConnect": o.OnConnect != nil, "Limiter": o.Limiter != nil}}
	addr := o.Addr
	if addr == "" {
		addr = "localhost:6379" // as go-redis has it
	}
	if c.Network == "" && strings.HasPrefix(addr, "/") {
		c.Network = "unix"
	}
	converted, err := c.option(addr)
	converted.SelectDB, converted.ForceSingleClient = o.DB, true
	return converted, err
}

func ofCluster(o *redis.ClusterOptions) (rueidis.ClientOption, error) {
	c := connecting{
		redis.Options{
			Dialer: o.Dialer, DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig, Protocol: o.Protocol, ClientName: o.ClientName,
			Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
			CredentialsProviderContext: o.CredentialsProviderContext, StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		},
		map[string]bool{"OnConnect": o.OnConnect != nil, "ClusterSlots": o.ClusterSlots != nil, "NewClient": makesClients(o.NewClient)},
	}
	return c.option(o.Addrs...)
}

func ofFailover(o *redis.FailoverOptions) (rueidis.ClientOption, error) {
	if o.MasterName == "" {
		return refuse("MasterName is empty: it is the name under which the sentinels watch the primary")
	}
	c := connecting{
		redis.Options{
			Dialer: o.Dialer, DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig, Protocol: o.Protocol, ClientName: o.ClientName,
			Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
			CredentialsProviderContext: o.CredentialsProviderContext, StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		},
		map[string]bool{"OnConnect": o.OnConnect != nil},
	}
	converted, err := c.option(o.SentinelAddrs...)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	converted.SelectDB = o.DB
	converted.Sentinel = rueidis.SentinelOption{
		MasterSet: o.MasterName, Username: o.SentinelUsername, Password: o.SentinelPassword, ClientName: o.ClientName,
		TLSConfig: converted.TLSConfig.Clone(), Dialer: converted.Dialer,
	}
	return converted, nil
}

// makesClients reports whether newClient is the service's own function. go-redis sets its own where the service has no function.
func makesClients(newClient func(*redis.Options) *redis.Client) bool {
	return newClient != nil && reflect.ValueOf(newClient).Pointer() != reflect.ValueOf(redis.NewClient).Pointer()
}

// option returns the options of the client for servers at addrs.
func (c *connecting) option(addrs ...string) (rueidis.ClientOption, error) {
	for field, isSet := range c.refused {
		if isSet {
			return refuse("%s is set: a session of signalbox cannot follow it; make options without it and give them to DialOptions", field)
		}
	}
	if len(addrs) == 0 {
		return refuse("there is no address: name a server, host:port")
	}
	o := rueidis.ClientOption{
		InitAddress: addrs, ClientName: c.ClientName, AlwaysRESP2: c.Protocol == 2, Username: c.Username, Password: c.Password,
	}
	if c.DialTimeout > 0 && c.DialTimeout != defaultDialTimeout {
		o.Dialer.Timeout = c.DialTimeout
	}
	// In every branch: Tune refuses a connection without TLS if there is a TLSConfig, whoever made it.
	o.TLSConfig = c.TLSConfig.Clone()
	switch {
	case c.Dialer != nil:
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return c.Dialer(ctx, c.networkOr("tcp"), addr)
		}
	case c.networkOr("tcp") != "tcp":
		o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
			if config == nil {
				return dialer.DialContext(ctx, c.Network, addr)
			}
			return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, c.Network, addr)
		}
	}
	c.setCredentials(&o)
	return o, nil
}

func (c *connecting) networkOr(otherwise string) string {
	if c.Network == "" {
		return otherwise
	}
	return c.Network
}

// A streaming provider is asked again after refreshAfter: a token that it has renewed by then is sent on the same connection,
// before the server ends that for the old one. credentialsTimeout bounds what a provider with a context may take.
const refreshAfter, credentialsTimeout = time.Minute, 5 * time.Second

// setCredentials lets o ask the provider that go-redis would ask: the streaming one, the one with a context, the plain one.
func (c *connecting) setCredentials(o *rueidis.ClientOption) {
	switch {
	case c.StreamingCredentialsProvider != nil:
		o.AuthCredentialsFn = c.current
	case c.CredentialsProviderContext != nil:
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			timeout := c.DialTimeout
			if timeout <= 0 {
				timeout = credentialsTimeout
			}
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			username, password, err := c.CredentialsProviderContext(ctx)
			return rueidis.AuthCredentials{Username: username, Password: password}, err
		}
	case c.CredentialsProvider != nil:
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			username, password := c.CredentialsProvider()
			return rueidis.AuthCredentials{Username: username, Password: password}, nil
		}
	}
}

// current returns the credentials that a streaming provider has now. It subscribes for that long only, so that nothing is left
// at the provider when the session is closed.
func (c *connecting) current(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	now, unsubscribe, err := c.StreamingCredentialsProvider.Subscribe(new(ignored))
	if err != nil {
		return rueidis.AuthCredentials{}, fmt.Errorf("the provider of credentials failed: %w", err)
	}
	username, password := now.BasicAuth()
	if unsubscribe != nil {
		_ = unsubscribe() // the credentials are there, whatever it says
	}
	return rueidis.AuthCredentials{Username: username, Password: password, RefreshAfter: time.Now().Add(refreshAfter)}, nil
}

// ignored is a listener that reads nothing. It has a size, so that each one has an address of its own: providers know listeners by it.
type ignored struct{ _ byte }

func (*ignored) OnNext(auth.Credentials) {}
func (*ignored) OnError(error)           {}
