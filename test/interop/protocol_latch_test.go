// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// These tests look at what RCountDownLatch does on a server. docs/redisson-protocol.md says what they see.

func TestJavaCountsALatchInANumber(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		require.Equal(t, "true", p.must(t, "a", "latch-start", "a", 2))
		require.Equal(t, "2", server.MustDo(t, "GET", "a"))
		require.Equal(t, int64(-1), server.MustDo(t, "PTTL", "a"), "it never ends")
		require.Equal(t, "false", p.must(t, "a", "latch-start", "a", 7), "one is there")
		require.Equal(t, "2", p.must(t, "a", "latch-count", "a"))
		p.must(t, "a", "latch-down", "a")
		require.Equal(t, "1", server.MustDo(t, "GET", "a"))
		require.Equal(t, []any{"a"}, server.MustDo(t, "KEYS", "*"), "and no other key")
		p.must(t, "a", "latch-down", "a")
		require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"), "what is open has no key")
		require.Equal(t, "0", p.must(t, "a", "latch-count", "a"))
		p.must(t, "a", "latch-down", "a")
		require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"), "one too many counts nothing")
	})
}

func TestJavaPublishesTheStateOfALatch(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		published := receive(t, server, "redisson_countdownlatch__channel__{a}", "redisson_countdownlatch__channel__{{b}:c}")
		p.must(t, "a", "latch-start", "a", 2)
		require.Equal(t, "redisson_countdownlatch__channel__{a} 1", next(t, published), "a count begins")
		p.must(t, "a", "latch-start", "a", 2)
		p.must(t, "a", "latch-down", "a")
		p.must(t, "a", "latch-down", "a")
		require.Equal(t, "redisson_countdownlatch__channel__{a} 0", next(t, published), "it is open; nothing was published before")
		p.must(t, "a", "latch-down", "a")
		p.must(t, "a", "latch-delete", "a")
		p.must(t, "a", "latch-start", "{b}:c", 1)
		require.Equal(t, "redisson_countdownlatch__channel__{{b}:c} 1", next(t, published), "braces are added even if there are some")
		require.Equal(t, "true", p.must(t, "a", "latch-delete", "{b}:c"))
		require.Equal(t, "redisson_countdownlatch__channel__{{b}:c} 1", next(t, published), "it is deleted")
		require.Empty(t, published)
	})
}

func TestAJavaWaiterAtALatchKnowsTheMessageAlone(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		seen := monitor(t, server)
		p := newPeer(t, release, server)
		const channel = "redisson_countdownlatch__channel__{a}"
		require.Equal(t, "true", p.must(t, "a", "latch-wait", "a", 0), "what has no key is open")
		server.MustDo(t, "SET", "a", "1")
		reply := p.send("a", "latch-wait", "a", time.Hour.Milliseconds())
		redistest.Await(t, "a subscription", func() bool { return listeners(t, server, channel) == 1 })
		redistest.Await(t, "the poll behind it", func() bool { return seen.count(`(?i)"get" "a"`) == 3 })
		server.MustDo(t, "PUBLISH", channel, "1")
		server.MustDo(t, "DEL", "a")
		server.MustDo(t, "PUBLISH", channel, "1")
		p.must(t, "b", "latch-count", "a") // another round trip of the client: by now it has received what was published before
		require.Empty(t, reply, "it does not poll, and a 1 wakes no waiter")
		server.MustDo(t, "PUBLISH", channel, "0")
		require.Equal(t, "true", p.take(t, reply))
		redistest.Await(t, "the end of the subscription", func() bool { return listeners(t, server, channel) == 0 })
	})
}
