// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// What the Java client does with its RReadWriteLock.

// rwChannel returns the channel of a read-write lock of a name without braces.
func rwChannel(name string) string { return "redisson_rwlock:{" + name + "}" }

// timeoutOf returns the key of a reader's n-th hold, of a name without braces.
func timeoutOf(name, owner, n string) string {
	return "{" + name + "}:" + owner + ":rwlock_timeout:" + n
}

// keys returns all keys in order, except those that keep the results of releases.
func keys(t *testing.T, server *redistest.Server) (names []string) {
	t.Helper()
	for _, key := range server.Keys("*") {
		if len(key) < 21 || key[:21] != "redisson_unlock_latch" {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return names
}

// requireKeys fails the test if there are other keys than these.
func requireKeys(t *testing.T, server *redistest.Server, want ...string) {
	t.Helper()
	slices.Sort(want)
	require.Equal(t, want, keys(t, server))
}

func TestJavaKeepsTheHashAsLongAsItsReadersLast(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		p.must(t, "a", "rw.lock", "x", "read", 60_000)
		p.must(t, "b", "rw.lock", "x", "read", 600_000)
		p.must(t, "c", "rw.lock", "x", "read", 20_000)
		require.Greater(t, ttl(t, server, "x"), 60*time.Second, "a shorter one takes nothing away")
		p.must(t, "b", "rw.unlock", "x", "read")
		require.LessOrEqual(t, ttl(t, server, "x"), 60*time.Second, "the longest that is left")
		require.Greater(t, ttl(t, server, "x"), 20*time.Second)
		p.must(t, "a", "rw.unlock", "x", "read")
		require.LessOrEqual(t, ttl(t, server, "x"), 20*time.Second)
	})
}

func TestJavaWritesAgainForLonger(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		a := p.owner(t, "a")
		p.must(t, "a", "rw.lock", "x", "write", 60_000)
		p.must(t, "a", "rw.lock", "x", "write", 60_000)
		require.Equal(t, map[string]string{"mode": "write", a + ":write": "2"}, hash(t, server, "x"))
		require.Greater(t, ttl(t, server, "x"), 90*time.Second, "the leases are added")
		p.must(t, "a", "rw.unlock", "x", "write")
		require.Equal(t, map[string]string{"mode": "write", a + ":write": "1"}, hash(t, server, "x"))
	})
}

func TestJavaPublishesZeroAfterReadingAndOneAfterWriting(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		published := receive(t, server, rwChannel("x"), "redisson_rwlock:{y}:z")
		p.must(t, "a", "rw.lock", "x", "read", 60_000)
		p.must(t, "b", "rw.lock", "x", "read", 60_000)
		p.must(t, "b", "rw.unlock", "x", "read") // publishes nothing: another reader is left
		p.must(t, "a", "rw.unlock", "x", "read")
		require.Equal(t, rwChannel("x")+" 0", next(t, published))
		p.must(t, "a", "rw.lock", "{y}:z", "write", 60_000)
		p.must(t, "a", "rw.unlock", "{y}:z", "write")
		require.Equal(t, "redisson_rwlock:{y}:z 1", next(t, published))

		p.must(t, "a", "rw.lock", "x", "write", 60_000)
		require.Equal(t, "false", p.must(t, "b", "rw.force", "x", "read"), "only what the mode says is taken by force")
		require.Equal(t, "true", p.must(t, "b", "rw.force", "x", "write"))
		require.Equal(t, rwChannel("x")+" 1", next(t, published))
		p.must(t, "a", "rw.lock", "x", "read", 60_000)
		require.Equal(t, "true", p.must(t, "b", "rw.force", "x", "read"))
		require.Equal(t, rwChannel("x")+" 0", next(t, published))
		require.Equal(t, map[string]string{}, hash(t, server, "x"))
		requireKeys(t, server, timeoutOf("x", p.owner(t, "a"), "1"))
		require.Empty(t, published)
	})
}

func TestJavaReadersPassAWriterThatWaits(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		p.must(t, "a", "rw.lock", "x", "read", 60_000)
		writer := p.send("b", "rw.lock", "x", "write", 60_000)
		redistest.Await(t, "a subscription", func() bool { return locktest.Listeners(t, server, rwChannel("x")) == 1 })
		require.Equal(t, "true", p.must(t, "c", "rw.try", "x", "read", 0, 60_000))
		p.must(t, "a", "rw.unlock", "x", "read")
		p.must(t, "c", "rw.unlock", "x", "read")
		p.take(t, writer)
	})
}

func TestJavaRenewsAReaderAndTheHash(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		a := p.owner(t, "a")
		p.must(t, "a", "rw.lock", "x", "read", -1)
		p.must(t, "a", "rw.lock", "y", "write", -1)
		for _, key := range []string{"x", timeoutOf("x", a, "1"), "y"} {
			require.LessOrEqual(t, ttl(t, server, key), watchdog)
			renewed(t, server, key)
			require.LessOrEqual(t, ttl(t, server, key), watchdog)
		}
	})
}

func TestAJavaReaderThatDiedStaysAFieldAndIsPassedOver(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, dead := newPeer(t, release, server), newMortal(t, release, server)
		gone := dead.owner(t, "a")
		dead.must(t, "a", "rw.lock", "x", "read", -1)
		p.must(t, "a", "rw.lock", "x", "read", 60_000)
		dead.dies(t)
		awaitEnd(t, server, timeoutOf("x", gone, "1"))
		require.Equal(t, map[string]string{"mode": "read", gone: "1", p.owner(t, "a"): "1"}, hash(t, server, "x"))
		p.must(t, "a", "rw.unlock", "x", "read")
		require.Equal(t, "true", p.must(t, "a", "rw.try", "x", "write", 0, 60_000))
	})
}

// awaitEnd waits until a key has ended.
func awaitEnd(t *testing.T, server *redistest.Server, key string) {
	t.Helper()
	redistest.Await(t, "the end of "+key, func() bool { return ttl(t, server, key) < 0 })
}

// The live reader continues; the one that died is renewed by it, or ends.
func TestAJavaReaderRenewsItsOwnSince44(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, dead := newPeer(t, release, server), newMortal(t, release, server)
		gone := timeoutOf("x", dead.owner(t, "a"), "1")
		dead.must(t, "a", "rw.lock", "x", "read", -1)
		p.must(t, "a", "rw.lock", "x", "read", -1)
		dead.dies(t)
		if release == "redisson3" {
			for range 3 {
				renewed(t, server, gone)
			}
			p.must(t, "a", "rw.unlock", "x", "read")
		}
		awaitEnd(t, server, gone)
	})
}
