// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P6: a message wakes every waiter of its channel, and no other one.
func TestMessageWakesTheWaitersOfItsChannel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := newDispatcher(t, steady(t, server), io.Discard)
	a := targetOf(t, "a")
	first, other := subscribed(t, d, a), subscribed(t, d, targetOf(t, "b"))
	second := subscribed(t, d, a) // woken at once: the channel is subscribed to already
	server.MustDo(t, "PUBLISH", a.Channel, "1")
	redistest.Receive(t, "the first waiter's wake-up", first.C)
	redistest.Receive(t, "the second waiter's wake-up", second.C)
	require.False(t, locktest.IsClosed(other.C))

	first.Close()
	first.Close() // twice is fine
	server.MustDo(t, "PUBLISH", a.Channel, "1")
	redistest.Receive(t, "the wake-up of who is left", second.C)
	require.False(t, locktest.IsClosed(first.C))
	require.Equal(t, int64(2), server.CommandStats()["subscribe"].Calls, "one a channel")
}

// P6: after a break the subscription is made anew, and all waiters poll again: no waiter received the
// releases meanwhile.
func TestRenewedSubscriptionWakesAllWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var log syncLog
	d := newDispatcher(t, steady(t, server), &log)
	waits := []*notify.Wait{subscribed(t, d, targetOf(t, "a")), subscribed(t, d, targetOf(t, "b")), subscribed(t, d, targetOf(t, "b"))}
	for range 2 {
		server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		for _, w := range waits {
			redistest.Receive(t, "a wake-up after the break", w.C)
		}
		for _, name := range []string{"a", "b"} {
			require.Equal(t, 1, locktest.Listeners(t, server, targetOf(t, name).Channel))
		}
	}
	require.Zero(t, server.CommandStats()["evalsha"].Calls)
	redistest.Await(t, "a report of the break", func() bool { return strings.Contains(log.String(), "lost: ") })
}

// P6: a waiter that does not receive its wake-ups delays no other waiter, and has one in the end.
func TestSlowWaiterBlocksNoOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := newDispatcher(t, steady(t, server), io.Discard)
	a := targetOf(t, "a")
	slow, fast, elsewhere := subscribed(t, d, a), subscribed(t, d, a), subscribed(t, d, targetOf(t, "b"))
	for range 100 {
		server.MustDo(t, "PUBLISH", a.Channel, "1")
		redistest.Receive(t, "the fast waiter's wake-up", fast.C)
		server.MustDo(t, "PUBLISH", targetOf(t, "b").Channel, "1")
		redistest.Receive(t, "the wake-up of another channel's waiter", elsewhere.C)
	}
	require.True(t, locktest.IsClosed(slow.C))
	require.False(t, locktest.IsClosed(slow.C), "wake-ups coalesce")
}

// P6: a waiter that registers on a subscribed channel before the first try misses nothing, and has no needless
// wake-up.
func TestWaitIfSubscribedRegistersOnASubscribedChannel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := newDispatcher(t, steady(t, server), io.Discard)
	a := targetOf(t, "a")
	require.Nil(t, d.WaitIfSubscribed(a))
	first := subscribed(t, d, a)
	require.Nil(t, d.WaitIfSubscribed(targetOf(t, "b")))
	second := d.WaitIfSubscribed(a)
	require.NotNil(t, second)
	require.False(t, locktest.IsClosed(second.C))
	server.MustDo(t, "PUBLISH", a.Channel, "1")
	redistest.Receive(t, "the first waiter's wake-up", first.C)
	redistest.Receive(t, "the second waiter's wake-up", second.C)
}
