// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

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
