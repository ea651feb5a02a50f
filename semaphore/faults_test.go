// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P4: a call whose answer never came is undone as soon as the server hears of it.
func TestACallWithoutAnAnswerIsUndone(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.CutAfterRequest, redistest.DelayReply, redistest.DelayRequest} {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		sem := semaphore.New(newSession(t, proxy), "a", 3)
		givesUp(t, proxy, sem, scripts.SemaphoreEnter, kind)
		require.NoError(t, mustAcquire(t, semaphore.New(newSession(t, server), "a", 3), 3).Unlock())
		await(t, "nobody has permits", func() bool { return out(t, server) == 0 && inLine(t, server) == 0 })
	}
}

// givesUp asks for two permits by a TryAcquire that a fault strikes, and whose context ends while its script is on the way.
// Where the answer was heard all the same, before the end of the context was, it asks again.
func givesUp(tb testing.TB, proxy *redistest.Proxy, sem *semaphore.Semaphore, script *scripts.Script, kind redistest.Kind) {
	tb.Helper()
	require.NoError(tb, mustAcquire(tb, sem, 1).Unlock())
	requests(proxy, script)
	defer proxy.OnRequest(nil)
	await(tb, "a TryAcquire that is given up", func() bool {
		ctx, cancel := context.WithCancel(tb.Context())
		defer cancel()
		proxy.OnRequest(func(int, []string) { cancel() })
		lost := proxy.Arm(redistest.Fault{Kind: kind, Delay: delay})
		lease, err := sem.TryAcquire(ctx, 2)
		within(tb, "the fault", lost.Fired())
		if err == nil {
			require.NoError(tb, lease.Unlock())
		}
		return err != nil
	})
}

// P4, P6: a ticket of somebody who gave up, whose leaving came before its entering, keeps nobody out beyond the
// entering's not-after, though the session goes on and keeps it alive by its heartbeats, and though a holder renews.
func TestATicketOfNobodyKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	wiretest.LoadScripts(t, server)
	other := semaphore.New(newSession(t, server), "a", 3)
	held := mustAcquire(t, other, 1) // stays, and is renewed
	var sem *semaphore.Semaphore
	await(t, "a ticket of nobody", func() bool {
		var wish []any
		sem, wish = leavesBeforeItEnters(t, server)
		require.Zero(t, inLine(t, server))
		server.MustDo(t, wish...)
		return inLine(t, server) == 1 // unless the machine stood still until its not-after was over
	})

	// Others of the session wait behind it, and keep it alive.
	waiting := acquireLater(t.Context(), sem, 2)
	require.NoError(t, mustHave(t, waiting).Unlock(), "it is gone though its session lives and the holder renews")
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock())
	await(t, "nothing is left", func() bool { return out(t, server) == 0 && inLine(t, server) == 0 })
}

// leavesBeforeItEnters wants three permits and gives up. The wish does not arrive; its leaving does, on another connection.
// It answers the semaphore of that session, and the words of the wish.
func leavesBeforeItEnters(t *testing.T, server *redistest.Server) (sem *semaphore.Semaphore, wish []any) {
	t.Helper()
	proxy := redistest.NewProxy(t, server.Addr())
	sem = semaphore.New(newSession(t, proxy), "a", 3)
	require.NoError(t, mustAcquire(t, sem, 1).Unlock())
	proxy.SetMatch(func(request []string) bool {
		return len(request) > 1 && (request[1] == scripts.SemaphoreEnter.SHA1 || request[1] == scripts.SemaphoreLeave.SHA1)
	})
	entering, left := make(chan []string, 1), make(chan struct{})
	proxy.OnRequest(func(k int, request []string) {
		if k == 1 {
			entering <- request
		} else if k == 2 {
			close(left)
		}
	})
	proxy.ResetCount()
	proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest, At: 1})
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := acquireLater(ctx, sem, 3)
	for _, word := range within(t, "the entering", entering) {
		wish = append(wish, word)
	}
	cancel()
	require.ErrorIs(t, within(t, "the giving up", gaveUp).err, context.Canceled)
	proxy.CutAll()
	within(t, "the leaving", left)
	await(t, "its answer", func() bool { return proxy.Replies() > 0 })
	return sem, wish
}

// P6: a grant whose message is lost is found by a look.
func TestAGrantWhoseMessageIsLostIsFound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	sem := semaphore.New(newSession(t, server), "a", 2)
	held := mustAcquire(t, sem, 2)
	deaf := newSession(t, proxy)
	var waiting []<-chan outcome
	for n := range 2 { // of different terms: each has a place in line
		sem := semaphore.New(deaf, "a", 2, signalbox.RenewedLease(time.Duration(n+10)*time.Second))
		waiting = append(waiting, queue(t.Context(), t, server, sem, 1, n+1))
	}
	await(t, "a subscription", func() bool {
		channels, _ := server.MustDo(t, "PUBSUB", "CHANNELS", "sb:grants:*").([]any)
		return len(channels) == 1
	})
	proxy.DropPushes(true)
	require.NoError(t, held.Unlock())
	for _, w := range waiting {
		require.NoError(t, mustHave(t, w).Unlock())
	}
	await(t, "a lost message", func() bool { return proxy.DroppedPushes() > 0 })
}

