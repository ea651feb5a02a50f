// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/setnx"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

// inLayouts runs a test with each kind of lock in the layouts of other clients.
func inLayouts(t *testing.T, test func(t *testing.T, kit *signalboxtest.Kit, s *signalbox.Session, lock func(*signalbox.Session) Lock)) {
	t.Helper()
	redisson, setNX := redisson.Layout(), setnx.Layout()
	for what, c := range map[string]struct {
		in   signalbox.Layout
		lock func(*signalbox.Session) Lock
	}{
		"SetNX":            {setNX, func(s *signalbox.Session) Lock { return reentrant.New(s, name, signalbox.WithLayout(setNX)) }},
		"RLock":            {redisson, func(s *signalbox.Session) Lock { return reentrant.New(s, name, signalbox.WithLayout(redisson)) }},
		"RedissonFairLock": {redisson, func(s *signalbox.Session) Lock { return fair.New(s, name, signalbox.WithLayout(redisson)) }},
		"RReadWriteLock":   {redisson, func(s *signalbox.Session) Lock { return rwlock.New(s, name, signalbox.WithLayout(redisson)) }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				kit := signalboxtest.New(t)
				test(t, kit.In(c.in), kit.Session(), c.lock)
				require.False(t, kit.IsHeld(name), "a lock in another layout is another lock")
			})
		})
	}
}

func TestAnotherProcessHoldsALockInALayout(t *testing.T) {
	t.Parallel()
	inLayouts(t, func(t *testing.T, kit *signalboxtest.Kit, s *signalbox.Session, lock func(*signalbox.Session) Lock) {
		if _, is := lock(s).(*rwlock.Lock); is {
			t.Skip("it is held with Writing")
		}
		other := kit.Hold(name)
		require.True(t, kit.IsHeld(name))
		require.False(t, kit.HeldBy(name, s))
		_, err := lock(s).TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
		other.Release()
		kit.Advance(time.Millisecond) // tokens are the server's clock
		lease, err := lock(s).TryLock(t.Context())
		require.NoError(t, err)
		require.Greater(t, lease.Token(), other.Token())
		require.True(t, kit.HeldBy(name, s))
		require.NoError(t, lease.Unlock())
		require.False(t, kit.IsHeld(name))
	})
}

// P2, P3: a lock in a layout of other clients can be lost as any other.
func TestALockInALayoutIsLost(t *testing.T) {
	t.Parallel()
	inLayouts(t, func(t *testing.T, kit *signalboxtest.Kit, s *signalbox.Session, lock func(*signalbox.Session) Lock) {
		lease, err := lock(s).TryLock(t.Context())
		require.NoError(t, err)
		other := kit.Lose(name)
		<-lease.Done()
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		require.Greater(t, other.Token(), lease.Token())
		other.Release()

		synctest.Wait() // the lost hold has left its session: until then TryLock does not ask the server
		lease, err = lock(s).TryLock(t.Context())
		require.NoError(t, err)
		kit.Expire(name)
		require.NoError(t, lease.Err(), "it does not know")
		require.False(t, kit.IsHeld(name))
		kit.Advance(15 * time.Second)
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	})
}

// A lock that is held in its old layout and in its new one can be lost in either.
func TestAMoveBetweenLayoutsIsTested(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		s := kit.Session()
		moving := multilock.New(reentrant.New(s, name, signalbox.WithLayout(setnx.Layout())), reentrant.New(s, name))
		for _, k := range []*signalboxtest.Kit{kit, kit.In(setnx.Layout())} {
			require.ErrorIs(t, moving.Do(t.Context(), func(ctx context.Context, _ signalbox.Lease) error {
				require.True(t, kit.HeldBy(name, s))
				require.True(t, kit.In(setnx.Layout()).HeldBy(name, s))
				k.Lose(name).Release()
				<-ctx.Done()
				return nil
			}), signalbox.ErrLost)
		}
	})
}
