// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

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
