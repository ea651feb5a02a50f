// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

// short is the fairLockWaitTimeout of the Java clients here.
const short = 4 * time.Second

// P6: with the same fairLockWaitTimeout on both sides a ticket is valid for that long, whichever
// side has it and whichever is granted the lock. A dead waiter delays the others by that, not by
// the default of 5 minutes.
func TestADeadWaiterDelaysByTheFairLockWaitTimeout(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		timeout := strconv.FormatInt(short.Milliseconds(), 10)
		p, dead := startPeer(t, release, append(single(server.Addr()), timeout)...), newMortal(t, release, server, timeout)
		set := redisson.FairLockWaitTimeout(short)
		before, behind := newGoSide(t, server, byFair, set), newGoSide(t, server, byFair, set)

		// In the queue: Go, a Java process that dies, Go again, Java.
		p.must(t, "a", "fair-lock", "a", time.Hour.Milliseconds())
		first := before.take("a")
		awaitQueued(t, server, 1)
		dead.send("a", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 2)
		third := behind.take("a")
		awaitQueued(t, server, 3)
		last := p.send("b", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 4)
		dead.dies(t)
		waiting := queued(t, server)
		from := deadline(t, server, waiting[0])
		for i, owner := range waiting {
			chained := from + int64(i)*short.Milliseconds()
			require.InDelta(t, chained, deadline(t, server, owner), 1, "the deadline of ticket %d", i)
		}

		// At a grant to Go all tickets get closer by one timeout.
		p.must(t, "a", "fair-unlock", "a")
		took(t, first)
		require.InDelta(t, from, deadline(t, server, waiting[1]), 1)

		// The next waiter is granted the lock when the dead waiter's ticket ends. That was counted from the
		// end of the first lease, which is an hour away, so it is moved to a timeout from now.
		server.MustDo(t, "ZADD", deadlinesKey, "XX", now()+short.Milliseconds(), waiting[1])
		before.release(t, "a")
		took(t, third)
		behind.release(t, "a")
		p.take(t, last)
		p.must(t, "b", "fair-unlock", "a")
		awaitNothing(t, server)
	})
}

// The option is one of a fair lock alone.
func TestTheFairLockWaitTimeoutIsOfFairLocks(t *testing.T) {
	t.Parallel()
	s := locktest.Session(t, redistest.Start(t))
	timeout := redisson.FairLockWaitTimeout(short)
	alone, fenced := signalbox.WithLayout(redisson.Layout(timeout)), signalbox.WithLayout(redisson.Layout(timeout, redisson.Fenced))
	require.NoError(t, fair.New(s, "a", alone).Check())
	require.ErrorIs(t, fair.New(s, "a", fenced).Check(), signalbox.ErrBadOption)
	require.ErrorIs(t, reentrant.New(s, "a", alone).Check(), signalbox.ErrBadOption)
	require.ErrorIs(t, rwlock.New(s, "a", alone).Check(), signalbox.ErrBadOption)
}
