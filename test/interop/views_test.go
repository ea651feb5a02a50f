// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P1, P2: Break ends the permits of both sides, and a waiter in Java acquires them. Both sides count the same then, and
// a release that comes late adds nothing.
func TestPermitsOfBothSidesAreBroken(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, g, operator := newPeer(t, release, server), newSession(t, server), newSession(t, server)
		require.Equal(t, "true", p.must(t, "a", "permit-found", "a", 4))
		java := p.must(t, "a", "permit-take", "a", 1, 60_000)
		sem := semaphore.New(g, "a", 4)
		lease, err := sem.Acquire(locktest.Context(t), 3)
		require.NoError(t, err)
		waiter := p.send("b", "permit-take", "a", 3, time.Hour.Milliseconds())
		redistest.Await(t, "a waiter", func() bool { return locktest.Listeners(t, server, "redisson_sc:{a}") == 1 })
		require.NoError(t, inspect.Break(locktest.Context(t), operator, "a"))
		ids := p.take(t, waiter)
		redistest.Receive(t, "the loss", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		require.Equal(t, "false", p.must(t, "a", "permit-give", "a", java))
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		require.Equal(t, []string{"1", "3", "4"}, []string{
			p.must(t, "a", "permit-available", "a"), p.must(t, "a", "permit-acquired", "a"), p.must(t, "a", "permit-capacity", "a"),
		})
		free, err := sem.Available(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, 1, free)
		require.Equal(t, "3", p.must(t, "a", "permit-give-all", "a", ids))
		require.Equal(t, "4", p.must(t, "a", "permit-available", "a"))
		requireKeys(t, server, "a")
	})
}
