// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// connecting is what all options have: how a connection is made, and who connects.
type connecting struct {
	network                      string
	dialer                       func(ctx context.Context, network, addr string) (net.Conn, error)
	dialTimeout                  time.Duration
	tls                          *tls.Config
	protocol                     int
	clientName                   string
	username, password           string
	credentialsProvider          func() (username, password string)
	credentialsProviderContext   func(ctx context.Context) (username, password string, err error)
	streamingCredentialsProvider auth.StreamingCredentialsProvider
	refused                      map[string]bool // the fields that are set and cannot be followed
}

// defaultDialTimeout is what go-redis sets where nothing was. For locks it is long: Tune has 2 s in its place.
const defaultDialTimeout = 5 * time.Second

// failoverAddr is the address that go-redis gives to a client behind sentinels.
const failoverAddr = "FailoverClient"

func ofServer(o *redis.Options) (rueidis.ClientOption, error) {
	if o.Addr == failoverAddr {
		return refuse("the client is one behind sentinels and does not show them: give its redis.FailoverOptions to DialOptions")
	}
	c := connecting{
		network: o.Network, dialer: o.Dialer, dialTimeout: o.DialTimeout, tls: o.TLSConfig, protocol: o.Protocol, clientName: o.ClientName,
		username: o.Username, password: o.Password, credentialsProvider: o.CredentialsProvider,
		credentialsProviderContext: o.CredentialsProviderContext, streamingCredentialsProvider: o.StreamingCredentialsProvider,
		refused: map[string]bool{"OnConnect": o.OnConnect != nil, "Limiter": o.Limiter != nil},
	}
	addr := o.Addr
	if addr == "" {
		addr = "localhost:6379" // as go-redis has it
	}
	if c.network == "" && strings.HasPrefix(addr, "/") {
		c.network = "unix"
	}
	converted, err := c.option(addr)
	converted.SelectDB, converted.ForceSingleClient = o.DB, true
	return converted, err
}

func ofCluster(o *redis.ClusterOptions) (rueidis.ClientOption, error) {
	c := connecting{
		dialer: o.Dialer, dialTimeout: o.DialTimeout, tls: o.TLSConfig, protocol: o.Protocol, clientName: o.ClientName,
		username: o.Username, password: o.Password, credentialsProvider: o.CredentialsProvider,
		credentialsProviderContext: o.CredentialsProviderContext, streamingCredentialsProvider: o.StreamingCredentialsProvider,
		refused: map[string]bool{"OnConnect": o.OnConnect != nil, "ClusterSlots": o.ClusterSlots != nil, "NewClient": makesClients(o.NewClient)},
	}
	return c.option(o.Addrs...)
}

func ofFailover(o *redis.FailoverOptions) (rueidis.ClientOption, error) {
	if o.MasterName == "" {
		return refuse("MasterName is empty: it is the name under which the sentinels watch the primary")
	}
	c := connecting{
		dialer: o.Dialer, dialTimeout: o.DialTimeout, tls: o.TLSConfig, protocol: o.Protocol, clientName: o.ClientName,
		username: o.Username, password: o.Password, credentialsProvider: o.CredentialsProvider,
		credentialsProviderContext: o.CredentialsProviderContext, streamingCredentialsProvider: o.StreamingCredentialsProvider,
		refused: map[string]bool{"OnConnect": o.OnConnect != nil},
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
		InitAddress: addrs, ClientName: c.clientName, AlwaysRESP2: c.protocol == 2, Username: c.username, Password: c.password,
	}
	if c.dialTimeout > 0 && c.dialTimeout != defaultDialTimeout {
		o.Dialer.Timeout = c.dialTimeout
	}
	switch {
	case c.dialer != nil:
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return c.dialer(ctx, c.networkOr("tcp"), addr)
		}
	case c.networkOr("tcp") != "tcp":
		o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, c.network, addr)
		}
	default:
		o.TLSConfig = c.tls.Clone()
	}
	c.setCredentials(&o)
	return o, nil
}

func (c *connecting) networkOr(otherwise string) string {
	if c.network == "" {
		return otherwise
	}
	return c.network
}
