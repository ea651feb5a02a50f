// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P7: readers enter beside a reader of their session without the server, which is asked once in a while.
func TestAReaderBesideAnotherOfItsSessionCostsNoCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	mu := newLock(t, proxy, "a")
	leases := []signalbox.Lease{must(t, mu, read)}
	proxy.SetMatch(isOf(scripts.RWLockEnter, scripts.RWLockDoor))
	const readers = 2000
	began, asked := time.Now(), proxy.Requests()
	for n := range readers {
		leases = append(leases, must(t, mu, []side{read, tryRead}[n%2]))
	}
	asked = proxy.Requests() - asked
	require.LessOrEqual(t, asked, 2+int(time.Since(began)/rwlock.ShareFor), "the first that asks may have to teach the server the script")
	require.Len(t, holds(t, server, "a"), 1)
	require.Zero(t, sentBy(server, func() {
		for _, lease := range leases[1:] {
			require.Equal(t, leases[0].Token(), lease.Token())
			require.NoError(t, lease.Unlock())
		}
	})["zrem"], "it was given back though there is a reader")
	require.NoError(t, leases[0].Err())
	require.NoError(t, leases[0].Unlock())
	require.False(t, isHeld(t, server, "a"))
	require.Zero(t, mu.Rooms())
}

// open -> led -> open: after a while the server is asked whether a writer waits, by one for all.
func TestTheServerIsAskedOnceInAWhileWhetherAWriterWaits(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]side{"RLock": read, "TryRLock": tryRead} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			mu := newLock(t, proxy, "a")
			leases := []signalbox.Lease{must(t, mu, read)}
			pass(2 * rwlock.ShareFor)
			leases = append(leases, must(t, mu, take)) // teaches the server the script
			proxy.SetMatch(isOf(scripts.RWLockEnter, scripts.RWLockDoor))
			for range 3 {
				pass(2 * rwlock.ShareFor)
				before := proxy.Requests()
				leases = append(leases, must(t, mu, take))
				require.Equal(t, before+1, proxy.Requests())
				require.Equal(t, leases[0].Token(), leases[len(leases)-1].Token())
			}
			require.Len(t, holds(t, server, "a"), 1)
			for _, lease := range leases {
				require.NoError(t, lease.Unlock())
			}
			require.Zero(t, mu.Rooms())
		})
	}
}

// led: those who come while one asks for all wait for it, and enter with what it gets, without a command.
func TestReadersWaitForTheOneThatAsks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	mu := rwlock.New(newPatient(t, proxy), "a")
	require.NoError(t, must(t, mu, read).Unlock())
	for _, asks := range []*scripts.Script{scripts.RWLockEnter, scripts.RWLockDoor} {
		var before signalbox.Lease
		if asks == scripts.RWLockDoor {
			before = must(t, mu, read)
			require.NoError(t, must(t, mu, read).Unlock())
			pass(2 * rwlock.ShareFor)
		}
		goOn := make(chan struct{})
		arrived := make(chan struct{}, 1)
		proxy.SetMatch(isOf(asks))
		proxy.OnRequest(func(int, []string) {
			select {
			case arrived <- struct{}{}:
			default:
			}
			<-goOn
		})
		leader := later(t.Context(), mu, read)
		within(t, "the request", arrived)
		var waiting []<-chan outcome
		for n := range 20 {
			waiting = append(waiting, follow(t.Context(), t, mu, n+1))
		}
		close(goOn)
		lease := mustHave(t, leader)
		proxy.OnRequest(nil)
		for _, w := range waiting {
			beside := mustHave(t, w)
			require.Equal(t, lease.Token(), beside.Token())
			require.NoError(t, beside.Unlock())
		}
		require.Len(t, holds(t, server, "a"), 1)
		require.NoError(t, lease.Unlock())
		if asks == scripts.RWLockDoor {
			require.Equal(t, lease.Token(), before.Token())
			require.NoError(t, before.Unlock())
		}
		require.Zero(t, mu.Rooms())
	}
}

// led -> led: at a closed door the old hold goes on for those who have it, and those who come stand in line for a new
// one, by one ticket.
func TestAtAClosedDoorTheOldHoldGoesOnAndThoseWhoComeQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	old := []signalbox.Lease{must(t, mu, read), must(t, mu, read)}
	writer := queue(t.Context(), t, server, newLock(t, server, "a"), write, 1)
	pass(2 * rwlock.ShareFor)
	late := []<-chan outcome{queue(t.Context(), t, server, mu, read, 2)}
	for n := range 5 {
		late = append(late, follow(t.Context(), t, mu, n+1))
	}
	require.Equal(t, 2, inLine(t, server, "a"))
	for _, lease := range old {
		require.False(t, isClosed(writer))
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	lease := mustHave(t, writer)
	require.NoError(t, lease.Unlock())
	var leases []signalbox.Lease
	for _, l := range late {
		leases = append(leases, mustHave(t, l))
	}
	for _, l := range leases {
		require.Equal(t, leases[0].Token(), l.Token())
		require.Greater(t, l.Token(), lease.Token())
		require.NoError(t, l.Unlock())
	}
	require.Zero(t, mu.Rooms())
}

