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
	everywhere(t, func(w *fixture) {
		name := w.name()
		one, other := w.lock(name), w.lock(name)

		first := w.mustLock(locktest.Context(w), one)
		require.NoError(w, first.Err())
		w.mustBeHeld(one)
		w.mustBeHeld(other)
		require.False(w, w.isFree(name))
		require.NoError(w, first.Unlock())
		require.True(w, w.isFree(name))
		require.ErrorIs(w, first.Unlock(), signalbox.ErrNotHeld)

		second, err := other.TryLock(locktest.Context(w))
		require.NoError(w, err)
		require.Greater(w, second.Token(), first.Token())
		w.mustBeHeld(one)
		require.NoError(w, second.Unlock())
	})
}

// P1, P3: while holders of two sessions take turns, no two overlap, and tokens grow.
func TestTwoSessionsExcludeEachOther(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 4, 4
	everywhere(t, func(w *fixture) {
		name := w.name()
		lockers := []locktest.Lock{w.lock(name), w.lock(name)}
		var inside atomic.Int32
		var last atomic.Uint64
		locktest.Together(w, goroutines, func(i int) error {
			for range rounds {
				err := lockers[i%2].Do(locktest.Context(w), func(_ context.Context, lease signalbox.Lease) error {
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
	everywhere(t, func(w *fixture) {
		name := w.name()
		mine, theirs := w.lock(name), w.session()
		round := 0
		redistest.AwaitFor(w, 3*redistest.Patience, "a wake-up that no poll explains", func() bool {
			round++
			held := w.mustLock(locktest.Context(w), mine)
			began := time.Now()
			woken := locktest.LaterWith(locktest.Context(w), w.kind.New(theirs, name).Lock)
			redistest.Await(w, "a waiter that the server knows of", func() bool { return w.knows(name, theirs) })
			_ = held.Unlock() // which a machine that stalls for long enough has lost
			next := locktest.MustHave(w, woken)
			quick := time.Since(began) < firstPoll
			require.Greater(w, next.Token(), held.Token())
			_ = next.Unlock()
			return quick && round > 1
		})
	})
}

// P3: a holder enters its lock again by the context of its lease.
func TestAHolderEntersAgain(t *testing.T) {
	t.Parallel()
	everywhereOf(t, locktest.Locks(), func(w *fixture) {
		name := w.name()
		mine, other := w.lock(name), w.lock(name)
		err := mine.Do(locktest.Context(w), func(ctx context.Context, outer signalbox.Lease) error {
			again := w.mustLock(ctx, mine)
			require.Equal(w, outer.Token(), again.Token())
			tried, err := mine.TryLock(again.Enter(ctx))
			require.NoError(w, err)
			require.NoError(w, tried.Unlock())
			require.NoError(w, again.Unlock())
			require.NoError(w, outer.Err())
			w.mustBeHeld(other)
			return nil
		})
		require.NoError(w, err)
		require.True(w, w.isFree(name))
	})
}

// P9: a key that is no lock's is refused, and stays as it is.
func TestAForeignKeyIsRefusedAndUntouched(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *fixture) {
		name := w.name()
		l := w.lock(name)
		require.NoError(w, w.query(name, "SET", "mine").Error())
		_, err := l.TryLock(locktest.Context(w))
		require.ErrorIs(w, err, signalbox.ErrWrongKind)
		_, err = l.Lock(locktest.Context(w))
		require.ErrorIs(w, err, signalbox.ErrWrongKind)
		require.Equal(w, "mine", w.value(name))
		require.Equal(w, []string{w.kind.Key(name)}, w.immortal(name))
		require.NoError(w, w.query(name, "DEL").Error())
	})
}
