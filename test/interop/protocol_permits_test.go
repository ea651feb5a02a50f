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

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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

// These tests look at what RCountDownLatch does on a server. docs/redisson-protocol.md says what they see.

func TestJavaPublishesTheStateOfALatch(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
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
