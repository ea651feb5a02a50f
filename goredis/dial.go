// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
)

// Options are the options of go-redis: those of a server, of a cluster, of a primary behind sentinels, and the universal ones,
// which are one of these.
type Options interface {
	*redis.Options | *redis.ClusterOptions | *redis.FailoverOptions | *redis.UniversalOptions
}

// Dial returns a session with the settings of client, a *redis.Client or a *redis.ClusterClient. Nothing of the client is used
// but its settings, as they are now: it may be closed before the session or after it. See signalbox.Dial for what is checked,
// and what that costs.
func Dial(ctx context.Context, client redis.UniversalClient, options ...signalbox.SessionOption) (*signalbox.Session, error) {
	o, err := ofClient(client) //nolint:contextcheck // credentials are asked for later, when ctx may have ended
	if err != nil {
		return nil, fmt.Errorf("goredis: dial: %w", err)
	}
	return signalbox.DialWith(ctx, o, options...)
}

// DialOptions is Dial for a service that has the options. Behind sentinels it is the only way.
func DialOptions[O Options](ctx context.Context, o O, options ...signalbox.SessionOption) (*signalbox.Session, error) {
	converted, err := ClientOption(o)
	if err != nil {
		return nil, err
	}
	return signalbox.DialWith(ctx, converted, options...)
}

// ClientOption returns the same settings for the client that signalbox uses, for those who make it themselves with
// rueidis.NewClient. Call signalbox.Tune on them.
func ClientOption[O Options](o O) (rueidis.ClientOption, error) {
	converted, err := of(o)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("goredis: %w", err)
	}
	return converted, nil
}

func ofClient(client redis.UniversalClient) (rueidis.ClientOption, error) {
	switch client := client.(type) {
	case *redis.Client:
		if client != nil {
			return of(client.Options())
		}
	case *redis.ClusterClient:
		if client != nil {
			return of(client.Options())
		}
	case nil:
	default:
		return refuse("a %T shows no settings: give those of its servers to DialOptions, or a URL to signalbox.Dial", client)
	}
	return refuse("the client is nil")
}

func of(options any) (rueidis.ClientOption, error) {
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
func refuse(format string, a ...any) (rueidis.ClientOption, error) {
	return rueidis.ClientOption{}, fmt.Errorf("%w: %s", signalbox.ErrBadOption, fmt.Sprintf(format, a...))
}
