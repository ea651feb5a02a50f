// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P4, P5: an acquire whose reply never came, or that reaches the server after its caller has given
// up, is taken back.
func TestAnAcquireWithoutAReplyIsUndone(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(proxy *redistest.Proxy, struck, given chan struct{}){
		"ReplyLost": func(proxy *redistest.Proxy, struck, _ chan struct{}) {
			proxy.OnRequest(func(order int, _ []string) {
				if order == 1 {
					close(struck)
				}
			})
			proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
		},
		"RequestLate": func(proxy *redistest.Proxy, struck, given chan struct{}) {
			proxy.OnRequest(func(order int, _ []string) {
				if order == 1 {
					close(struck)
					<-given
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			mu := reentrant.New(locktest.SteadySession(t, proxy), "a")
			require.NoError(t, locktest.Must(t, mu.Lock).Unlock())
			matchAcquires(proxy)
			struck, given := make(chan struct{}), make(chan struct{})
			strike(proxy, struck, given)
			ctx, cancel := context.WithCancel(t.Context())
			trying := locktest.LaterWith(ctx, mu.TryLock)
			redistest.Receive(t, "the fault", struck)
			cancel()
			require.Error(t, locktest.MustFail(t, trying))
			close(given)
			lease := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
			require.NoError(t, lease.Unlock())
			redistest.Await(t, "a free lock", func() bool { return !isHeld(t, server, "a") })
		})
	}
}

// P5: a Lock whose reply was lost is held once: one Unlock frees it.
func TestALockWhoseReplyWasLostIsHeldOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	lease := locksWithoutReply(t, proxy, reentrant.New(locktest.SteadySession(t, proxy), "a"))
	require.Equal(t, lease.Token(), requireHolder(t, reentrant.New(locktest.SteadySession(t, server), "a")).Token)
	require.NoError(t, lease.Unlock())
	redistest.Await(t, "a free lock", func() bool { return !isHeld(t, server, "a") })
}

// A call without the lease's context says that its own session has the lock, and how the holder enters it again.
func TestALockThatTheSessionHoldsIsSaidToBe(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	mu := reentrant.New(s, "a")
	lease := locktest.Must(t, mu.Lock)
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorContains(t, err, "by this session; its holder enters it again by the context of Lease.Enter")
	require.NoError(t, lease.Unlock())
}