// led -> led, led -> empty: a leader whose context ends leaves its place to the next who waits; the last one takes
// it out of the line.
func TestALeaderThatLeavesLeavesItsPlaceToTheNext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	mu := newLock(t, proxy, "a")
	holder := must(t, newLock(t, server, "a"), write)
	proxy.SetMatch(isOf(scripts.RWLockLook))
	ticket := func() any { return server.MustDo(t, "ZRANGE", "sb:{a}:readers", 0, -1, "WITHSCORES") }
	var leave []context.CancelFunc
	var waiting []<-chan outcome
	for n := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leave = append(leave, cancel)
		if n == 0 {
			waiting = append(waiting, queue(ctx, t, server, mu, read, 1))
		} else {
			waiting = append(waiting, follow(ctx, t, mu, n))
		}
	}
	await(t, "a look, after the answer", func() bool { return proxy.Replies() > 0 })
	place := ticket()
	for _, n := range []int{0, 2, 1} { // the leader, one who waits for it, and who leads then
		leave[n]()
		err := mustFail(t, waiting[n])
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, signalbox.ErrHeld)
		require.Equal(t, place, ticket())
	}
	require.NoError(t, holder.Unlock())
	lease := mustHave(t, waiting[3])
	require.NoError(t, lease.Unlock())
	require.Zero(t, mu.Rooms())

	holder = must(t, newLock(t, server, "a"), write)
	ctx, cancel := context.WithCancel(t.Context())
	alone := queue(ctx, t, server, mu, read, 1)
	cancel()
	require.ErrorIs(t, mustFail(t, alone), context.Canceled)
	require.Zero(t, mu.Rooms())
	await(t, "the leaving", func() bool { return inLine(t, server, "a") == 0 })
	require.NoError(t, holder.Unlock())
}

// The next leader goes on where the one before was cut short: also before its entering was answered.
func TestALeaderThatLeavesBeforeItsAnswerLeavesItsAttemptToTheNext(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.CutAfterRequest, redistest.DelayReply, redistest.DelayRequest, redistest.SwallowReply} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			mu := newLock(t, proxy, "a")
			require.NoError(t, must(t, mu, read).Unlock())
			proxy.SetMatch(isOf(scripts.RWLockEnter))
			proxy.ResetCount()
			goOn := make(chan struct{})
			arrived := make(chan struct{}, 1)
			proxy.OnRequest(func(k int, _ []string) {
				if k == 1 {
					arrived <- struct{}{}
					<-goOn
				}
			})
			fault := proxy.Arm(redistest.Fault{Kind: kind, Delay: delay})
			ctx, cancel := context.WithCancel(t.Context())
			leader := later(ctx, mu, read)
			within(t, "the request", arrived)
			next := follow(t.Context(), t, mu, 1)
			close(goOn)
			within(t, "the fault", fault.Fired())
			cancel()
			got := within(t, "the leader's answer", leader)
			lease := mustHave(t, next)
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock())
			if got.err == nil {
				require.NoError(t, got.lease.Unlock()) // the answer was faster
			}
			require.Zero(t, mu.Rooms())
			require.NoError(t, must(t, newLock(t, server, "a"), write).Unlock())
			awaitFree(t, server, "a")
		})
	}
}

// Terms: readers whose holds are not renewed alike have holds of their own.
func TestReadersOfOtherTermsHaveHoldsOfTheirOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	var leases []signalbox.Lease
	for n, options := range [][]signalbox.LockOption{
		nil,
		{signalbox.RenewedLease(time.Minute)},
		{signalbox.RenewedLease(time.Hour)},
		{signalbox.FixedLease(time.Minute)},
		{signalbox.FixedLease(time.Minute)},
		{signalbox.MaxHold(time.Minute)},
		{signalbox.MaxHold(time.Minute)},
	} {
		leases = append(leases, must(t, rwlock.New(s, "a", options...), []side{read, tryRead}[n%2]))
		require.Len(t, holds(t, server, "a"), n+1)
	}
	again := must(t, rwlock.New(s, "a", signalbox.RenewedLease(time.Minute)), read)
	require.Len(t, holds(t, server, "a"), len(leases), "readers of one lease share")
	require.NoError(t, again.Unlock())
	writer := queue(t.Context(), t, server, newLock(t, server, "a"), write, 1)
	for _, lease := range leases {
		require.False(t, isClosed(writer))
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, mustHave(t, writer).Unlock())
	require.Zero(t, rwlock.New(s, "a").Rooms())
}

// P7: those who wait for a leader cost the server one ticket, and the process nothing but their own goroutines.
//
//nolint:paralleltest // goroutines are counted
func TestReadersThatWaitCostNoGoroutineAndOneTicket(t *testing.T) {
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	holder := must(t, newLock(t, server, "a"), write)
	waiting := []<-chan outcome{queue(t.Context(), t, server, mu, read, 1), follow(t.Context(), t, mu, 1)}
	await(t, "a subscription", func() bool {
		channels, _ := server.MustDo(t, "PUBSUB", "CHANNELS", "sb:grants:*").([]any)
		return len(channels) == 1
	})
	before := runtime.NumGoroutine()
	const readers = 300
	for n := range readers {
		waiting = append(waiting, follow(t.Context(), t, mu, n+2))
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before+readers+readers/3)
	require.Equal(t, 1, inLine(t, server, "a"))
	require.NoError(t, holder.Unlock())
	for _, w := range waiting {
		require.NoError(t, mustHave(t, w).Unlock())
	}
	require.Zero(t, mu.Rooms())
}
