// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// heldLocks are holds of keys in different slots, and the keeper that renews them.
type heldLocks struct {
	testing.TB

	runner *wire.Runner
	batch  wire.KeyedCall
	shards []*redistest.Server
}

// acquireMany writes n holds through a client of an endpoint.
func acquireMany(tb testing.TB, to redistest.Dialer, n int, shards ...*redistest.Server) *heldLocks {
	tb.Helper()
	client := to.Client(tb, signalbox.Tune)
	h := &heldLocks{TB: tb, runner: wire.NewRunner(client), shards: shards}
	h.runner.Span.SetProbePrefix("sb:")
	tb.Cleanup(h.runner.Close)
	h.batch = wire.KeyedCall{Script: proto.HolderRenewScript, MaxKeys: 256, HasLoss: true}
	for i := range n {
		key, id := fmt.Sprintf("sb:{%d}:lock", i), strings.Repeat("i", 41)
		require.NoError(tb, client.Do(tb.Context(), client.B().Set().Key(key).Value("sb1q"+strings.Repeat("1", 16)+id).Build()).Error())
		h.batch.Keys = append(h.batch.Keys, key)
		h.batch.PerKey = append(h.batch.PerKey, id, "600000")
	}
	return h
}

// awaitRenewal renews all holds until each is renewed in one go. None is ever gone.
func (h *heldLocks) awaitRenewal() {
	h.Helper()
	redistest.Await(h, "a renewal of every hold", func() bool {
		broken := false
		for i, reply := range h.runner.RunByKey(h.Context(), h.batch) {
			if broken = broken || reply.Err != nil; reply.Err == nil {
				require.EqualValues(h, 1, reply.Value, h.batch.Keys[i])
			}
		}
		return !broken
	})
}

// renew renews all holds, and requires that each is there.
func (h *heldLocks) renew() {
	h.Helper()
	for i, reply := range h.runner.RunByKey(h.Context(), h.batch) {
		require.Equal(h, wire.KeyedReply{Value: 1}, reply, h.batch.Keys[i])
	}
}

// shards starts so many servers.
func shards(tb testing.TB, n int, opts ...redistest.Option) []*redistest.Server {
	tb.Helper()
	all := make([]*redistest.Server, n)
	for i := range all {
		all[i] = redistest.Start(tb, opts...)
	}
	return all
}

func TestOneServerIsFoundToServeScriptsOverSlots(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	h := acquireMany(t, server, 300)
	require.True(t, h.runner.Span.CertainlySpansSlots(t.Context()))
	require.True(t, h.runner.Span.SpansSlots(t.Context()))
	require.EqualValues(t, 300, server.MustDo(t, "DBSIZE"), "the probe has left a key")
	calls := func() int { return int(server.CommandStats()["evalsha"].Calls + server.CommandStats()["eval"].Calls) }
	before := calls()
	h.renew()
	require.LessOrEqual(t, calls()-before, 2+2, "256 keys a script, and the text once")
}

// P2: no hold is taken for lost when what stands behind an address changes.
func TestAChangeBehindTheEndpointLosesNoHold(t *testing.T) {
	t.Parallel()
	for name, routing := range map[string]redistest.Routing{
		"Refusing": redistest.Refusing, "OwnWords": redistest.OwnWords, "FirstKey": redistest.FirstKey, "Hangup": redistest.Hangup,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := shards(t, 2)
			router := redistest.NewRouter(t, redistest.OneShard, all...)
			h := acquireMany(t, router, 40)
			require.True(t, h.runner.Span.CertainlySpansSlots(t.Context()))
			h.renew()
			router.Route(routing)
			moved := acquireMany(t, router, 40) // each to its own shard
			if routing.Hangup {
				for _, reply := range h.runner.RunByKey(t.Context(), h.batch) {
					require.Error(t, reply.Err, "the connection broke")
				}
				h.awaitRenewal() // the next calls may still meet the broken connection, or one that a probe breaks
				moved.awaitRenewal()
				return
			}
			h.renew()
			require.False(t, h.runner.Span.SpansSlots(t.Context()), "it is no longer true")
			moved.renew()
		})
	}
}

// P10: what every key would meet is no reason to send each key alone.
func TestARefusalOfEveryKeyIsNotRepeatedKeyByKey(t *testing.T) {
	t.Parallel()
	router := redistest.NewRouter(t, redistest.OneShard, shards(t, 1)...)
	h := acquireMany(t, router, 40)
	require.True(t, h.runner.Span.CertainlySpansSlots(t.Context()))
	h.renew()
	var sent atomic.Int64
	router.InjectErrors(func([]string) string { sent.Add(1); return "LOADING the data" })
	for _, reply := range h.runner.RunByKey(t.Context(), h.batch) {
		require.ErrorContains(t, reply.Err, "LOADING")
	}
	require.EqualValues(t, 1, sent.Load())
	require.True(t, h.runner.Span.SpansSlots(t.Context()))
}

// P2: a hold that is gone is reported, by whatever way.
func TestALostHoldIsReported(t *testing.T) {
	t.Parallel()
	for name, routing := range map[string]redistest.Routing{"OneShard": redistest.OneShard, "FirstKey": redistest.FirstKey} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := shards(t, 2)
			h := acquireMany(t, redistest.NewRouter(t, routing, all...), 10)
			spans := h.runner.Span.CertainlySpansSlots(t.Context())
			for _, s := range all {
				s.MustDo(t, "DEL", h.batch.Keys[3])
			}
			for i, reply := range h.runner.RunByKey(t.Context(), h.batch) {
				require.NoError(t, reply.Err)
				require.Equal(t, i != 3, reply.Value == 1)
			}
			require.Equal(t, spans, h.runner.Span.SpansSlots(t.Context()), "a loss says nothing against the span")
		})
	}
}

func TestAClosedRunnerProbesNothing(t *testing.T) {
	t.Parallel()
	h := acquireMany(t, redistest.Start(t), 1)
	h.runner.Close()
	require.False(t, h.runner.Span.CertainlySpansSlots(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, h.runner.Span.CertainlySpansSlots(ended))
}

// failureCounter is a Watcher that counts failures.
type failureCounter struct{ failures atomic.Int64 }

func (f *failureCounter) Replied(string, string) {}

func (f *failureCounter) Failed(string, string, time.Duration, error, bool) { f.failures.Add(1) }

// P10: a probe that is refused is no outage: the log does not say that the server refuses calls.
func TestARefusedProbeIsNoFailure(t *testing.T) {
	t.Parallel()
	for name, routing := range map[string]redistest.Routing{
		"Refusing": redistest.Refusing, "OwnWords": redistest.OwnWords, "Hangup": redistest.Hangup,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runner := wire.NewRunner(redistest.NewRouter(t, routing, shards(t, 2)...).Client(t, signalbox.Tune))
			t.Cleanup(runner.Close)
			runner.Span.SetProbePrefix("sb:")
			var watcher failureCounter
			runner.Watch(&watcher)
			require.False(t, runner.Span.CertainlySpansSlots(t.Context()))
			require.Zero(t, watcher.failures.Load())
		})
	}
}
