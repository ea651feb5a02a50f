// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redisson"
)

// inEachLayout returns every kind of lock, in the library's own layout and in Redisson's.
func inEachLayout() map[string]func(s *signalbox.Session, options ...signalbox.LockOption) locktest.Lock {
	kinds := make(map[string]func(s *signalbox.Session, options ...signalbox.LockOption) locktest.Lock)
	for _, kind := range append(locktest.Primitives(), locktest.Reader()) {
		kinds[kind.Name] = func(s *signalbox.Session, options ...signalbox.LockOption) locktest.Lock {
			return kind.New(s, "a", options...)
		}
		kinds[kind.Name+" in Redisson's layout"] = func(s *signalbox.Session, options ...signalbox.LockOption) locktest.Lock {
			return kind.New(s, "a", append(options, signalbox.WithLayout(redisson.Layout()))...)
		}
	}
	return kinds
}

// takeOver replaces the keys of the lock "a" with lists of another program. Scripts in the library's own layout are refused in
// the words of a real server.
func (f *fixture) takeOver() {
	f.Helper()
	own := []string{locktest.Key("a"), locktest.Keys("a").Permits()}
	for _, key := range append(own, "a") {
		f.redis.Del(key)
		_, err := f.redis.RPush(key, "x")
		require.NoError(f, err)
	}
	f.refusesScripts(func(_ string, args []string) string {
		if !slices.Contains(own, args[2]) {
			return ""
		}
		return "WRONGTYPE Operation against a key holding the wrong kind of value"
	})
}

// P4, P9: a call that finds a key of another program leaves nothing to undo: the next call asks the server again, and
// Close returns at once.
func TestCallOnAForeignKeyLeavesNothingToUndo(t *testing.T) { //nolint:paralleltest // one bubble after the other
	for name, lock := range inEachLayout() { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				s, _, closeAll := f.session(f.T)
				defer closeAll()
				mu := lock(s)
				require.NoError(f, atOnce(f.T, mu).Unlock()) // the session knows the server
				f.takeOver()
				for range 2 {
					_, err := mu.Lock(f.Context())
					require.ErrorIs(f, err, signalbox.ErrWrongKind)
					_, err = mu.TryLock(f.Context())
					require.ErrorIs(f, err, signalbox.ErrWrongKind)
				}
				require.Zero(f, locktest.Undoing(s))
				began := time.Now()
				require.NoError(f, s.Close(locktest.Ended()))
				require.Zero(f, time.Since(began))
			})
		})
	}
}

// P4: a call whose reply is lost before another program takes the key is undone until nothing of it can arrive any more.
func TestLostReplyOnAForeignKeyIsResolvedInTime(t *testing.T) { //nolint:paralleltest // one bubble after the other
	for name, lock := range inEachLayout() { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				s, link, closeAll := f.session(f.T)
				defer closeAll()
				mu := lock(s)
				require.NoError(f, atOnce(f.T, mu).Unlock())
				link.swallowsReplies.Store(true)
				ctx, cancel := context.WithTimeout(f.Context(), time.Second)
				defer cancel()
				_, err := mu.TryLock(ctx)
				require.ErrorIs(f, err, context.DeadlineExceeded)
				f.takeOver()
				link.heal()
				time.Sleep(5 * time.Second) // three until it is too late, and a retry
				require.Zero(f, locktest.Undoing(s))
				_, err = mu.TryLock(f.Context())
				require.ErrorIs(f, err, signalbox.ErrWrongKind)
			})
		})
	}
}

// P4: the loss of a key that another program overwrote is reported to its holder, and leaves nothing to
// undo.
func TestHolderOfAForeignKeyLeavesNothingToUndo(t *testing.T) { //nolint:paralleltest // one bubble after the other
	for _, kind := range append(locktest.Primitives(), locktest.Reader()) { //nolint:paralleltest // as above
		t.Run(kind.Name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				s, _, closeAll := f.session(f.T)
				defer closeAll()
				mu := kind.New(s, "a")
				lease := atOnce(f.T, mu)
				f.takeOver()
				<-lease.Done()
				time.Sleep(time.Second)
				require.Zero(f, locktest.Undoing(s))
				_, err := mu.TryLock(f.Context())
				require.ErrorIs(f, err, signalbox.ErrWrongKind)
			})
		})
	}
}
