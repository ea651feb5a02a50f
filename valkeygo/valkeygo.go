// SPDX-License-Identifier: Apache-2.0

// Package valkeygo opens a session of signalbox for a service that has the options of a valkey-go client: addresses, TLS,
// credentials, database, sentinels, dialer.
//
//	options := valkey.ClientOption{InitAddress: []string{"valkey:6379"}} // the service has them
//	...
//	session, err := valkeygo.Dial(ctx, options)
//	...
//	defer session.Close(context.WithoutCancel(ctx)) // ctx may have ended by then
//
// The session has two connections of its own, one for calls and one for messages; in a cluster, for each node with a lock that
// is held or waited for. A client of the service is neither used nor closed. A valkey-go client does not show its options: keep
// them where it is made.
//
// # What is left out
//
// Caching, pools and buffers, retries, reading from replicas (locks go to the primary), Standalone, and what a client says of
// itself. Everything else is taken over: what signalbox.Tune sets is as it says there.
package valkeygo

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/signalbox-go/signalbox"
)

// Dial returns a session with the settings of o. It returns signalbox.ErrBadOption if o names no server. See signalbox.Dial for
// what is checked, and what that costs.
func Dial(ctx context.Context, o valkey.ClientOption, options ...signalbox.SessionOption) (*signalbox.Session, error) {
	return signalbox.DialWith(ctx, ClientOption(o), options...)
}

// ClientOption returns the same settings for the client that signalbox uses, for those who make it themselves with
// rueidis.NewClient. Call signalbox.Tune on them.
func ClientOption(o valkey.ClientOption) rueidis.ClientOption {
	converted := rueidis.ClientOption{
		InitAddress:       o.InitAddress,
		ShuffleInit:       o.ShuffleInit,
		ForceSingleClient: o.ForceSingleClient,
		ClusterOption:     rueidis.ClusterOption(o.ClusterOption),
		Sentinel:          rueidis.SentinelOption(o.Sentinel),
		Dialer:            o.Dialer,
		DialCtxFn:         o.DialCtxFn,
		TLSConfig:         o.TLSConfig.Clone(),
		DisableTCPNoDelay: o.DisableTCPNoDelay,
		ConnWriteTimeout:  o.ConnWriteTimeout,
		ConnLifetime:      o.ConnLifetime,
		MaxFlushDelay:     o.MaxFlushDelay,
		Username:          o.Username,
		Password:          o.Password,
		ClientName:        o.ClientName,
		SelectDB:          o.SelectDB,
		AlwaysRESP2:       o.AlwaysRESP2,
	}
	converted.Sentinel.TLSConfig = o.Sentinel.TLSConfig.Clone()
	if o.DialCtxFn == nil && o.DialFn != nil {
		converted.DialCtxFn = func(_ context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
			return o.DialFn(addr, dialer, config)
		}
	}
	if o.AuthCredentialsFn != nil {
		converted.AuthCredentialsFn = func(at rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			credentials, err := o.AuthCredentialsFn(valkey.AuthCredentialsContext(at))
			return rueidis.AuthCredentials(credentials), err
		}
	}
	return converted
}
