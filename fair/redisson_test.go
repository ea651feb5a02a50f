// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/scripts"
)

// The lock in the layout of Redisson, as far as Go alone can tell. test/interop has the Java client on the other side.

// The keys of the lock "a".
const javaQueue, javaDeadlines = "redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"

// shared answers the lock "a" of a session of its own.
func shared(tb testing.TB, at dialer, options ...signalbox.LockOption) *fair.Lock {
	tb.Helper()
	return fair.New(newSession(tb, at), "a", append(options, signalbox.Redisson())...)
}

// stand locks on another goroutine, and returns when that stands in line as the n-th, and listens.
func stand(ctx context.Context, tb testing.TB, server *redistest.Server, mu *fair.Lock, n int) <-chan outcome {
	tb.Helper()
	answered := lockLater(ctx, mu)
	await(tb, "a place in line", func() bool { return integer(tb, server.MustDo(tb, "LLEN", javaQueue)) == int64(n) })
	owner, _ := server.MustDo(tb, "LINDEX", javaQueue, -1).(string)
	await(tb, "a waiter listens", func() bool {
		reply, _ := server.MustDo(tb, "PUBSUB", "NUMSUB", "redisson_lock__channel:{a}:"+owner).([]any)
		return integer(tb, reply[1]) == 1
	})
	return answered
}

// awaitEmpty waits until the server has no key.
func awaitEmpty(tb testing.TB, server *redistest.Server) {
	tb.Helper()
	await(tb, "nothing is left", func() bool { return server.MustDo(tb, "DBSIZE") == int64(0) })
}

// P1, P3, P6: first in, first out, over sessions and inside of one, by messages; nothing is left.
func TestASharedFairLockIsGivenInTheOrderOfAsking(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := shared(t, server), shared(t, server)
	lease := mustLock(t, a)
	var waiting []<-chan outcome
	for n, mu := range []*fair.Lock{a, b, b, a, b} {
		waiting = append(waiting, stand(t.Context(), t, server, mu, n+1))
	}
	require.Equal(t, int64(3), server.MustDo(t, "EXISTS", "a", javaQueue, javaDeadlines))
	require.Equal(t, int64(3), server.MustDo(t, "DBSIZE"), "no key beside Redisson's")
	last := lease.Token()
	for i, turn := range waiting {
		require.NoError(t, lease.Unlock())
		lease = mustHave(t, turn)
		require.Greater(t, lease.Token(), last)
		last = lease.Token()
		for _, later := range waiting[i+1:] {
			require.False(t, isClosed(later), "out of order")
		}
	}
	require.NoError(t, lease.Unlock())
	awaitEmpty(t, server)
}

// P1: many sessions and goroutines, and one inside at a time.
func TestASharedFairLockExcludes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const sessions, goroutines, times = 3, 3, 20
	done := make(chan error, sessions*goroutines)
	var inside, count atomic.Int64
	for range sessions {
		mu := shared(t, server)
		for range goroutines {
			go func() {
				var err error
				for i := 0; i < times && err == nil; i++ {
					err = mu.Do(t.Context(), func(context.Context, signalbox.Lease) error {
						if inside.Add(1) != 1 {
							return errors.New("two at once")
						}
						count.Add(1)
						inside.Add(-1)
						return nil
					})
				}
				done <- err
			}()
		}
	}
	for range sessions * goroutines {
		require.NoError(t, redistest.ReceiveFor(t, limit, "the end of a goroutine", done))
	}
	require.Equal(t, int64(sessions*goroutines*times), count.Load())
	awaitEmpty(t, server)
}

// P4, P6: who gives up leaves its place, and where it was about to be given the lock, it is given on.
func TestWhoGivesUpLeavesTheSharedLine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := shared(t, server), shared(t, server)
	lease := mustLock(t, mu)
	ctx, giveUp := context.WithCancel(t.Context())
	first := stand(ctx, t, server, other, 1)
	second := stand(t.Context(), t, server, mu, 2)
	giveUp()
	got := within(t, "the end of waiting", first)
	require.ErrorIs(t, got.err, signalbox.ErrHeld)
	require.ErrorIs(t, got.err, context.Canceled)
	await(t, "the end of the place", func() bool { return integer(t, server.MustDo(t, "LLEN", javaQueue)) == 1 })
	require.Equal(t, int64(1), server.MustDo(t, "ZCARD", javaDeadlines))
	require.NoError(t, lease.Unlock())
	require.NoError(t, mustHave(t, second).Unlock())
	awaitEmpty(t, server)
}

// P6: who lost its place stands in line again, and has the lock in the end, though nobody tells it anything.
func TestWhoLostItsPlaceInTheSharedLineComesAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := shared(t, server), shared(t, server)
	lease := mustLock(t, mu)
	waiting := stand(t.Context(), t, server, other, 1)
	server.MustDo(t, "DEL", javaQueue, javaDeadlines)
	await(t, "a new place", func() bool { return integer(t, server.MustDo(t, "LLEN", javaQueue)) == 1 })
	server.MustDo(t, "DEL", "a") // and no message
	lease2 := mustHave(t, waiting)
	require.NoError(t, lease2.Unlock())
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
}

