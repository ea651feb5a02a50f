// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

const (
	off        = time.Minute // how far a clock is from ours
	clockLease = time.Minute
)

// P1, P2, P3: a server whose clock is a minute from that of its clients serves every kind of lock as any other does: a hold
// ends there after the lease here and no minute later, waiters are kept out and let in, and tokens rise.
func TestAServersClockIsAMinuteOff(t *testing.T) {
	t.Parallel()
	redistest.NeedClocks(t)
	for name, ahead := range map[string]time.Duration{"Ahead": off, "Behind": -off} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.WithClockAhead(ahead))
			view := locktest.NewView(t, server)
			locktest.Each(t, func(t *testing.T, p locktest.Primitive) {
				one := p.New(locktest.SteadySession(t, server), p.Name, signalbox.WithRenewedLease(clockLease))
				other := p.New(locktest.SteadySession(t, server), p.Name, signalbox.WithRenewedLease(clockLease))
				var last uint64
				for range 3 {
					lease := locktest.Must(t, one.Lock)
					require.Greater(t, lease.Token(), last)
					deadline := lease.Deadline()
					left := view.MustHold(t, p.Name).Ends.Sub(view.Now(t))
					require.LessOrEqual(t, left, clockLease)
					require.False(t, time.Now().Add(left).Before(deadline), "it ends there first")
					waiting := locktest.LaterWith(locktest.Context(t), other.Lock)
					_, err := p.New(locktest.SteadySession(t, server), p.Name).TryLock(locktest.Context(t))
					require.ErrorIs(t, err, signalbox.ErrHeld)
					require.False(t, locktest.IsClosed(waiting), "held by two")
					require.NoError(t, lease.Unlock())
					next := locktest.MustHave(t, waiting)
					require.Greater(t, next.Token(), lease.Token())
					last = next.Token()
					require.NoError(t, next.Unlock())
				}
			})
		})
	}
}
