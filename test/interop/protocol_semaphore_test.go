// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// These tests look at what the semaphores of Java do on a server. docs/redisson-protocol.md says what they see.

// permits returns when each permit of a semaphore ends, by its id in hexadecimal, in milliseconds since
// 1970.
func permits(t *testing.T, server *redistest.Server, name string) map[string]int64 {
	t.Helper()
	ends := make(map[string]int64)
	list, _ := server.MustDo(t, "ZRANGE", "{"+name+"}:timeout", "0", "-1", "WITHSCORES").([]any)
	for i := 0; i < len(list); i += 2 {
		ms, err := strconv.ParseFloat(fmt.Sprint(list[i+1]), 64)
		require.NoError(t, err)
		ends[hex.EncodeToString([]byte(fmt.Sprint(list[i])))] = int64(ms)
	}
	return ends
}

func TestJavaPublishesPermitsAsANumber(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		published := receive(t, server, "redisson_sc:{a}", "redisson_sc:{b}:c")
		p.must(t, "a", "permit-found", "a", 5)
		require.Equal(t, "redisson_sc:{a} 5", next(t, published), "all that there are")
		p.must(t, "a", "permit-found", "a", 5)
		ids := p.must(t, "a", "permit-take", "a", 3, 60_000) // publishes nothing
		one := p.must(t, "a", "permit-take", "a", 1, 60_000)
		p.must(t, "a", "permit-give", "a", one)
		require.Equal(t, "redisson_sc:{a} 2", next(t, published), "how many are free then")
		p.must(t, "a", "permit-give-all", "a", ids)
		require.Equal(t, "redisson_sc:{a} 3", next(t, published), "several at once: how many came back")
		p.must(t, "a", "permit-add", "a", 4)
		require.Equal(t, "redisson_sc:{a} 4", next(t, published), "how many were added")
		p.must(t, "a", "permit-add", "a", -4) // publishes nothing
		p.must(t, "a", "permit-set", "a", 5)  // the present capacity: publishes nothing
		p.must(t, "a", "permit-set", "a", 6)
		require.Equal(t, "redisson_sc:{a} 6", next(t, published), "how many there are")
		p.must(t, "a", "permit-found", "{b}:c", 1)
		require.Equal(t, "redisson_sc:{b}:c 1", next(t, published), "braces of the name are the channel's")
		require.Empty(t, published)
	})
}

func TestJavaCountsBelowZeroWhenThereAreFewer(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		p.must(t, "a", "permit-found", "a", 5)
		ids := p.must(t, "a", "permit-take", "a", 3, 60_000)
		p.must(t, "a", "permit-set", "a", 1)
		require.Equal(t, "-2", server.MustDo(t, "GET", "a"))
		require.Equal(t, "-2", p.must(t, "a", "permit-available", "a"))
		require.Equal(t, "1", p.must(t, "a", "permit-capacity", "a"))
		require.Empty(t, p.must(t, "a", "permit-try", "a", 1, 0, 60_000))
		p.must(t, "a", "permit-give-all", "a", ids)
		require.Equal(t, "1", server.MustDo(t, "GET", "a"))
	})
}

func TestJavaTakesOutPermitsThatHaveEnded(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		published := receive(t, server, "redisson_sc:{a}")
		server.MustDo(t, "SET", "a", "1")
		for _, id := range []string{"0123456789abcdef", "0123456789abcdeg", "0123456789abcdeh"} {
			server.MustDo(t, "ZADD", "{a}:timeout", now()-1, id)
		}
		require.NotEmpty(t, p.must(t, "a", "permit-take", "a", 1, 60_000))
		require.Equal(t, "redisson_sc:{a} 2", next(t, published), "how many are free then, before it takes its own")
		require.Equal(t, "1", server.MustDo(t, "GET", "a"), "as many as it wants, at the most")
		require.Len(t, permits(t, server, "a"), 3)
		require.Equal(t, "3", p.must(t, "a", "permit-available", "a"))
		require.Equal(t, "redisson_sc:{a} 3", next(t, published))
		require.Len(t, permits(t, server, "a"), 1, "a caller removes all ended ones")

		late := hex.EncodeToString([]byte("0123456789abcdef"))
		server.MustDo(t, "ZADD", "{a}:timeout", now()-1, "0123456789abcdef")
		server.MustDo(t, "DECR", "a")
		require.Equal(t, "false", p.must(t, "a", "permit-give", "a", late), "it comes too late")
		require.Equal(t, "3", server.MustDo(t, "GET", "a"), "and counts, once")
		require.Equal(t, "redisson_sc:{a} 3", next(t, published))
		require.Equal(t, "false", p.must(t, "a", "permit-give", "a", late))
		require.Equal(t, "3", server.MustDo(t, "GET", "a"))
		require.Empty(t, published)
	})
}

