// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
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

func TestJavaHoldsALockByOneFieldOfAHash(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		p.must(t, "a", "lock", "order/42", 60_000)
		owner := p.owner(t, "a")
		require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[1-9][0-9]*$`, owner)
		require.Equal(t, map[string]string{owner: "1"}, hash(t, server, "order/42"))
		require.Equal(t, []any{"order/42"}, server.MustDo(t, "KEYS", "order*"), "and no other key")
		left := ttl(t, server, "order/42")
		require.Positive(t, left)
		require.LessOrEqual(t, left, time.Minute)
		require.Equal(t, "false", p.must(t, "b", "try", "order/42", 0, 1000), "another thread is another owner")
	})
}

func TestJavaCountsEntriesInTheField(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
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
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
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
		before := redistest.EndOf(t, server, "a")
		redistest.Await(t, "a renewal", func() bool {
			after := redistest.EndOf(t, server, "a")
			return after > before
		})
		require.LessOrEqual(t, ttl(t, server, "a"), watchdog)
		p.dies(t)
		redistest.Await(t, "the end of the lock of one that was killed", func() bool { return ttl(t, server, "a") < 0 })
	})
}

func TestJavaKeepsTheResultOfAReleaseForAWhile(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		seen := monitor(t, server)
		p := newPeer(t, release, server)
		p.must(t, "a", "lock", "a", 60_000)
		p.must(t, "a", "unlock", "a")
		p.must(t, "a", "lock", "{b}", 60_000)
		p.must(t, "a", "lock", "{b}", 60_000)
		p.must(t, "a", "unlock", "{b}")
		redistest.Await(t, "the two results", func() bool {
			return seen.matches(`(?i)"set" "redisson_unlock_latch:\{a\}:[0-9a-f]{32}" "1" "px" "[0-9]+"`) &&
				seen.matches(`(?i)"set" "redisson_unlock_latch:\{b\}:[0-9a-f]{32}" "0" "px" "[0-9]+"`)
		})
		if release == "redisson4" {
			redistest.Await(t, "a deletion", func() bool {
				return seen.matches(`(?i)"(del|unlink)" "redisson_unlock_latch:\{a\}:[0-9a-f]{32}"`)
			})
			return
		}
		// Redisson 3.52.0 deletes a key that never was, with its client's id where the id of the reply
		// belongs.
		redistest.Await(t, "a deletion", func() bool {
			return seen.matches(`(?i)"(del|unlink)" "redisson_unlock_latch:\{a\}:` + p.id + `"`)
		})
		require.False(t, seen.matches(`(?i)"(del|unlink)" "redisson_unlock_latch:\{a\}:[0-9a-f]{32}"`))
		for _, key := range server.Keys("redisson_unlock_latch:*") {
			require.LessOrEqual(t, server.MustDo(t, "PTTL", key), (4*replyTimeout + 8*time.Second).Milliseconds())
		}
	})
}

// held makes an owner that is neither Java nor Go hold a lock.
func held(t *testing.T, server *redistest.Server, key string, life time.Duration) {
	t.Helper()
	server.MustDo(t, "HSET", key, "00000000-0000-0000-0000-000000000000:1", "1")
	server.MustDo(t, "PEXPIRE", key, life.Milliseconds())
}

// listeners returns how many clients listen to a channel.
func listeners(t *testing.T, server *redistest.Server, channel string) int64 {
	t.Helper()
	reply, _ := server.MustDo(t, "PUBSUB", "NUMSUB", channel).([]any)
	require.Len(t, reply, 2)
	n, _ := reply[1].(int64)
	return n
}

func TestAJavaWaiterIsWokenByTheZero(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		held(t, server, "a", time.Hour)
		reply := p.send("a", "lock", "a", 60_000)
		redistest.Await(t, "a subscription", func() bool { return listeners(t, server, "redisson_lock__channel:{a}") == 1 })
		server.MustDo(t, "PUBLISH", "redisson_lock__channel:{a}", "0") // for nothing: it tries, and waits on
		server.MustDo(t, "DEL", "a")
		server.MustDo(t, "PUBLISH", "redisson_lock__channel:{a}", "0")
		p.take(t, reply)
		require.Contains(t, hash(t, server, "a"), p.owner(t, "a"))
		redistest.Await(t, "the end of the subscription", func() bool { return listeners(t, server, "redisson_lock__channel:{a}") == 0 })
	})
}

func TestAJavaWaiterTriesAgainWhenTheKeyEnds(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		held(t, server, "a", time.Second)
		p.must(t, "a", "lock", "a", 60_000) // no message was published
		require.Contains(t, hash(t, server, "a"), p.owner(t, "a"))
	})
}

func TestJavaDoesNotUnlockWhatAnotherHolds(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		held(t, server, "a", time.Hour)
		require.Contains(t, refused(t, p.send("a", "unlock", "a")), "IllegalMonitorStateException")
		require.Len(t, hash(t, server, "a"), 1)
		require.Equal(t, "true", p.must(t, "a", "locked", "a"))
		require.Equal(t, "false", p.must(t, "a", "mine", "a"))
		require.Equal(t, "0", p.must(t, "a", "count", "a"))
	})
}

func TestJavaCountsAFencedLockInAKeyBeside(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		owner := p.owner(t, "a")
		require.Equal(t, "1", p.must(t, "a", "fence", "a", 60_000))
		require.Equal(t, "2", p.must(t, "a", "fence", "a", 60_000), "entering again counts as well")
		require.Equal(t, map[string]string{owner: "2"}, hash(t, server, "a"), "else it is the lock that is not fenced")
		require.Equal(t, "2", server.MustDo(t, "GET", "redisson_lock_token:{a}"))
		require.Equal(t, int64(-1), server.MustDo(t, "PTTL", "redisson_lock_token:{a}"), "it never ends")
		p.must(t, "a", "unlock", "a")
		p.must(t, "a", "unlock", "a")
		p.must(t, "a", "lock", "a", 60_000)
		require.Equal(t, "2", server.MustDo(t, "GET", "redisson_lock_token:{a}"), "who takes it without a token does not count")
	})
}
