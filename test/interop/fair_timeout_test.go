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
		s := locktest.Session(t, server, signalbox.WithDefaults(
			signalbox.WithLayout(redisson.Layout(redisson.FairLockWaitTimeout(short))), signalbox.WithRenewedLease(time.Hour)))
		before, behind := goFair{fair.New(s, "a"), new(signalbox.Lease)}, goFair{fair.New(s, "a"), new(signalbox.Lease)}

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

// The option is checked, and is one of a fair lock alone.
func TestTheFairLockWaitTimeoutIsChecked(t *testing.T) {
	t.Parallel()
	s := locktest.Session(t, redistest.Start(t))
	with := func(options ...redisson.Option) signalbox.LockOption {
		return signalbox.WithLayout(redisson.Layout(options...))
	}
	for _, good := range []time.Duration{4 * time.Second, 5 * time.Minute, 24 * time.Hour} {
		require.NoError(t, fair.New(s, "a", with(redisson.FairLockWaitTimeout(good), redisson.PlainChannels, nil)).Check())
	}
	for _, bad := range []time.Duration{-1, 0, 4*time.Second - 1, 24*time.Hour + 1} {
		err := fair.New(s, "a", with(redisson.FairLockWaitTimeout(bad))).Check()
		require.ErrorIs(t, err, signalbox.ErrBadOption)
		require.ErrorContains(t, err, "set one from 4s to 24h0m0s, here and in Java")
	}
	timeout := redisson.FairLockWaitTimeout(short)
	require.ErrorIs(t, fair.New(s, "a", with(timeout, redisson.Fenced)).Check(), signalbox.ErrBadOption)
	require.ErrorIs(t, reentrant.New(s, "a", with(timeout)).Check(), signalbox.ErrBadOption)
	require.ErrorIs(t, rwlock.New(s, "a", with(timeout)).Check(), signalbox.ErrBadOption)
}
