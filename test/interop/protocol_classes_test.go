// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// These tests are about the classes of the Java client that are locks of other kinds, or that take
// locks.
// docs/redisson-protocol.md has a row for each.

// goHolds takes a lock of that name in Go, which lives for longer than any test.
func goHolds(t *testing.T, server *redistest.Server, name string) signalbox.Lease {
	t.Helper()
	lease, err := reentrant.New(newSession(t, server), name).Lock(locktest.Context(t))
	require.NoError(t, err)
	return lease
}

// excludes checks that a class of Java and Go exclude each other from a name, and that Go is
// granted the lock when Java releases it. It returns what Java reports.
func excludes(t *testing.T, p *peer, server *redistest.Server, class, names, key string) (published []string) {
	t.Helper()
	received := receive(t, server, "redisson_lock__channel:{"+key+"}", "redisson_lock__channel:"+key)
	p.must(t, "a", "other-lock", class, names, time.Hour.Milliseconds())
	require.Equal(t, map[string]string{p.owner(t, "a"): "1"}, hash(t, server, key))
	g := newGoSide(t, server, byLock)
	_, err := reentrant.New(g.session, key).TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrHeld)
	taken := g.take(key)
	redistest.Await(t, "a waiter listens", func() bool {
		return locktest.Listeners(t, server, "redisson_lock__channel:{"+key+"}")+locktest.Listeners(t, server, "redisson_lock__channel:"+key) == 3
	})
	require.Empty(t, taken)
	p.must(t, "a", "other-unlock", class, names)
	took(t, taken)
	server.MustDo(t, "PUBLISH", "redisson_lock__channel:"+key, "the end")
	for message := next(t, received); !strings.HasSuffix(message, " the end"); message = next(t, received) {
		published = append(published, message)
	}
	require.Equal(t, "false", p.must(t, "a", "other-try", class, names, 0, 60_000))
	g.release(t, key)
	require.Equal(t, "true", p.must(t, "a", "other-try", class, names, 2*redistest.Patience.Milliseconds(), 60_000))
	p.must(t, "a", "other-unlock", class, names)
	return published
}

func TestJavasSpinLockPublishesNothing(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		require.Empty(t, excludes(t, newPeer(t, release, server), server, "spin", "a", "a"))
	})
}

func TestJavasLocksThatAreEnteredOnceAreShared(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := newPeer(t, "redisson4", server)
	require.NotEmpty(t, excludes(t, p, server, "once", "a", "a"))
	p.must(t, "a", "other-lock", "once-fair", "f", 60_000)
	require.Equal(t, map[string]string{p.owner(t, "a"): "1"}, hash(t, server, "f"))
	require.Contains(t, refused(t, p.send("a", "other-try", "once-fair", "f", 0, 60_000)), "non-reentrant")
	_, err := reentrant.New(newSession(t, server), "f").TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrHeld)

	// Redisson 3.52.0 does not have these.
	old := newPeer(t, "redisson3", server)
	require.Contains(t, refused(t, old.send("a", "other-lock", "once", "a", 60_000)), "NoSuchMethod")
}

func TestJavasLockOfAMapIsAnRLock(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		p.must(t, "a", "other-lock", "map", "m,k", 60_000)
		all := keys(t, server)
		require.Len(t, all, 1)
		require.Regexp(t, `^\{m\}:[A-Za-z0-9+/]{22}:lock$`, all[0])
		p.must(t, "a", "other-unlock", "map", "m,k")
		require.NotEmpty(t, excludes(t, p, server, "map", "m,k", all[0]))
	})
}

// A RedissonRedLock takes most of its locks: one lock that Go holds does not stop it.
func TestJavasRedLockIsAcquiredBesideGo(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, lease := newPeer(t, release, server), goHolds(t, server, "a")
		require.Equal(t, "true", p.must(t, "a", "other-try", "red", "a,b,c", 15_000, 60_000))
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
		require.Equal(t, []string{"b", "c"}, keys(t, server))
	})
}

// The locks of a group and of its values are in the hash of the group, which is not that of an
// RLock. Both sides are granted the lock, and an Unlock in Go deletes Java's holds with it.
func TestJavasFasterMultiLockIsAcquiredBesideGo(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, lease := newPeer(t, release, server), goHolds(t, server, "g")
		require.Equal(t, "true", p.must(t, "a", "other-try", "faster", "g,1,2", 0, 60_000))
		require.Greater(t, len(hash(t, server, "g")), 1)
		require.NoError(t, lease.Unlock())
		require.Empty(t, keys(t, server))
	})
}

// A transaction locks "<key>:transaction_lock" for each key that it touches. A lock of the key is
// another one; one of that name keeps the transaction out.
func TestJavasTransactionLocksAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		p.must(t, "a", "tx-set", "k", "v")
		require.Equal(t, []string{"k:transaction_lock"}, keys(t, server))
		g := newGoSide(t, server, byLock)
		_, err := reentrant.New(g.session, "k:transaction_lock").TryLock(locktest.Context(t))
		require.ErrorIs(t, err, signalbox.ErrHeld)
		beside := goHolds(t, server, "k")
		require.NoError(t, beside.Unlock())
		p.must(t, "a", "tx-commit", "k")
		require.Equal(t, []string{"k"}, keys(t, server))

		taken := g.take("other:transaction_lock")
		took(t, taken)
		waiting := p.send("a", "tx-set", "other", "v")
		awaitListeners(t, server, "other:transaction_lock", 1)
		require.Empty(t, waiting)
		g.release(t, "other:transaction_lock")
		p.take(t, waiting)
		p.must(t, "a", "tx-commit", "other")
	})
}

// A batch has no locks and asks for none: it writes what a lock is there to protect.
func TestJavasBatchAsksNoLock(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, lease := newPeer(t, release, server), goHolds(t, server, "lock of k")
		require.Empty(t, p.must(t, "a", "batch-locks"))
		p.must(t, "a", "batch-set", "k", "v")
		require.Equal(t, "v", server.MustDo(t, "GET", "k"))
		require.NoError(t, lease.Unlock())
	})
}
