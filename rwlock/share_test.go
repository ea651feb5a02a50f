// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// led: readers that arrive while one asks for all wait for it, and enter its hold without a command.
func TestReadersWaitForTheOneThatAsks(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	proxy := f.proxy()
	mu := rwlock.New(f.patient(proxy), f.name)
	require.NoError(t, must(t, mu, read).Unlock())
	for _, script := range []*scripts.Script{scripts.RWLockEnter, scripts.RWLockMayShare} {
		var before signalbox.Lease
		if script == scripts.RWLockMayShare {
			before = must(t, mu, read)
			require.NoError(t, must(t, mu, read).Unlock())
			aged()
		}
		goOn := make(chan struct{})
		arrived := make(chan struct{}, 1)
		proxy.SetMatch(locktest.RunsScript(script))
		proxy.OnRequest(func(int, []string) {
			select {
			case arrived <- struct{}{}:
			default:
			}
			<-goOn
		})
		leader := later(t.Context(), mu, read)
		redistest.Receive(t, "the request", arrived)
		var waiting []<-chan result
		for n := range 20 {
			waiting = append(waiting, follow(t.Context(), t, mu, n+1))
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := follow(ctx, t, mu, len(waiting)+1)
		cancel()
		err := locktest.MustFail(t, gone)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, signalbox.ErrHeld, "the server has not said so")
		close(goOn)
		lease := locktest.MustHave(t, leader)
		proxy.OnRequest(nil)
		for _, w := range waiting {
			beside := locktest.MustHave(t, w)
			require.Equal(t, lease.Token(), beside.Token())
			require.NoError(t, beside.Unlock())
		}
		require.Len(t, f.holds(), 1)
		require.NoError(t, lease.Unlock())
		if script == scripts.RWLockMayShare {
			require.Equal(t, lease.Token(), before.Token())
			require.NoError(t, before.Unlock())
		}
		require.Zero(t, mu.InUse())
	}
}

// open -> led -> open: after a while the server is asked whether a writer waits, and the hold is shared on.
func TestAReaderThatAskedSharesThePresentHold(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	leases := []signalbox.Lease{must(t, mu, read)}
	for _, take := range []lockMethod{read, tryRead} {
		aged()
		leases = append(leases, must(t, mu, take))
		require.Len(t, f.holds(), 1)
	}
	for _, lease := range leases {
		require.NoError(t, lease.Unlock())
	}
	require.False(t, f.isHeld())
	require.Zero(t, mu.InUse())
}

// led -> led: if a hold may not be shared further, it stays with its readers, and later readers queue for a
// new one with one ticket.
func TestReadersQueueIfAHoldMayNotBeShared(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	old := []signalbox.Lease{must(t, mu, read), must(t, mu, read)}
	writer := f.queue(t.Context(), f.lock(), write, 1)
	aged()
	late := []<-chan result{f.queue(t.Context(), mu, read, 2)}
	for n := range 5 {
		late = append(late, follow(t.Context(), t, mu, n+2))
	}
	require.Equal(t, 2, f.queued())
	for _, lease := range old {
		require.False(t, locktest.IsClosed(writer))
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	lease := locktest.MustHave(t, writer)
	require.NoError(t, lease.Unlock())
	var leases []signalbox.Lease
	for _, l := range late {
		leases = append(leases, locktest.MustHave(t, l))
	}
	for _, l := range leases {
		require.Equal(t, leases[0].Token(), l.Token())
		require.Greater(t, l.Token(), lease.Token())
		require.NoError(t, l.Unlock())
	}
	require.Zero(t, mu.InUse())
}

// led -> led, led -> empty: a leader whose context ends leaves its ticket to the next waiter; the last
// waiter removes it from the queue.
func TestALeaderThatLeavesHandsItsTicketToTheNext(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	proxy := f.proxy()
	mu := f.lockAt(proxy)
	holder := must(t, f.lock(), write)
	proxy.SetMatch(locktest.RunsScript(scripts.RWLockPoll))
	ticket := func() any { return f.server.MustDo(t, "ZRANGE", locktest.Keys(f.name).Readers(), 0, -1, "WITHSCORES") }
	var leave []context.CancelFunc
	var waiting []<-chan result
	for n := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leave = append(leave, cancel)
		if n == 0 {
			waiting = append(waiting, f.queue(ctx, mu, read, 1))
		} else {
			waiting = append(waiting, follow(ctx, t, mu, n+1))
		}
	}
	redistest.Await(t, "a poll, after the reply", func() bool { return proxy.Replies() > 0 })
	place := ticket()
	for _, n := range []int{0, 2, 1} { // the leader, one that waits for it, and the next leader
		leave[n]()
		err := locktest.MustFail(t, waiting[n])
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, signalbox.ErrHeld)
		require.Equal(t, place, ticket())
	}
	require.NoError(t, holder.Unlock())
	lease := locktest.MustHave(t, waiting[3])
	require.NoError(t, lease.Unlock())
	require.Zero(t, mu.InUse())

	holder = must(t, f.lock(), write)
	ctx, cancel := context.WithCancel(t.Context())
	alone := f.queue(ctx, mu, read, 1)
	cancel()
	require.ErrorIs(t, locktest.MustFail(t, alone), context.Canceled)
	require.Zero(t, mu.InUse())
	redistest.Await(t, "the end of the ticket", func() bool { return f.queued() == 0 })
	require.NoError(t, holder.Unlock())
}

// Terms: readers whose holds are not renewed alike have holds of their own.
func TestReadersOfOtherTermsHaveHoldsOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	s := f.session()
	var leases []signalbox.Lease
	for n, options := range [][]signalbox.LockOption{
		nil,
		{signalbox.WithRenewedLease(time.Minute)},
		{signalbox.WithRenewedLease(time.Hour)},
		{signalbox.WithFixedLease(time.Minute)},
		{signalbox.WithFixedLease(time.Minute)},
		{signalbox.WithMaxHold(time.Minute)},
		{signalbox.WithMaxHold(time.Minute)},
	} {
		leases = append(leases, must(t, rwlock.New(s, f.name, options...), []lockMethod{read, tryRead}[n%2]))
		require.Len(t, f.holds(), n+1)
	}
	again := must(t, rwlock.New(s, f.name, signalbox.WithRenewedLease(time.Minute)), read)
	require.Len(t, f.holds(), len(leases), "readers of one lease share")
	require.NoError(t, again.Unlock())
	writer := f.queue(t.Context(), f.lock(), write, 1)
	for _, lease := range leases {
		require.False(t, locktest.IsClosed(writer))
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, locktest.MustHave(t, writer).Unlock())
	require.Zero(t, rwlock.New(s, f.name).InUse())
}

// P7: readers that wait for a leader cost the server one ticket, and the process nothing but their own
// goroutines.
//
//nolint:paralleltest // goroutines are counted
func TestReadersThatWaitCostNoGoroutineAndOneTicket(t *testing.T) {
	f := ownFixture(t)
	mu := f.lock()
	holder := must(t, f.lock(), write)
	waiting := []<-chan result{f.queue(t.Context(), mu, read, 1), follow(t.Context(), t, mu, 2)}
	f.awaitChannels("grants", 1)
	before := runtime.NumGoroutine()
	const readers = 300
	for n := range readers {
		waiting = append(waiting, follow(t.Context(), t, mu, n+3))
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before+readers+readers/3)
	require.Equal(t, 1, f.queued())
	require.NoError(t, holder.Unlock())
	for _, w := range waiting {
		require.NoError(t, locktest.MustHave(t, w).Unlock())
	}
	require.Zero(t, mu.InUse())
}
