// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

func TestALockerWithoutOnLostReportsNoLoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker := reentrant.New(locktest.SteadySession(t, server), "a").Locker(t.Context())
	for _, onLost := range []func(error){nil, func(err error) { t.Error(err) }, nil} {
		locker.OnLost(onLost)
		locker.Lock()
		if onLost == nil {
			server.MustDo(t, "DEL", locktest.Key("a"))
		}
		locker.Unlock()
	}
}

// P10: a Lock waits for the end of an outage, since a sync.Locker cannot return an error.
func TestALockerWaitsThroughAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	ctx := locktest.Watch(t.Context())
	locker := reentrant.New(locktest.SteadySession(t, proxy), "a").Locker(ctx)
	proxy.Refuse()
	proxy.CutAll()
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		locker.Lock()
	}()
	redistest.Receive(t, "a try", ctx.Waiting)
	require.False(t, locktest.IsClosed(locked))
	proxy.Accept()
	redistest.Receive(t, "the lock after the outage", locked)
	locker.Unlock()
	require.False(t, isHeld(t, server, "a"))
}

// P1: they do so even if the lease is lost in between.
func TestALockersGoroutinesExcludeEachOtherAfterALoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	locker := mu.Locker(t.Context())
	lost := make(chan error, 2)
	locker.OnLost(func(err error) { lost <- err })
	locker.Lock()
	inside := true // guarded by the lock under test
	entered := make(chan bool)
	go func() {
		locker.Lock()
		defer locker.Unlock()
		entered <- inside
	}()
	require.NoError(t, mu.ForceUnlock(t.Context()))
	lease := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	require.NoError(t, lease.Unlock())
	inside = false
	locker.Unlock()
	require.False(t, redistest.Receive(t, "the next goroutine", entered))
	require.ErrorIs(t, redistest.Receive(t, "the loss", lost), signalbox.ErrLost)
}
