// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// What Tune makes of each field of the client's options.
const (
	kept = `PipelineMultiplex ConnWriteTimeout ClientSetInfo Username Password ClientName InitAddress SelectDB Dialer Sentinel ClusterOption
		MaxFlushDelay DisableTCPNoDelay ShuffleInit AlwaysRESP2 ForceSingleClient ClientNoTouch ClientNoEvict ReadBufferEachConn WriteBufferEachConn
		RingScaleEachConn BlockingPoolCleanup BlockingPoolMinSize BlockingPoolSize BlockingPipeline AlwaysPipelining DisableRetry
		EnableReplicaAZInfo AZFromInfo CacheSizeEachConn ClientTrackingOptions DisableCache`
	cleared = `DisableAutoPipelining SendToReplicas ReplicaSelector ReadNodeSelector ReplicaOnly Standalone`
	wrapped = `TLSConfig DialFn DialCtxFn AuthCredentialsFn ConnLifetime` // other tests have these
	unused  = `NewCacheStoreFn OnInvalidations RetryDelay`                // the first two serve caches; no call of a session is retried by the client
)

// A field that the client gains is kept, cleared or left unused by a decision, and never by accident. Nothing sends calls to replicas.
func TestTuneDecidesOnEachField(t *testing.T) {
	t.Parallel()
	var set rueidis.ClientOption
	fill(reflect.ValueOf(&set).Elem())
	set.DialFn, set.DialCtxFn, set.TLSConfig, set.AuthCredentialsFn = nil, nil, nil, nil
	tuned := set
	signalbox.Tune(&tuned)
	tuned.Sentinel.Dialer.Resolver = set.Sentinel.Dialer.Resolver // until it dials, it is what shows that a connection is one to a sentinel
	for _, f := range reflect.VisibleFields(reflect.TypeFor[rueidis.ClientOption]()) {
		before, after := reflect.ValueOf(set).FieldByName(f.Name), reflect.ValueOf(tuned).FieldByName(f.Name)
		switch {
		case contains(kept, f.Name):
			require.Equal(t, before.Interface(), after.Interface(), f.Name)
		case contains(cleared, f.Name):
			require.False(t, before.IsZero(), f.Name)
			require.True(t, after.IsZero(), f.Name)
		default:
			require.True(t, contains(wrapped, f.Name) || contains(unused, f.Name), "decide on %s", f.Name)
		}
	}
}

func contains(names, name string) bool {
	for one := range strings.FieldsSeq(names) {
		if one == name {
			return true
		}
	}
	return false
}

// fill sets what is in v to something unusual. Functions return zero values.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("unusual")
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(7 * time.Second))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) (results []reflect.Value) {
			for i := range v.Type().NumOut() {
				results = append(results, reflect.Zero(v.Type().Out(i)))
			}
			return results
		}))
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && f.Kind() != reflect.Func || f.CanSet() && v.Type() == reflect.TypeFor[rueidis.ClientOption]() {
				fill(f)
			}
		}
	default:
	}
}
