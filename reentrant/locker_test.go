// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// panicOf answers the error that a function panics with, nil if it does not panic.
func panicOf(do func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	do()
	return nil
}

// P1: goroutines that share a Locker, and those with other Lockers of the name, exclude each other.
func TestALockerExcludesGoroutines(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	shared := reentrant.New(locktest.SteadySession(t, server), "a").Locker(t.Context())
	elsewhere := reentrant.New(locktest.SteadySession(t, server), "a").Locker(t.Context())
	count := 0
	var goroutines sync.WaitGroup
	for i := range 8 {
		var locker sync.Locker = shared
		if i%4 == 0 {
			locker = elsewhere
		}
		goroutines.Go(func() {
			for range 20 {
				locker.Lock()
				count++
				locker.Unlock()
			}
		})
	}
	goroutines.Wait()
	shared.Lock()
	require.Equal(t, 8*20, count)
	shared.Unlock()
	require.False(t, isHeld(t, server, "a"))
}

func TestALockerTellsNobodyWhereNobodyAsked(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker := reentrant.New(locktest.SteadySession(t, server), "a").Locker(t.Context())
	for _, told := range []func(error){nil, func(err error) { t.Error(err) }, nil} {
		locker.OnLost(told)
		locker.Lock()
		if told == nil {
			server.MustDo(t, "DEL", locktest.Key("a"))
		}
		locker.Unlock()
	}
}

// P2: what Unlock cannot answer goes to OnLost.
func TestALockerTellsOfALoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker := reentrant.New(locktest.SteadySession(t, server), "a").Locker(t.Context())
	var told error
	locker.OnLost(func(err error) { told = err })
	locker.Lock()
	server.MustDo(t, "DEL", locktest.Key("a"))
	locker.Unlock()
	require.ErrorIs(t, told, signalbox.ErrLost)
}

func TestALockerPanicsForMisuse(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	locker := reentrant.New(s, "a").Locker(t.Context())
	require.ErrorIs(t, panicOf(locker.Unlock), signalbox.ErrNotHeld)
	locker.Lock()
	require.True(t, isHeld(t, server, "a"))
	locker.Unlock()
	require.ErrorIs(t, panicOf(locker.Unlock), signalbox.ErrNotHeld)

	server.MustDo(t, "RPUSH", locktest.Key("list"), "x")
	closed := signalbox.NewSession(server.Client(t, signalbox.Tune))
	require.NoError(t, closed.Close(t.Context()))
	//nolint:staticcheck // the nil context is what is tested
	for name, misuse := range map[string]struct {
		locker *signalbox.Locker
		want   error
	}{
		"BadName":       {reentrant.New(s, "").Locker(t.Context()), signalbox.ErrBadName},
		"BadOption":     {reentrant.New(s, "a", signalbox.FixedLease(0)).Locker(t.Context()), signalbox.ErrBadOption},
		"NilContext":    {reentrant.New(s, "a").Locker(nil), signalbox.ErrBadOption},
		"EndedContext":  {reentrant.New(s, "a").Locker(locktest.Ended()), context.Canceled},
		"ClosedSession": {reentrant.New(closed, "a").Locker(t.Context()), signalbox.ErrClosed},
		"NilSession":    {reentrant.New(nil, "a").Locker(t.Context()), signalbox.ErrBadOption},
		"WrongKind":     {reentrant.New(s, "list").Locker(t.Context()), signalbox.ErrWrongKind},
	} {
		for range 2 { // the first panic left nothing locked
			require.ErrorIs(t, panicOf(misuse.locker.Lock), misuse.want, name)
		}
		require.ErrorIs(t, panicOf(misuse.locker.Unlock), signalbox.ErrNotHeld, name)
	}
}

// P10: an outage is waited for: it mends itself, and a sync.Locker could not tell anyway.
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
	redistest.Receive(t, "a try", ctx.Listened)
	require.False(t, locktest.IsClosed(locked))
	proxy.Accept()
	redistest.Receive(t, "the lock after the outage", locked)
	locker.Unlock()
	require.False(t, isHeld(t, server, "a"))
}

// P8: a sync.Locker knows no owner, so it never enters again.
func TestALockerLeavesCarriedLeasesAside(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	lease := locktest.Must(t, mu.Lock)
	ctx := locktest.Watch(context.WithoutCancel(lease.Enter(t.Context())))
	locker := mu.Locker(ctx)
	locked := make(chan struct{})
	go func() {
		locker.Lock()
		close(locked)
	}()
	redistest.Receive(t, "a place in the queue", ctx.Listened)
	require.False(t, locktest.IsClosed(locked))
	require.NoError(t, lease.Unlock())
	redistest.Receive(t, "the lock", locked)
	require.True(t, isHeld(t, server, "a"))
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
