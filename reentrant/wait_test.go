// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// countLooks counts the looks that pass a proxy.
func countLooks(proxy *redistest.Proxy) *atomic.Int64 {
	var looks atomic.Int64
	proxy.SetMatch(func(request []string) bool {
		if len(request) > 1 && (request[1] == scripts.ReentrantLook.SHA1 || request[1] == scripts.ReentrantLook.Source) {
			looks.Add(1)
		}
		return len(request) > 0 && request[0] == "SUBSCRIBE"
	})
	return &looks
}

// releaseAtSubscription gives a lock back when somebody is about to subscribe to its channel, once.
func releaseAtSubscription(proxy *redistest.Proxy, holder signalbox.Lease, name string) <-chan error {
	released, once := make(chan error, 1), sync.Once{}
	proxy.OnRequest(func(_ int, request []string) {
		if slices.Contains(request, "sb:{"+name+"}:lock:unlocked") {
			once.Do(func() { released <- holder.Unlock() })
		}
	})
	return released
}

// P6: a release between a waiter's try and its subscription is not lost: it is found free as the
// subscription is confirmed, not by a look a second later.
func TestAReleaseBetweenTryAndSubscriptionIsNotLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holding, looks, n := newSession(t, server), countLooks(proxy), 0
	// A machine that stalls for a second looks meanwhile, and may need another try.
	await(t, "a lock that was found free by no look", func() bool {
		n++
		name, before := fmt.Sprint(n), looks.Load()
		holder := mustLock(t, reentrant.New(holding, name))
		released := releaseAtSubscription(proxy, holder, name)
		lease := mustLock(t, reentrant.New(newSession(t, proxy), name))
		require.NoError(t, within(t, "the release", released))
		require.NoError(t, lease.Unlock())
		return looks.Load() == before
	})
}

// P6: nor is a release while the subscription is broken.
func TestAReleaseWhileTheSubscriptionIsBrokenIsNotLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holding, looks, n := newSession(t, server), countLooks(proxy), 0
	// A machine that stalls for a second looks meanwhile, and may need another try.
	await(t, "a lock that was found free by no look", func() bool {
		n++
		name := fmt.Sprint(n)
		holder := mustLock(t, reentrant.New(holding, name))
		waiting := contend(t.Context(), t, server, reentrant.New(newSession(t, proxy), name), name)
		before, released := looks.Load(), releaseAtSubscription(proxy, holder, name)
		server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		got := within(t, "the lock", waiting)
		require.NoError(t, got.err)
		require.NoError(t, within(t, "the release", released))
		require.NoError(t, got.lease.Unlock())
		return looks.Load() == before
	})
}

// P6: where messages vanish a look finds the lock free within about a second.
func TestALookFindsTheLockWhereTheMessageVanishes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holder := mustLock(t, reentrant.New(newSession(t, server), "a"))
	looks := countLooks(proxy)
	waiting := contend(t.Context(), t, server, reentrant.New(newSession(t, proxy), "a"), "a")
	await(t, "both tries of the waiter", func() bool { return server.CommandStats()["pttl"].Calls >= 2 })
	proxy.DropPushes(true)
	require.NoError(t, holder.Unlock())
	released := time.Now()
	got := within(t, "the lock", waiting)
	require.NoError(t, got.err)
	require.Positive(t, looks.Load())
	require.Less(t, time.Since(released), 15*time.Second, "the holder's key would have been there for longer")
	require.NoError(t, got.lease.Unlock())
}

// P6: a session that polls gets the lock too, and hears no message.
func TestAPollingSessionTakesTheLockWithoutSubscribing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := mustLock(t, reentrant.New(newPoller(t, server), "a"))
	waiting := lockLater(t.Context(), reentrant.New(newPoller(t, server), "a"))
	await(t, "a few tries", func() bool { return server.CommandStats()["pttl"].Calls >= 3 })
	require.NoError(t, holder.Unlock())
	got := within(t, "the lock", waiting)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock())
	require.Zero(t, server.CommandStats()["subscribe"].Calls)
}

// P7: many waiters of one session are one waiter to the server.
func TestManyWaitersOfASessionAreOneToTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := mustLock(t, reentrant.New(newSession(t, server), "a"))
	mu := reentrant.New(newSession(t, server), "a")
	ctx, cancel := context.WithCancel(t.Context())
	waiting := []<-chan outcome{contend(ctx, t, server, mu, "a")}
	sent := sentBy(server, func() {
		for range 50 {
			waiting = append(waiting, queue(ctx, t, mu))
		}
	})
	require.Less(t, sent["get"], int64(25), "a try of the contender's, and a look now and then")
	require.Equal(t, int64(1), subscribers(t, server, "a"))
	cancel()
	for _, w := range waiting {
		require.ErrorIs(t, within(t, "the end of a wait", w).err, context.Canceled)
	}
	require.NoError(t, holder.Unlock())
}
