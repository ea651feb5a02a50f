// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
)

// Options are the options of go-redis: those of a server, of a cluster, of a primary behind sentinels, and the universal ones,
// which are one of these.
type Options interface {
	*redis.Options | *redis.ClusterOptions | *redis.FailoverOptions | *redis.UniversalOptions
}

// Dial returns a session with the settings of client: a *redis.Client, a *redis.ClusterClient, a type that has the method Options of
// one of them, or a type that embeds one, also as a redis.UniversalClient. Nothing of the client is used but its settings, as they are
// now: it may be closed before the session or after it. See signalbox.Dial for what is checked, and what that costs.
func Dial(ctx context.Context, client redis.UniversalClient, options ...signalbox.SessionOption) (*signalbox.Session, error) {
	o, err := ofClient(client) //nolint:contextcheck // credentials are asked for later, when ctx may have ended
	if err != nil {
		return nil, fmt.Errorf("goredis: dial: %w", err)
	}
	return o.dial(ctx, options)
}

// DialOptions is Dial for a service that has the options. Behind sentinels it is the only way. UniversalOptions serve a single
// server in development, and sentinels or a cluster in production.
func DialOptions[O Options](ctx context.Context, o O, options ...signalbox.SessionOption) (*signalbox.Session, error) {
	converted, err := of(o) //nolint:contextcheck // as in Dial
	if err != nil {
		return nil, fmt.Errorf("goredis: dial: %w", err)
	}
	return converted.dial(ctx, options)
}

// dial opens a session. Its Close ends the subscription to a streaming provider.
func (s settings) dial(ctx context.Context, options []signalbox.SessionOption) (*signalbox.Session, error) {
	if s.stream == nil {
		return signalbox.DialWith(ctx, s.ClientOption, options...)
	}
	session, err := signalbox.DialWith(ctx, s.ClientOption, append(slices.Clip(options), signalbox.WithOnClose(s.stream.close))...)
	if err != nil {
		s.stream.close()
		return nil, err
	}
	s.stream.logTo(session.Logger)
	return session, nil
}

// ClientOption returns the same settings for the client that signalbox uses, for those who make it themselves with
// rueidis.NewClient. Call signalbox.Tune on them. The subscription to a streaming provider lasts as long as the program: only a
// session of Dial or DialOptions ends it.
func ClientOption[O Options](o O) (rueidis.ClientOption, error) {
	converted, err := of(o)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("goredis: %w", err)
	}
	if converted.stream != nil {
		converted.stream.logTo(slog.Default)
	}
	return converted.ClientOption, nil
}

func ofClient(client redis.UniversalClient) (settings, error) {
	options, shown := optionsOf(client)
	switch {
	case options != nil:
		return of(options)
	case client == nil || shown:
		return refuse("the client is nil, or what it embeds is (%T)", client)
	}
	return refuse("a %T shows no settings: give those of its servers to DialOptions, or a URL to signalbox.Dial", client)
}

// optionsOf returns the options that the client shows, as those of go-redis do, and types that embed one; else those of the client that
// it embeds as an interface. If it is nil, or embeds nil, its method panics.
func optionsOf(client redis.UniversalClient) (options any, shown bool) {
	defer func() { _ = recover() }()
	switch client := client.(type) {
	case interface{ Options() *redis.Options }:
		shown = true
		options = client.Options()
	case interface{ Options() *redis.ClusterOptions }:
		shown = true
		options = client.Options()
	default:
		if inner := embedded(client); inner != nil {
			return optionsOf(inner)
		}
	}
	return options, shown
}

// embedded returns the one client that the client embeds, whose methods are its own, or nil.
func embedded(client redis.UniversalClient) (inner redis.UniversalClient) {
	v := reflect.Indirect(reflect.ValueOf(client))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); !f.Anonymous || !f.IsExported() {
			continue
		}
		if found, is := reflect.TypeAssert[redis.UniversalClient](v.Field(i)); is {
			if inner != nil {
				return nil
			}
			inner = found
		}
	}
	return inner
}

func of(options any) (settings, error) {
	switch o := options.(type) {
	case *redis.Options:
		if o != nil {
			return ofServer(o)
		}
	case *redis.ClusterOptions:
		if o != nil {
			return ofCluster(o)
		}
	case *redis.FailoverOptions:
		if o != nil {
			return ofFailover(o)
		}
	case *redis.UniversalOptions:
		if o != nil {
			copied := *o // the methods set addresses in it
			switch {
			case o.MasterName != "":
				return ofFailover(copied.Failover())
			case len(o.Addrs) > 1 || o.IsClusterMode:
				return ofCluster(copied.Cluster())
			}
			return ofServer(copied.Simple())
		}
	}
	return refuse("the options are nil")
}

// refuse returns an error that says what is wrong with the settings.
func refuse(format string, a ...any) (settings, error) {
	return settings{}, fmt.Errorf("%w: %s", signalbox.ErrBadOption, fmt.Sprintf(format, a...))
}

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
