// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P3: a held lock is held for every session, and the next holder has a greater token.
func TestALockIsAcquiredTriedAndReleased(t *testing.T) {
	t.Parallel()
	everywhere(t, func(f *fixture) {
		name := f.name()
		one, other := f.lock(name), f.lock(name)

		first := f.mustLock(locktest.Context(f), one)
		require.NoError(f, first.Err())
		f.mustBeHeld(one)
		f.mustBeHeld(other)
		require.False(f, f.isFree(name))
		require.NoError(f, first.Unlock())
		require.True(f, f.isFree(name))
		require.ErrorIs(f, first.Unlock(), signalbox.ErrNotHeld)

		second, err := other.TryLock(locktest.Context(f))
		require.NoError(f, err)
		require.Greater(f, second.Token(), first.Token())
		f.mustBeHeld(one)
		require.NoError(f, second.Unlock())
	})
}

// P1, P3: while holders of two sessions take turns, no two overlap, and tokens grow.
func TestTwoSessionsExcludeEachOther(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 4, 4
	everywhere(t, func(f *fixture) {
		name := f.name()
		lockers := []locktest.Lock{f.lock(name), f.lock(name)}
		var inside atomic.Int32
		var last atomic.Uint64
		locktest.Together(f, goroutines, func(i int) error {
			for range rounds {
				err := lockers[i%2].Do(locktest.Context(f), func(_ context.Context, lease signalbox.Lease) error {
					if inside.Add(1) != 1 {
						return errors.New("two holders at once")
					}
					if before := last.Swap(lease.Token()); before >= lease.Token() {
						return errors.New("a token that is not greater")
					}
					inside.Add(-1)
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// P6: a waiter is woken by the message of the unlock. Its first poll comes four fifths of a second after it began to wait
// at the earliest, so a wake-up before that was no poll's. The waiter's channel is subscribed to since the round before, so
// that no confirmation wakes it either. A machine that stalls needs more rounds.
func TestAnUnlockWakesTheWaiterOfAnotherSession(t *testing.T) {
	t.Parallel()
	const firstPoll = 800 * time.Millisecond
	everywhere(t, func(f *fixture) {
		name := f.name()
		mine, theirs := f.lock(name), f.session()
		round := 0
		redistest.Await(f, "a wake-up that no poll explains", func() bool {
			round++
			held := f.mustLock(locktest.Context(f), mine)
			began := time.Now()
			woken := locktest.LaterWith(locktest.Context(f), f.kind.New(theirs, name).Lock)
			redistest.Await(f, "a waiter that the server knows of", func() bool { return f.knows(name, theirs) })
			_ = held.Unlock() // which a machine that stalls for long enough has lost
			next := locktest.MustHave(f, woken)
			quick := time.Since(began) < firstPoll
			require.Greater(f, next.Token(), held.Token())
			_ = next.Unlock()
			return quick && round > 1
		})
	})
}

// P3: a holder enters its lock again by the context of its lease.
func TestAHolderEntersAgain(t *testing.T) {
	t.Parallel()
	everywhereOf(t, locktest.Locks(), func(f *fixture) {
		name := f.name()
		mine, other := f.lock(name), f.lock(name)
		err := mine.Do(locktest.Context(f), func(ctx context.Context, outer signalbox.Lease) error {
			again := f.mustLock(ctx, mine)
			require.Equal(f, outer.Token(), again.Token())
			tried, err := mine.TryLock(again.Enter(ctx))
			require.NoError(f, err)
			require.NoError(f, tried.Unlock())
			require.NoError(f, again.Unlock())
			require.NoError(f, outer.Err())
			f.mustBeHeld(other)
			return nil
		})
		require.NoError(f, err)
		require.True(f, f.isFree(name))
	})
}

// P9: a key that is no lock's is refused, and stays as it is.
func TestAForeignKeyIsRefusedAndUntouched(t *testing.T) {
	t.Parallel()
	everywhere(t, func(f *fixture) {
		name := f.name()
		l := f.lock(name)
		require.NoError(f, f.query(name, "SET", "mine").Error())
		_, err := l.TryLock(locktest.Context(f))
		require.ErrorIs(f, err, signalbox.ErrWrongKind)
		_, err = l.Lock(locktest.Context(f))
		require.ErrorIs(f, err, signalbox.ErrWrongKind)
		require.Equal(f, "mine", f.value(name))
		require.Equal(f, []string{f.kind.Key(name)}, f.immortal(name))
		require.NoError(f, f.query(name, "DEL").Error())
	})
}
