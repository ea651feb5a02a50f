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
			clock := redistest.NewClock(t)
			clock.Set(t, ahead)
			server := redistest.Start(t, redistest.WithClock(clock))
			view := locktest.NewView(t, server)
			locktest.Each(t, func(t *testing.T, p locktest.Primitive) {
				one := p.New(locktest.SteadySession(t, server), p.Name, signalbox.WithRenewedLease(clockLease))
				other := p.New(locktest.SteadySession(t, server), p.Name, signalbox.WithRenewedLease(clockLease))
				var last uint64
				for range 3 {
					lease := locktest.Must(t, one.Lock)
					require.Greater(t, lease.Token(), last)
					deadline := lease.Deadline()
					left := view.MustHold(t, p.Name).Ends.Sub(locktest.ServerTime(t, server))
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

// P2, P3, P6: the clock of a real server is set while each kind of lock is held. Set back, a hold ends one lease after
// another session has asked for it; set forward beyond its lease, at once, its holder learns it, and the next token is
// greater. Package virtual has the waits themselves.
func TestAServersClockIsSetWhileALockIsHeld(t *testing.T) {
	t.Parallel()
	redistest.NeedClocks(t)
	for name, step := range map[string]time.Duration{"Forwards": 100 * time.Second, "Back": -100 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Each(t, func(t *testing.T, p locktest.Primitive) {
				clock := redistest.NewClock(t)
				server := redistest.Start(t, redistest.WithClock(clock))
				view := locktest.NewView(t, server)
				lease := locktest.Must(t, p.New(locktest.SteadySession(t, server), p.Name, signalbox.WithFixedLease(clockLease)).Lock)
				other := p.New(locktest.SteadySession(t, server), p.Name, signalbox.WithRenewedLease(clockLease))
				clock.Set(t, step)
				next, err := other.TryLock(locktest.Context(t))
				if step < 0 {
					require.ErrorIs(t, err, signalbox.ErrHeld)
					left := view.MustHold(t, p.Name).Ends.Sub(locktest.ServerTime(t, server))
					require.LessOrEqual(t, left, clockLease)
					require.False(t, time.Now().Add(left).Before(lease.Deadline()), "it ends there first")
					require.NoError(t, lease.Unlock())
					next = locktest.Must(t, other.Lock)
				} else {
					require.NoError(t, err)
					require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
				}
				require.Greater(t, next.Token(), lease.Token())
				require.NoError(t, next.Unlock())
			})
		})
	}
}
