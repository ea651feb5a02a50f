// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
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
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		held(t, server, "a", time.Second)
		p.must(t, "a", "lock", "a", 60_000) // no message was published
		require.Contains(t, hash(t, server, "a"), p.owner(t, "a"))
	})
}
