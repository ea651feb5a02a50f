// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
)

// P9: locks of all kinds keep each other out while one is held or queued for.
func TestAnotherKindsLockIsErrWrongKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []locktest.Primitive{locktest.Reentrant(), locktest.Fair()} {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			w := here(t)
			other, mu := kind.New(w.session(), w.name), w.lock()
			lease, err := other.Lock(t.Context())
			require.NoError(t, err)
			for _, take := range []side{tryWrite, tryRead, write, read} {
				_, err := take(mu, t.Context())
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
				require.ErrorContains(t, err, "("+kind.Name+")")
			}
			require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrWrongKind)
			require.Zero(t, w.inLine())
			require.Zero(t, mu.Rooms())
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock())

			for _, side := range []side{write, read} {
				ours := must(t, mu, side)
				require.Greater(t, ours.Token(), lease.Token(), "the floor is that of the name")
				_, err = other.Lock(t.Context())
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
				require.NoError(t, ours.Unlock())
				lease, err = other.Lock(t.Context())
				require.NoError(t, err)
				require.Greater(t, lease.Token(), ours.Token())
				require.NoError(t, lease.Unlock())
			}
		})
	}
}

// P9: somebody else's key is an error at once, and stays as it is.
func TestAForeignKeyIsErrWrongKindAndUntouched(t *testing.T) {
	t.Parallel()
	for name, set := range map[string][]any{
		"string": {"SET", "x"}, "garbage": {"SET", "sb1-garbage"}, "later": {"SET", "sb2w0123456789012345"},
		"list": {"RPUSH", "x", "y"}, "zset": {"ZADD", 1, "x"}, "semaphore": {"ZADD", 1, "sb1s"}, "hash": {"HSET", "x", "y"},
		"redisson": {"HSET", "mode", "read", "0123:1", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := here(t)
			key := w.key()
			w.server.MustDo(t, append([]any{set[0], key}, set[1:]...)...)
			before := w.server.MustDo(t, "DUMP", key)
			mu := w.lock()
			for _, take := range []side{tryWrite, tryRead, write, read} {
				_, err := take(mu, t.Context())
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
			}
			require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrWrongKind)
			for _, err := range mu.Holders(t.Context()) {
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
			}
			require.Equal(t, before, w.server.MustDo(t, "DUMP", key))
			require.Equal(t, int64(-1), w.server.MustDo(t, "PTTL", key))
			require.Zero(t, w.inLine())
			w.server.MustDo(t, "DEL", key) // else Close waits a second for withdrawals that are refused
		})
	}
}

// P9: foreign keys in the places of the lines are found before anything is written, and stay as they are.
func TestAForeignLineIsErrWrongKindAndUntouched(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"writers", "readers", "rwlives"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			w := here(t)
			holder, mu := w.lock(), w.lock()
			lease := must(t, holder, write)
			key := "sb:{" + w.name + "}:" + part
			w.server.MustDo(t, "SET", key, "mine")
			for _, take := range []side{write, read} {
				_, err := take(mu, t.Context())
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
			}
			require.Equal(t, "mine", w.server.MustDo(t, "GET", key))
			w.server.MustDo(t, "DEL", key)
			require.NoError(t, lease.Unlock())
			w.awaitFree()
		})
	}
}

// P9: what others put into the key is no hold, and takes no lock from anybody.
func TestStrangeMembersOfTheKeyAreNoHolds(t *testing.T) {
	t.Parallel()
	w := here(t)
	mu := w.lock()
	lease := must(t, mu, write)
	w.server.MustDo(t, "ZADD", w.key(), 1, "x", 2, "", -7, strings.Repeat("y", 60))
	require.ErrorIs(t, second(w.lock().TryRLock(t.Context())), signalbox.ErrHeld)
	n := 0
	for h, err := range mu.Holders(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, lease.Token(), h.Token)
		n++
	}
	require.Equal(t, 1, n)
	require.NoError(t, lease.Unlock())
	require.NoError(t, must(t, w.lock(), write).Unlock())
}
