// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P9: locks of all kinds keep each other out while one is held or queued for.
func TestAnotherKindsLockIsErrWrongKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, take := range map[string]func(*signalbox.Session) (signalbox.Lease, error){
		"reentrant": func(s *signalbox.Session) (signalbox.Lease, error) {
			return reentrant.New(s, "reentrant").Lock(t.Context())
		},
		"fair": func(s *signalbox.Session) (signalbox.Lease, error) { return fair.New(s, "fair").Lock(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other, mu := newSession(t, server), newLock(t, server, name)
			lease, err := take(other)
			require.NoError(t, err)
			for _, take := range []side{tryWrite, tryRead, write, read} {
				_, err := take(mu, t.Context())
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
				require.ErrorContains(t, err, "("+name+")")
			}
			require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrWrongKind)
			require.Zero(t, inLine(t, server, name))
			require.Zero(t, mu.Rooms())
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock())

			for _, side := range []side{write, read} {
				ours := must(t, mu, side)
				require.Greater(t, ours.Token(), lease.Token(), "the floor is that of the name")
				_, err = take(other)
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
				require.NoError(t, ours.Unlock())
				lease, err = take(other)
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
	server := redistest.Start(t)
	s := newSession(t, server)
	for name, set := range map[string][]any{
		"string": {"SET", "x"}, "garbage": {"SET", "sb1-garbage"}, "later": {"SET", "sb2w0123456789012345"},
		"list": {"RPUSH", "x", "y"}, "zset": {"ZADD", 1, "x"}, "semaphore": {"ZADD", 1, "sb1s"}, "hash": {"HSET", "x", "y"},
		"redisson": {"HSET", "mode", "read", "0123:1", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := holderKey(name)
			server.MustDo(t, append([]any{set[0], key}, set[1:]...)...)
			before := server.MustDo(t, "DUMP", key)
			mu := rwlock.New(s, name)
			for _, take := range []side{tryWrite, tryRead, write, read} {
				_, err := take(mu, t.Context())
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
			}
			require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrWrongKind)
			for _, err := range mu.Holders(t.Context()) {
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
			}
			require.Equal(t, before, server.MustDo(t, "DUMP", key))
			require.Equal(t, int64(-1), server.MustDo(t, "PTTL", key))
			require.Zero(t, inLine(t, server, name))
		})
	}
}

// P9: foreign keys in the places of the lines are found before anything is written, and stay as they are.
func TestAForeignLineIsErrWrongKindAndUntouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, part := range []string{"writers", "readers", "rwlives"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			holder, mu := newLock(t, server, part), newLock(t, server, part)
			lease := must(t, holder, write)
			key := "sb:{" + part + "}:" + part
			server.MustDo(t, "SET", key, "mine")
			for _, take := range []side{write, read} {
				_, err := take(mu, t.Context())
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
			}
			require.Equal(t, "mine", server.MustDo(t, "GET", key))
			server.MustDo(t, "DEL", key)
			require.NoError(t, lease.Unlock())
			awaitFree(t, server, part)
		})
	}
}

// P9: what others put into the key is no hold, and takes no lock from anybody.
func TestStrangeMembersOfTheKeyAreNoHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	lease := must(t, mu, write)
	server.MustDo(t, "ZADD", holderKey("a"), 1, "x", 2, "", -7, strings.Repeat("y", 60))
	require.ErrorIs(t, second(newLock(t, server, "a").TryRLock(t.Context())), signalbox.ErrHeld)
	n := 0
	for h, err := range mu.Holders(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, lease.Token(), h.Token)
		n++
	}
	require.Equal(t, 1, n)
	require.NoError(t, lease.Unlock())
	require.NoError(t, must(t, newLock(t, server, "a"), write).Unlock())
}
