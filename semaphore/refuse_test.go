// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P6: Close sends those away who only wait for another of their session, though its call is not answered.
func TestCloseSendsThoseAwayWhoWaitForACallThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := signalbox.NewSession(proxy.Client(t, func(o *rueidis.ClientOption) {
		o.ConnWriteTimeout, o.Dialer.KeepAlive = time.Hour, time.Hour // it gives no call up by itself
		signalbox.Tune(o)
	}))
	sem := semaphore.New(s, "a", 1)
	held := mustAcquire(t, semaphore.New(newSession(t, server), "a", 1), 1)
	waiting := crowd(t, server, sem, 3)
	requests(proxy, scripts.SemaphoreEnter)
	proxy.ResetCount()
	struck := proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest})
	require.NoError(t, held.Unlock())
	lease := mustHave(t, waiting[0])
	within(t, "the call of the last, which seeks", struck.Fired())
	require.Error(t, s.Close(endedContext()))
	require.ErrorIs(t, lease.Err(), signalbox.ErrClosed)
	require.ErrorIs(t, within(t, "the end of its wait", waiting[1]).err, signalbox.ErrClosed)
	require.False(t, isClosed(waiting[2]), "nothing answers its call")
	proxy.Disarm()
	proxy.CutAll()
	require.ErrorIs(t, within(t, "the end of its call", waiting[2]).err, signalbox.ErrClosed)
}
