// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// settings are the options of the session's client.
type settings struct {
	rueidis.ClientOption

	stream *subscription // the subscription to a streaming provider, or nil
}

// connecting is what all options have: how a connection is made, and who connects. It is written as the options of a server.
type connecting struct {
	redis.Options

	refused map[string]bool // the fields that are set and cannot be followed
	stream  *subscription   // the subscription to a streaming provider, or nil
}

// defaultDialTimeout is what go-redis sets where nothing was. For locks it is long: Tune has 2 s in its place.
const defaultDialTimeout = 5 * time.Second

// failoverAddr is the address that go-redis gives to a client behind sentinels.
const failoverAddr = "FailoverClient"

func ofServer(o *redis.Options) (settings, error) {
	if o.Addr == failoverAddr {
		return refuse("the client is one behind sentinels and does not show them: give its redis.FailoverOptions to DialOptions")
	}
	c := connecting{Options: *o, refused: map[string]bool{"OnConnect": o.OnConnect != nil, "Limiter": o.Limiter != nil}}
	if c.Network == "" && strings.HasPrefix(o.Addr, "/") {
		c.Network = "unix"
	}
	converted, err := c.option(o.Addr)
	// A cluster behind the one address is found, as Dial of a URL does. A path in the file system leads to one server.
	converted.SelectDB, converted.ForceSingleClient = o.DB, c.Network == "unix"
	return converted, err
}

func ofCluster(o *redis.ClusterOptions) (settings, error) {
	c := connecting{
		Options: redis.Options{
			Dialer: o.Dialer, DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig, Protocol: o.Protocol, ClientName: o.ClientName,
			Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
			CredentialsProviderContext: o.CredentialsProviderContext, StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		},
		refused: map[string]bool{"OnConnect": o.OnConnect != nil, "ClusterSlots": o.ClusterSlots != nil, "NewClient": makesClients(o.NewClient)},
	}
	return c.option(o.Addrs...)
}

func ofFailover(o *redis.FailoverOptions) (settings, error) {
	if o.MasterName == "" {
		return refuse("MasterName is empty: it is the name under which the sentinels watch the primary")
	}
	c := connecting{
		Options: redis.Options{
			Dialer: o.Dialer, DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig, Protocol: o.Protocol, ClientName: o.ClientName,
			Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
			CredentialsProviderContext: o.CredentialsProviderContext, StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		},
		refused: map[string]bool{"OnConnect": o.OnConnect != nil},
	}
	converted, err := c.option(o.SentinelAddrs...)
	if err != nil {
		return settings{}, err
	}
	converted.SelectDB = o.DB
	identity := identityOf(o.SentinelUsername, o.SentinelPassword)
	converted.Sentinel = rueidis.SentinelOption{
		MasterSet: o.MasterName, Username: identity.Username, Password: identity.Password, ClientName: o.ClientName,
		TLSConfig: converted.TLSConfig.Clone(), Dialer: converted.Dialer,
	}
	return converted, nil
}

// makesClients reports whether newClient is the service's own function. go-redis sets its own where the service has no function.
func makesClients(newClient func(*redis.Options) *redis.Client) bool {
	return newClient != nil && reflect.ValueOf(newClient).Pointer() != reflect.ValueOf(redis.NewClient).Pointer()
}

// option returns the options of the client for servers at addrs.
func (c *connecting) option(addrs ...string) (settings, error) {
	for field, isSet := range c.refused {
		if isSet {
			return refuse("%s is set: a session of signalbox cannot follow it; make options without it and give them to DialOptions", field)
		}
	}
	if len(addrs) == 0 {
		return refuse("there is no address: name a server, host:port")
	}
	addrs = slices.Clone(addrs)
	for i := range addrs {
		addrs[i] = cmp.Or(addrs[i], "localhost:6379") // as go-redis has it
	}
	o := rueidis.ClientOption{
		InitAddress: addrs, ClientName: c.ClientName, AlwaysRESP2: c.Protocol == 2,
	}
	identity := identityOf(c.Username, c.Password)
	o.Username, o.Password = identity.Username, identity.Password
	if c.DialTimeout > 0 && c.DialTimeout != defaultDialTimeout {
		o.Dialer.Timeout = c.DialTimeout
	}
	// In every branch: Tune refuses a connection without TLS if there is a TLSConfig, also one of a Dialer.
	o.TLSConfig = c.TLSConfig.Clone()
	switch {
	case c.Dialer != nil && !c.isDefaultDialer():
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
	return settings{o, c.stream}, nil
}

// isDefaultDialer reports whether go-redis has set the Dialer, as it does in the options of each client. That is no decision of
// the service: the session's own dialer does the same, and resumes TLS sessions, and ends in time.
func (c *connecting) isDefaultDialer() bool {
	name := runtime.FuncForPC(reflect.ValueOf(c.Dialer).Pointer()).Name()
	inside, found := strings.CutPrefix(name, reflect.TypeFor[redis.Options]().PkgPath()+".")
	switch {
	case !found || !strings.Contains(inside, "NewDialer.func"):
		return false
	case strings.HasPrefix(inside, "(*Options).init."):
		return true
	}
	// In a program that is built without inlining, a dialer that the service got from redis.NewDialer has this name, too. It may
	// do TLS without a TLSConfig here, and never does less than the session's own with one.
	return c.TLSConfig != nil
}

func (c *connecting) networkOr(otherwise string) string {
	if c.Network == "" {
		return otherwise
	}
	return c.Network
}

// identityOf returns the credentials as go-redis sends them: it does not log in without a password.
func identityOf(username, password string) rueidis.AuthCredentials {
	if password == "" {
		username = ""
	}
	return rueidis.AuthCredentials{Username: username, Password: password}
}

// credentialsTimeout bounds what a provider may take. Tune bounds it as well, for those that do not look at their context.
const credentialsTimeout = 5 * time.Second

// setCredentials lets o ask the provider that go-redis would ask: the streaming one, the one with a context, the plain one.
func (c *connecting) setCredentials(o *rueidis.ClientOption) {
	switch {
	case c.StreamingCredentialsProvider != nil:
		c.stream = &subscription{provider: c.StreamingCredentialsProvider}
		o.AuthCredentialsFn = c.stream.credentials
	case c.CredentialsProviderContext != nil:
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			ctx, cancel := context.WithTimeout(context.Background(), max(c.DialTimeout, credentialsTimeout))
			defer cancel()
			username, password, err := c.CredentialsProviderContext(ctx)
			return identityOf(username, password), err
		}
	case c.CredentialsProvider != nil:
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return identityOf(c.CredentialsProvider()), nil
		}
	}
}
