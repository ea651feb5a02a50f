// SPDX-License-Identifier: Apache-2.0

// Package valkeygo opens a session of signalbox for a service that has the options of a valkey-go client: addresses, TLS,
// credentials, database, sentinels, dialer.
//
// Use it if the service has such options. With rueidis, or without any client, use signalbox.Dial.
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
// Caching, pools and buffers, retries, reading from replicas (locks go to the primary), Standalone, ClientSetInfo, and ClientNoTouch:
// keys of locks count as used. Everything else is taken over: what signalbox.Tune sets is as it says there.
package valkeygo

import (
	"context"
	"reflect"

	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/signalbox-go/signalbox"
)

// Dial returns a session with the settings of o. It returns signalbox.ErrBadOption if o names no server. See signalbox.Dial for
// what is checked, and what that costs.
func Dial(ctx context.Context, o valkey.ClientOption, options ...signalbox.SessionOption) (*signalbox.Session, error) {
	return signalbox.DialWith(ctx, ClientOption(o), options...)
}

// taken are the fields that are taken over. Both clients have them, by the same name.
//
//nolint:gochecknoglobals // a constant table
var taken = []string{
	"InitAddress", "ShuffleInit", "ForceSingleClient", "ClusterOption", "Sentinel", "Dialer", "DialFn", "DialCtxFn", "TLSConfig",
	"DisableTCPNoDelay", "ConnWriteTimeout", "ConnLifetime", "MaxFlushDelay", "Username", "Password", "ClientName", "SelectDB", "AlwaysRESP2",
	"ClientNoEvict",
}

// ClientOption returns the same settings for the client that signalbox uses, for those who make it themselves with
// rueidis.NewClient. Call signalbox.Tune on them.
func ClientOption(o valkey.ClientOption) rueidis.ClientOption {
	var converted rueidis.ClientOption
	to, from := reflect.ValueOf(&converted).Elem(), reflect.ValueOf(o)
	for _, name := range taken {
		set(to.FieldByName(name), from.FieldByName(name))
	}
	converted.InitAddress = append([]string(nil), o.InitAddress...)
	converted.TLSConfig, converted.Sentinel.TLSConfig = o.TLSConfig.Clone(), o.Sentinel.TLSConfig.Clone()
	if o.AuthCredentialsFn != nil {
		converted.AuthCredentialsFn = func(at rueidis.AuthCredentialsContext) (to rueidis.AuthCredentials, err error) {
			var valkeyAt valkey.AuthCredentialsContext
			set(reflect.ValueOf(&valkeyAt).Elem(), reflect.ValueOf(at))
			from, err := o.AuthCredentialsFn(valkeyAt)
			set(reflect.ValueOf(&to).Elem(), reflect.ValueOf(from))
			return to, err
		}
	}
	return converted
}

// set sets a field from that of the other client, struct by struct. The clients are released apart, and one may have a field that the
// other has not: a conversion of whole structs would be an error of the compiler then, in the service's build.
func set(to, from reflect.Value) {
	switch {
	case !to.IsValid() || !from.IsValid() || !to.CanSet():
	case from.Type().AssignableTo(to.Type()):
		to.Set(from)
	case to.Kind() == reflect.Struct && from.Kind() == reflect.Struct:
		for i := range to.NumField() {
			set(to.Field(i), from.FieldByName(to.Type().Field(i).Name))
		}
	}
}
