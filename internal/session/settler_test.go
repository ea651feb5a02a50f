// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// asking answers a settlement that asks the server for its time, and counts the answers.
func asking(answers *atomic.Int64, until time.Duration, again ...time.Duration) *session.Settlement {
	return &session.Settlement{
		Call:  wire.Call{Script: scripts.SessionHello, Keys: []string{"sb:{a}:lock"}},
		Until: clock.Now().Add(until),
		Settled: func(wire.Reply) time.Duration {
			n := answers.Add(1)
			if int(n) <= len(again) {
				return again[n-1]
			}
			return 0
		},
	}
}

// P5: what has no known outcome is asked again as often as the answers say, and no more.
func TestASettlementIsRepeatedUntilItIsSettled(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	var answers atomic.Int64
	s.Settler.Settle(asking(&answers, time.Hour, time.Millisecond, 20*time.Millisecond))
	await(t, "the end of the settlement", func() bool { return s.Settler.Open() == 0 })
	require.Equal(t, int64(3), answers.Load())
}

// P4: while the server is away it is tried again, and settled when the server is back.
func TestASettlementOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newSession(t, proxy)
	cut := proxy.Arm(redistest.Fault{Kind: redistest.CutBeforeRequest})
	var answers atomic.Int64
	s.Settler.Settle(asking(&answers, time.Hour))
	within(t, "a try that fails", cut.Fired())
	await(t, "the end of the settlement", func() bool { return s.Settler.Open() == 0 })
	require.Equal(t, int64(1), answers.Load())
}

// P4: it is given up when the key has ended by itself.
func TestASettlementIsGivenUpWhenTheKeyHasEnded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newSession(t, proxy)
	proxy.Refuse()
	proxy.CutAll()
	var answers atomic.Int64
	s.Settler.Settle(asking(&answers, 50*time.Millisecond))
	await(t, "the end of the settlement", func() bool { return s.Settler.Open() == 0 })
	require.Zero(t, answers.Load())
}

// P4: Close waits until everything is settled.
func TestCloseWaitsForSettlements(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	var answers atomic.Int64
	for range 300 { // more than one pipeline
		s.Settler.Settle(asking(&answers, time.Hour))
	}
	require.NoError(t, s.Close(t.Context()))
	require.Zero(t, s.Settler.Open())
	require.Equal(t, int64(300), answers.Load())
}

// P6: but no longer than its context lets it, plus a second, where the server is silent.
func TestCloseGivesSettlementsUpWhereTheServerIsSilent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	require.NoError(t, s.Meet(t.Context(), "sb:{a}:lock"))
	server.Freeze()
	var answers atomic.Int64
	s.Settler.Settle(asking(&answers, time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = s.Close(ctx)
	require.Less(t, time.Since(began), 3*time.Second)
	server.Thaw()
}
