// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// protocolDialer makes clients of a topology in one version of the protocol.
type protocolDialer struct {
	redistest.Topology

	protocol redistest.Protocol
}

// Client shadows that of the topology.
func (p protocolDialer) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return p.Topology.Client(tb, func(o *rueidis.ClientOption) {
		mod(o)
		p.protocol.Set(o)
	})
}

// P9: a latch works on every topology, in both versions of the protocol, whatever its name: key and channel share a slot, also if
// the name has a tag of its own.
func TestALatchWorksEverywhere(t *testing.T) {
	t.Parallel()
	redistest.NeedServer(t)
	for _, starter := range redistest.Topologies() {
		t.Run(starter.Name, func(t *testing.T) {
			t.Parallel()
			top, err := starter.Start(redistest.WithFailoverAfter(calm))
			require.NoError(t, err)
			t.Cleanup(top.Close)
			for _, protocol := range redistest.Protocols() {
				t.Run(protocol.Name, func(t *testing.T) {
					at := protocolDialer{top, protocol}
					one, other := locktest.Session(t, at), locktest.Session(t, at)
					for _, name := range []string{"plain", "{tag}rest", "a{b}c", "{", "}{", "{}", "a}"} {
						playRounds(t, one, other, protocol.Name+name)
					}
				})
			}
		})
	}
}

// playRounds opens rounds and resets some, while the other session waits.
func playRounds(t *testing.T, one, other *signalbox.Session, name string) {
	t.Helper()
	l, theirs := countdown.New(one, name), countdown.New(other, name)
	for i := range 3 {
		r := mustStart(t, l, 2)
		joined, err := theirs.Round(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, r.ID(), joined.ID())
		waited := make(chan error, 1)
		ctx := locktest.Context(t)
		go func() { waited <- joined.Wait(ctx) }()
		if i%3 == 2 {
			require.NoError(t, l.Reset(locktest.Context(t)))
			require.ErrorIs(t, <-waited, signalbox.ErrReset)
			continue
		}
		for n, round := range []countdown.Round{r, joined} {
			left, err := round.CountDown(locktest.Context(t), fmt.Sprint(n))
			require.NoError(t, err)
			require.Equal(t, 1-n, left)
		}
		require.NoError(t, <-waited)
	}
}

// P6: a failover that loses nothing loses no round: waiters continue to wait, and are notified.
func TestAFailoverThatLosesNothingLosesNoRound(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a failover by sentinels")
	behind := redistest.StartSentinel(t, redistest.WithFailoverAfter(calm))
	one, other := locktest.Session(t, behind), locktest.Session(t, behind)
	r := mustStart(t, countdown.New(one, "a"), 2)
	waited := make(chan error, 1)
	ctx := long(t)
	go func() { waited <- countdown.New(other, "a").RoundOf(r.ID()).Wait(ctx) }()
	left, err := r.CountDown(locktest.Context(t), "x")
	require.NoError(t, err)
	require.Equal(t, 1, left)
	first := behind.Primary(t)
	first.AwaitCopied(t, behind.Replica(t))
	behind.Sentinels()[0].MustDo(t, "SENTINEL", "FAILOVER", redistest.MasterSet)
	behind.AwaitFailover(t, first)
	behind.AwaitReady(t) // until the old one learns its new role, it accepts writes that will be lost
	require.Empty(t, waited)
	for i, id := range []string{"x", "y"} {
		left, err = r.CountDown(ctx, id)
		require.NoError(t, err)
		require.Equal(t, 1-i, left)
	}
	require.NoError(t, <-waited)
}
