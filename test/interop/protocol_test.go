// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// These tests look at what the Java client does on a server. docs/redisson-protocol.md says what they see.

// hash returns the fields of a key and their values.
func hash(t *testing.T, server *redistest.Server, key string) map[string]string {
	t.Helper()
	fields := make(map[string]string)
	list, _ := server.MustDo(t, "HGETALL", key).([]any)
	for i := 0; i < len(list); i += 2 {
		fields[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return fields
}

// ttl returns the remaining life of a key; negative if there is no key, or the key has no end.
func ttl(t *testing.T, server *redistest.Server, key string) time.Duration {
	t.Helper()
	ms, _ := server.MustDo(t, "PTTL", key).(int64)
	return time.Duration(ms) * time.Millisecond
}

// receive returns what is published on channels from now on: "channel message", in order.
func receive(t *testing.T, server *redistest.Server, channels ...string) <-chan string {
	t.Helper()
	client, release := server.Client(t, nil).Dedicate()
	t.Cleanup(release)
	published := make(chan string, 1024)
	client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { published <- m.Channel + " " + m.Message },
	})
	require.NoError(t, client.Do(context.Background(), client.B().Subscribe().Channel(channels...).Build()).Error())
	return published
}

// next returns the next message.
func next(t *testing.T, published <-chan string) string {
	t.Helper()
	return redistest.Receive(t, "a message", published)
}

func TestJavaCountsEntriesInTheField(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
		owner := p.owner(t, "a")
		for _, entries := range []string{"1", "2", "3"} {
			p.must(t, "a", "lock", "a", 60_000)
			require.Equal(t, map[string]string{owner: entries}, hash(t, server, "a"))
			require.Equal(t, entries, p.must(t, "a", "count", "a"))
		}
		p.must(t, "a", "lock", "a", 20_000)
		require.LessOrEqual(t, ttl(t, server, "a"), 20*time.Second, "entering again sets the life anew")
		for _, entries := range []string{"3", "2", "1"} {
			p.must(t, "a", "unlock", "a")
			require.Equal(t, map[string]string{owner: entries}, hash(t, server, "a"))
		}
		p.must(t, "a", "unlock", "a")
		require.Empty(t, hash(t, server, "a"))
	})
}

func TestJavaPublishesAReleaseAsAZero(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
		published := receive(t, server, "redisson_lock__channel:{a}", "redisson_lock__channel:{b}:c")
		for _, name := range []string{"a", "{b}:c"} {
			p.must(t, "a", "lock", name, 60_000)
			p.must(t, "a", "lock", name, 60_000)
			p.must(t, "a", "unlock", name) // publishes nothing: it is still held
			p.must(t, "a", "unlock", name)
		}
		require.Equal(t, "redisson_lock__channel:{a} 0", next(t, published))
		require.Equal(t, "redisson_lock__channel:{b}:c 0", next(t, published), "braces of the name are the channel's")
		p.must(t, "a", "lock", "a", 60_000)
		require.Equal(t, "true", p.must(t, "b", "force", "a"))
		require.Equal(t, "redisson_lock__channel:{a} 0", next(t, published), "also if it is forced")
		require.Equal(t, "false", p.must(t, "b", "force", "a"))
		require.Empty(t, published)
	})
}

func TestJavaRenewsByItsWatchdog(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newMortal(t, release, server)
		p.must(t, "a", "lock", "a", -1)
		require.LessOrEqual(t, ttl(t, server, "a"), watchdog)
		renewed(t, server, "a")
		require.LessOrEqual(t, ttl(t, server, "a"), watchdog)
		p.dies(t)
		redistest.Await(t, "the end of the lock of one that was killed", func() bool { return ttl(t, server, "a") < 0 })
	})
}

// held makes an owner that is neither Java nor Go hold a lock.
func held(t *testing.T, server *redistest.Server, key string, life time.Duration) {
	t.Helper()
	server.MustDo(t, "HSET", key, "00000000-0000-0000-0000-000000000000:1", "1")
	server.MustDo(t, "PEXPIRE", key, life.Milliseconds())
}

func TestAJavaWaiterTriesAgainWhenTheKeyEnds(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
		held(t, server, "a", time.Second)
		p.must(t, "a", "lock", "a", 60_000) // no message was published
		require.Contains(t, hash(t, server, "a"), p.owner(t, "a"))
	})
}

// reads makes an owner that is neither Java nor Go hold the lock as a reader, and returns the key of its
// hold.
func reads(t *testing.T, server *redistest.Server, name string, life time.Duration) (timeout string) {
	t.Helper()
	const owner = "00000000-0000-0000-0000-000000000000:1"
	timeout = timeoutOf(name, owner, "1")
	server.MustDo(t, "SET", timeout, "1", "PX", life.Milliseconds())
	server.MustDo(t, "HSET", name, "mode", "read", owner, "1")
	server.MustDo(t, "PEXPIRE", name, life.Milliseconds())
	return timeout
}

// P1, P2: what another reader counts on is cut short by a Java reader beside it, but never to less than the watchdog's time.
func TestJavasWatchdogMakesTheHashEndSooner(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newMortal(t, release, server)
		other := reads(t, server, "x", time.Hour)
		p.must(t, "a", "rw.lock", "x", "read", -1)
		redistest.Await(t, "a renewal", func() bool { return ttl(t, server, "x") <= watchdog })
		if release == "redisson3" { // which renews all
			require.LessOrEqual(t, ttl(t, server, other), watchdog)
		} else {
			require.Greater(t, ttl(t, server, other), watchdog)
		}
		p.dies(t)
		awaitEnd(t, server, "x")
		require.Equal(t, "true", newPeer(t, release, server).must(t, "a", "rw.try", "x", "write", 0, 60_000))
	})
}

// P1: a reader in Go whose lease is no longer than that is safe beside a reader that dies: no writer enters
// before the Go lease has ended.
func TestAShortLeaseEndsBeforeAWriterEnters(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newMortal(t, release, server)
		lease, err := rwlock.New(newSession(t, server), "x", signalbox.WithFixedLease(watchdog)).RLock(locktest.Context(t))
		require.NoError(t, err)
		p.must(t, "a", "rw.lock", "x", "read", -1)
		renewed(t, server, timeoutOf("x", p.owner(t, "a"), "1"))
		p.dies(t)
		w := newGoSide(t, server, byWriting)
		took(t, w.take("x"))
		require.Error(t, lease.Err())
		w.release(t, "x")
	})
}

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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