// P2: what is lost on the server, all of it, is told at the next renewal.
func TestAFlushIsToldAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 2, signalbox.RenewedLease(steady))
	lease := mustAcquire(t, sem, 1)
	waiting := queue(t.Context(), t, server, semaphore.New(newSession(t, server), "a", 2), 2, 1)
	server.MustDo(t, "FLUSHALL")
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	require.NoError(t, mustHave(t, waiting).Unlock(), "who waited comes again")
}

// P9: a key that is somebody else's is ErrWrongKind and stays as it is.
func TestAForeignKeyIsErrWrongKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 2)
	for _, make := range [][]any{{"SET", permitsKey, "x"}, {"ZADD", permitsKey, 1, "x"}, {"RPUSH", permitsKey, "x"}} {
		server.MustDo(t, make...)
		dump := server.MustDo(t, "DUMP", permitsKey)
		_, tried := sem.TryAcquire(t.Context(), 1)
		_, waited := sem.Acquire(t.Context(), 1)
		_, counted := sem.Available(t.Context())
		var listed error
		for _, err := range sem.Holders(t.Context()) {
			listed = errors.Join(listed, err)
		}
		for _, err := range []error{tried, waited, counted, listed, sem.SetCapacity(t.Context(), 3)} {
			require.ErrorIs(t, err, signalbox.ErrWrongKind)
		}
		require.Equal(t, dump, server.MustDo(t, "DUMP", permitsKey))
		server.MustDo(t, "DEL", permitsKey)
	}
}

// P10: when memory is full a release works and hands on, and a wish is refused with the server's words.
func TestAReleaseWorksWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	sem := semaphore.New(s, "a", 2)
	lease := mustAcquire(t, sem, 2)
	waiting := queue(t.Context(), t, server, semaphore.New(newSession(t, server), "a", 2), 1, 1)
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	_, err := semaphore.New(s, "b", 2).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrRefused)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, lease.Unlock())
	require.NoError(t, mustHave(t, waiting).Unlock()) // at once: where memory is full it cannot be renewed
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	require.NoError(t, mustAcquire(t, sem, 2).Unlock())
}

// P6: the permits of ever so many crashed holders are free at once, for who waits for all of them too.
func TestTwentyThousandPermitsThatEndAtOnceAreSoonServed(t *testing.T) {
	t.Parallel()
	const n = 20_000
	server := redistest.Start(t)
	endIn := func(seconds int) {
		server.MustDo(t, "EVAL", `
local ends = string.format('%.0f', (redis.call('TIME')[1] + ARGV[2]) * 1000000)
for i = 1, ARGV[1] do
  redis.call('ZADD', KEYS[1], ends, string.format('%041d', i) .. '0000000001')
end
redis.call('ZADD', KEYS[1], -1, 'sb1s', ARGV[1], 'used', ARGV[1], 'capacity')
redis.call('PEXPIRE', KEYS[1], 600000)`, 1, permitsKey, n, seconds)
	}
	endIn(3600)
	sem := semaphore.New(newSession(t, server), "a", n)
	all := queue(t.Context(), t, server, sem, n, 1)
	endIn(0) // the second that has begun
	lease := mustHave(t, all)
	require.Equal(t, n, out(t, server))
	require.NoError(t, lease.Unlock())
	require.Equal(t, n, available(t, sem))
}

// P2, P6: a server that comes back empty serves all who waited, and the holder is told.
func TestAServerThatComesBackEmptyServesAllWhoWaited(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 4, signalbox.RenewedLease(steady))
	held := mustAcquire(t, sem, 4)
	sessions := []*semaphore.Semaphore{semaphore.New(newSession(t, server), "a", 4), semaphore.New(newSession(t, server), "a", 4)}
	var waiting []<-chan outcome
	for n := range 20 {
		waiting = append(waiting, acquireLater(t.Context(), sessions[n%2], 1+n%4))
	}
	await(t, "a place in line for each number of permits in each session", func() bool { return inLine(t, server) >= 4 })
	server.Restart()
	served := make(chan error, len(waiting))
	for _, w := range waiting {
		go func() {
			got := <-w
			if got.err == nil {
				got.err = got.lease.Unlock()
			}
			served <- got.err
		}()
	}
	for range waiting {
		err := within(t, "an answer", served)
		if !errors.Is(err, signalbox.ErrUnconfirmed) && !errors.Is(err, signalbox.ErrLost) { // on a machine that is busy
			require.NoError(t, err)
		}
	}
	within(t, "the end of the lease", held.Done())
	require.ErrorIs(t, held.Err(), signalbox.ErrLost)
}