func TestJavaReleasesSeveralPermitsIfItHasAll(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		p.must(t, "a", "permit-found", "a", 3)
		ids := p.must(t, "a", "permit-take", "a", 2, 60_000)
		first, _, _ := strings.Cut(ids, ",")
		require.Equal(t, "true", p.must(t, "a", "permit-give", "a", first))
		require.Equal(t, "0", p.must(t, "a", "permit-give-all", "a", ids))
		require.Equal(t, "2", server.MustDo(t, "GET", "a"), "nothing came back")
		require.Len(t, permits(t, server, "a"), 1)
	})
}

func TestJavaLengthensAPermitByItsScore(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		p.must(t, "a", "permit-found", "a", 1)
		id := p.must(t, "a", "permit-take", "a", 1, 60_000)
		before := permits(t, server, "a")[id]
		require.Equal(t, "true", p.must(t, "a", "permit-lengthen", "a", id, 90_000))
		require.GreaterOrEqual(t, permits(t, server, "a")[id], before+30_000)
		require.Equal(t, "true", p.must(t, "a", "permit-lengthen", "a", id, 10_000))
		require.Less(t, permits(t, server, "a")[id], before, "or shortens it")
		require.Equal(t, "true", p.must(t, "a", "permit-give", "a", id))
		require.Equal(t, "false", p.must(t, "a", "permit-lengthen", "a", id, 90_000))
		require.Empty(t, permits(t, server, "a"), "it makes none")
	})
}

func TestAJavaWaiterForAPermitTriesAgainWhenTheFirstEnds(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		server.MustDo(t, "SET", "a", "0")
		ends := now() + 1000
		server.MustDo(t, "ZADD", "{a}:timeout", ends, "0123456789abcdef")
		require.NotEmpty(t, p.must(t, "a", "permit-take", "a", 1, 60_000)) // no message was published
		require.GreaterOrEqual(t, now(), ends)
		require.Len(t, permits(t, server, "a"), 1, "what has ended was taken out")
		require.Equal(t, "0", server.MustDo(t, "GET", "a"))
	})
}

func TestJavasPlainSemaphoreIsANumber(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		published := receive(t, server, "redisson_sc:{a}")
		require.Equal(t, "false", p.must(t, "a", "plain-try", "a", 1, 0), "the capacity was not set")
		require.Equal(t, "true", p.must(t, "a", "plain-found", "a", 5))
		require.Equal(t, "redisson_sc:{a} 5", next(t, published))
		require.Equal(t, "false", p.must(t, "a", "plain-found", "a", 7), "one is there")
		p.must(t, "a", "plain-take", "a", 3)
		require.Equal(t, "2", server.MustDo(t, "GET", "a"))
		require.Equal(t, int64(-1), server.MustDo(t, "PTTL", "a"))
		require.Equal(t, "false", p.must(t, "a", "plain-try", "a", 3, 0), "all or none")
		p.must(t, "b", "plain-give", "a", 2)
		require.Equal(t, "redisson_sc:{a} 4", next(t, published), "how many are free then")
		p.must(t, "b", "plain-give", "a", 7)
		require.Equal(t, "redisson_sc:{a} 11", next(t, published), "the present number does not matter")
		p.must(t, "a", "plain-add", "a", -1)
		require.Equal(t, "redisson_sc:{a} 10", next(t, published))
		require.Equal(t, "10", p.must(t, "a", "plain-drain", "a"))
		require.Equal(t, "0", server.MustDo(t, "GET", "a"))
		require.Equal(t, []any{"a"}, server.MustDo(t, "KEYS", "*"), "and no other key")
		require.Empty(t, published)
	})
}

func TestJavaPublishesPermitsBySlotInACluster(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	for mode, command := range map[string]string{"auto": "SHARDNUMSUB", "off": "NUMSUB"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			eachRelease(t, func(t *testing.T, release string) {
				p := newClusterPeer(t, release, cluster, mode)
				name := mode + release
				p.must(t, "a", "permit-found", name, 1)
				id := p.must(t, "a", "permit-take", name, 1, 60_000)
				reply := p.send("b", "permit-take", name, 1, 60_000)
				p.must(t, "a", "latch-start", name+"-latch", 1)
				opened := p.send("c", "latch-wait", name+"-latch", time.Hour.Milliseconds())
				for _, channel := range []string{"redisson_sc:{" + name + "}", "redisson_countdownlatch__channel__{" + name + "-latch}"} {
					redistest.Await(t, "a subscription", func() bool { return listenersOf(t, cluster, command, channel) == 1 })
				}
				p.must(t, "a", "permit-give", name, id)
				require.NotEmpty(t, p.take(t, reply))
				p.must(t, "a", "latch-down", name+"-latch")
				require.Equal(t, "true", p.take(t, opened))
			})
		})
	}
}