// P6: a message that is lost costs a second or so, and the one who finds out tells the one whose turn it is.
func TestALostMessageOfASharedFairLockIsFoundOut(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := shared(t, server)
	lease := mustLock(t, mu)
	first := stand(t.Context(), t, server, shared(t, server), 1)
	second := stand(t.Context(), t, server, shared(t, server), 2)
	server.MustDo(t, "DEL", "a")
	one := mustHave(t, first)
	require.NoError(t, one.Unlock())
	require.NoError(t, mustHave(t, second).Unlock())
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
}

// P6: a session that polls waits, too.
func TestASharedFairLockIsWaitedForByPolling(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := mustLock(t, shared(t, server))
	waiting := lockLater(t.Context(), fair.New(newSession(t, server, signalbox.WithPolling()), "a", signalbox.Redisson()))
	await(t, "a place in line", func() bool { return integer(t, server.MustDo(t, "LLEN", javaQueue)) == 1 })
	require.NoError(t, lease.Unlock())
	require.NoError(t, mustHave(t, waiting).Unlock())
}

// P4: a Lock whose reply was lost leaves neither hold nor place.
func TestASharedFairLockWhoseReplyWasLostIsTakenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	mu := shared(t, proxy)
	require.NoError(t, mustLock(t, mu).Unlock())
	for range 2 {
		requests(proxy, scripts.RedissonFairAcquire)
		armed := proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
		lease := mustLock(t, mu)
		within(t, "the fault", armed.Fired())
		require.NoError(t, lease.Unlock())
		awaitEmpty(t, server)
	}
	lease := mustLock(t, shared(t, server))
	armed := proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
	_, err := mu.TryLock(t.Context())
	require.Error(t, err)
	within(t, "the fault", armed.Fired())
	require.NoError(t, lease.Unlock())
	awaitEmpty(t, server)
}

// P1: TryLock goes before nobody, and stands in no line.
func TestATryGoesBeforeNobodyInTheSharedLine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := shared(t, server), shared(t, server)
	lease, err := mu.TryLock(t.Context())
	require.NoError(t, err)
	_, err = other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.Equal(t, int64(0), server.MustDo(t, "EXISTS", javaQueue, javaDeadlines))
	server.MustDo(t, "RPUSH", javaQueue, "somebody:1")
	server.MustDo(t, "ZADD", javaDeadlines, "9999999999999", "somebody:1")
	require.NoError(t, lease.Unlock())
	_, err = other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
}

// P2, P6: the holder is told, the first in line gets it, and Holder says who has it.
func TestASharedFairLockIsTakenByForce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := shared(t, server, signalbox.RenewedLease(time.Hour)), shared(t, server)
	require.ErrorIs(t, other.ForceUnlock(t.Context()), signalbox.ErrNotHeld)
	lease := mustLock(t, mu)
	waiting := stand(t.Context(), t, server, other, 1)
	h, err := other.Holder(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^[0-9a-f-]{36}:[0-9]{19}$`, h.Label)
	require.NoError(t, other.ForceUnlock(t.Context()))
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.NoError(t, mustHave(t, waiting).Unlock())
}

// Waiters tells the line over pages, of whatever process.
func TestWaitersOfASharedFairLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := shared(t, server)
	lease := mustLock(t, mu)
	defer func() { require.NoError(t, lease.Unlock()) }()
	const others = 150
	for n := range others {
		owner := fmt.Sprintf("00010203-0405-0607-0809-0a0b0c0d0e0f:%d", n)
		server.MustDo(t, "RPUSH", javaQueue, owner)
		server.MustDo(t, "ZADD", javaDeadlines, "9999999999999", owner)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	waiting := stand(ctx, t, server, mu, others+1)
	position := 0
	var last signalbox.Waiter
	for w, err := range mu.Waiters(t.Context()) {
		require.NoError(t, err)
		position++
		require.Equal(t, position, w.Position)
		require.True(t, w.Alive)
		require.Zero(t, w.Since)
		if position <= others {
			require.Equal(t, "AAECAwQFBgcICQoLDA0ODw", w.Session)
			require.Equal(t, fmt.Sprintf("00010203-0405-0607-0809-0a0b0c0d0e0f:%d", position-1), w.Label)
		}
		last = w
	}
	require.Equal(t, others+1, position)
	h, err := mu.Holder(t.Context())
	require.NoError(t, err)
	require.Equal(t, h.Session, last.Session)
	giveUp()
	require.ErrorIs(t, within(t, "the end of waiting", waiting).err, context.Canceled)
}

// P4, P7: Close leaves nothing, of holds and of waiters.
func TestNothingIsLeftOfASharedFairLockAfterClose(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	mu := fair.New(s, "a", signalbox.Redisson())
	lease := mustLock(t, mu)
	waiting := stand(t.Context(), t, server, mu, 1)
	require.Error(t, s.Close(endedContext()))
	require.ErrorIs(t, within(t, "the end of waiting", waiting).err, signalbox.ErrClosed)
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	awaitEmpty(t, server)
}

// P7: a try that comes to nothing is one script.
func TestASharedTryThatFailsIsOneScript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newPoller(t, proxy)
	mu := fair.New(s, "a", signalbox.Redisson())
	require.NoError(t, mustLock(t, mu).Unlock()) // teaches the server the scripts
	lease := mustLock(t, shared(t, server))
	proxy.ResetCount()
	for range 10 {
		_, err := mu.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
	}
	await(t, "nothing is to be given back", func() bool { return (*session.Session)(s).Settler.Open() == 0 })
	require.Equal(t, 10, proxy.Requests())
	require.NoError(t, lease.Unlock())
}
