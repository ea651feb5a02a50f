// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// granted answers a lease that was waited for: its hold has on the server what the waiter's
// heartbeats gave.
func granted(t *testing.T, server *redistest.Server, mu *fair.Lock) signalbox.Lease {
	t.Helper()
	lease, _ := grantedAt(t, server, mu)
	return lease
}

// grantedAt is granted, and answers when the lock could not be had yet.
func grantedAt(t *testing.T, server *redistest.Server, mu *fair.Lock) (signalbox.Lease, time.Time) {
	t.Helper()
	before := mustLock(t, fair.New(newSession(t, server), "a"))
	waiting := queue(t.Context(), t, server, mu, "a", 1)
	early := time.Now()
	require.NoError(t, before.Unlock())
	return mustHave(t, waiting), early
}

// taken is when a lease was taken: after early, and before late.
type taken struct{ early, late time.Time }

// each runs a test for a lease that was taken at once, and for one that was waited for.
func each(t *testing.T, options []signalbox.LockOption, test func(t *testing.T, server *redistest.Server, at taken, lease signalbox.Lease)) {
	t.Helper()
	for name, lock := range map[string]func(*testing.T, *redistest.Server, *fair.Lock) (signalbox.Lease, time.Time){
		"AtOnce": func(t *testing.T, _ *redistest.Server, mu *fair.Lock) (signalbox.Lease, time.Time) {
			t.Helper()
			early := time.Now()
			return mustLock(t, mu), early
		},
		"Granted": grantedAt,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			mu := fair.New(newSession(t, server), "a", options...)
			lease, early := lock(t, server, mu)
			test(t, server, taken{early, time.Now()}, lease)
		})
	}
}

// P2: everything that hangs on a lease ends with its own Unlock, and again is ErrNotHeld.
func TestUnlockEndsWhatHangsOnTheLease(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, server *redistest.Server, _ taken, lease signalbox.Lease) {
		t.Helper()
		done := lease.Done()
		bound, entered := lease.Bind(t.Context()), lease.Enter(t.Context())
		require.False(t, isClosed(done))
		require.NoError(t, lease.Err())
		require.NoError(t, bound.Err())
		require.NoError(t, lease.Unlock())
		require.True(t, isClosed(done))
		require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
		for _, ctx := range []context.Context{bound, entered, lease.Bind(t.Context())} {
			require.True(t, isClosed(ctx.Done()))
			require.ErrorIs(t, context.Cause(ctx), signalbox.ErrReleased)
		}
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
		require.False(t, isHeld(t, server, "a"))
	})
}

func TestTheZeroLeaseHoldsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(newSession(t, server), "a")
	held := mustLock(t, mu)
	var lease signalbox.Lease
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
	_, err := mu.TryLock(lease.Enter(t.Context()))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, held.Unlock())
}

// P2: at every moment the lease ends before its hold on the server, while renewals move both; also
// where the lease is shorter than what was granted, and must go on after that.
func TestALeaseEndsBeforeItsHoldAcrossRenewals(t *testing.T) {
	t.Parallel()
	each(t, []signalbox.LockOption{signalbox.RenewedLease(steady)},
		func(t *testing.T, server *redistest.Server, at taken, lease signalbox.Lease) {
			t.Helper()
			await(t, "renewals beyond what was granted", func() bool {
				deadline := lease.Deadline() // before the hold's end, which only moves forward
				require.True(t, deadline.Before(until(t, server, "a")))
				require.NoError(t, lease.Err())
				require.LessOrEqual(t, time.Until(deadline), steady)
				return deadline.Sub(at.late) > prepaid+steady
			})
			require.NoError(t, lease.Unlock())
		})
}

// P2: a hold that was granted is renewed to its full length, a third into what that gave.
func TestAGrantedHoldIsRenewedToItsFullLength(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	requests(proxy, scripts.HolderRenew)
	looked := make(chan struct{})
	proxy.OnRequest(func(int, []string) { <-looked })
	goOn := sync.OnceFunc(func() { close(looked) })
	defer goOn()
	lease := granted(t, server, fair.New(newSession(t, proxy), "a"))
	require.Less(t, time.Until(lease.Deadline()), prepaid)
	goOn()
	await(t, "a renewal", func() bool { return time.Until(lease.Deadline()) > 20*time.Second })
	require.Greater(t, until(t, server, "a").Sub(serverTime(t, server)), 20*time.Second)
	require.NoError(t, lease.Unlock())
}

// P2: a fixed lease is lost when its time is over, however much was granted.
func TestAFixedLeaseEndsInTime(t *testing.T) {
	t.Parallel()
	for _, life := range []time.Duration{3 * shortest, prepaid + 5*shortest} {
		each(t, []signalbox.LockOption{signalbox.FixedLease(life)},
			func(t *testing.T, server *redistest.Server, at taken, lease signalbox.Lease) {
				t.Helper()
				bound := lease.Bind(t.Context())
				within(t, "the end of the lease", lease.Done())
				require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
				require.False(t, lease.Deadline().After(at.late.Add(life)), "not later than it says, whatever was granted")
				require.False(t, time.Now().Before(at.early.Add(life*9/10-shortest)))
				within(t, "the end of the bound context", bound.Done())
				require.ErrorIs(t, context.Cause(bound), signalbox.ErrLost)
				require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
				require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
				await(t, "the end of the hold", func() bool { return !isHeld(t, server, "a") })
			})
	}
}

// P7: one that was taken at once is never renewed, and one that was granted less than it asked for is
// until it has that.
func TestAFixedLeaseIsRenewedNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newSession(t, proxy)
	for _, c := range []struct {
		life  time.Duration
		waits bool
		needs bool
	}{{shortest, false, false}, {shortest, true, false}, {prepaid + 5*shortest, false, false}, {prepaid + 5*shortest, true, true}} {
		mu := fair.New(s, "a", signalbox.FixedLease(c.life))
		proxy.SetMatch(func(request []string) bool { // that ask for more time, and do not only ask
			return len(request) > 1 && (request[1] == scripts.HolderRenew.SHA1 || request[1] == scripts.HolderRenew.Source) &&
				request[len(request)-1] != "0"
		})
		proxy.ResetCount()
		var lease signalbox.Lease
		if c.waits {
			lease = granted(t, server, mu)
		} else {
			lease = mustLock(t, mu)
		}
		within(t, "the end of the lease", lease.Done())
		require.Equal(t, c.needs, proxy.Requests() > 0, c)
		await(t, "the end of the hold", func() bool { return !isHeld(t, server, "a") })
	}
}

// P2: after MaxHold a lease ends with ErrMaxHold, and its hold soon after.
func TestMaxHoldEndsALease(t *testing.T) {
	t.Parallel()
	for _, maxHold := range []time.Duration{2 * shortest, steady + 20*shortest} {
		each(t, []signalbox.LockOption{signalbox.RenewedLease(steady), signalbox.MaxHold(maxHold)},
			func(t *testing.T, server *redistest.Server, at taken, lease signalbox.Lease) {
				t.Helper()
				bound := lease.Bind(t.Context())
				within(t, "the end of the lease", lease.Done())
				within(t, "the end of the bound context", bound.Done())
				require.ErrorIs(t, lease.Err(), signalbox.ErrMaxHold)
				require.False(t, lease.Deadline().After(at.late.Add(maxHold)), "not later than it says, whatever was granted")
				require.False(t, time.Now().Before(at.early.Add(maxHold*8/10-shortest)))
				require.ErrorIs(t, context.Cause(bound), signalbox.ErrMaxHold)
				require.ErrorIs(t, lease.Unlock(), signalbox.ErrMaxHold)
				await(t, "the end of the hold", func() bool { return !isHeld(t, server, "a") })
			})
	}
}

// P2: what a stranger did to the key is told by the next renewal, long before the deadline.
func TestADeletedKeyIsToldByTheNextRenewal(t *testing.T) {
	t.Parallel()
	each(t, []signalbox.LockOption{signalbox.RenewedLease(10 * shortest)},
		func(t *testing.T, server *redistest.Server, _ taken, lease signalbox.Lease) {
			t.Helper()
			server.MustDo(t, "DEL", holderKey("a"))
			within(t, "the loss", lease.Done())
			require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		})
}

// P8: a release after a stranger's DEL says so, and leaves the next holder alone.
func TestUnlockAfterADeletedKeyIsErrLostAndSparesTheNextHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lost := mustLock(t, fair.New(newSession(t, server), "a"))
	server.MustDo(t, "DEL", holderKey("a"))
	next := mustLock(t, fair.New(newSession(t, server), "a"))
	require.Greater(t, next.Token(), lost.Token())
	require.ErrorIs(t, lost.Unlock(), signalbox.ErrLost)
	require.True(t, isHeld(t, server, "a"))
	require.NoError(t, next.Unlock())
}

// P6: a holder that does not give back hands on when its hold ends.
func TestAWaiterHasTheLockWhenALostHoldEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	lost := mustLock(t, fair.New(newSession(t, proxy), "a", signalbox.RenewedLease(steady)))
	waiting := queue(t.Context(), t, server, fair.New(newSession(t, server), "a"), "a", 1)
	proxy.HalfOpenAll()
	proxy.Refuse()
	lease := mustHave(t, waiting)
	require.ErrorIs(t, lost.Err(), signalbox.ErrLost)
	require.Greater(t, lease.Token(), lost.Token())
	require.NoError(t, lease.Unlock())
	proxy.CutAll()
}

// P2: a frozen server answers no renewal, and the lease ends in time by itself; those who wait go on
// waiting.
func TestAFrozenServerEndsLeasesAtTheirDeadlineAndNoWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := mustLock(t, fair.New(newSession(t, server), "a", signalbox.RenewedLease(steady)))
	waiting := queue(t.Context(), t, server, fair.New(newSession(t, server), "a"), "a", 1)
	server.Freeze()
	within(t, "the loss", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.False(t, isClosed(waiting))
	server.Thaw()
	require.NoError(t, mustHave(t, waiting).Unlock())
}

// P4, P5: an Unlock that gets no answer says until when the lock may be held, and goes on
// in the background.
func TestAnUnconfirmedUnlockIsFinishedInTheBackground(t *testing.T) {
	t.Parallel()
	each(t, []signalbox.LockOption{signalbox.RenewedLease(steady)},
		func(t *testing.T, server *redistest.Server, _ taken, lease signalbox.Lease) {
			t.Helper()
			server.Freeze()
			began := time.Now()
			err := lease.Unlock()
			require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
			var unconfirmed *signalbox.UnconfirmedError
			require.ErrorAs(t, err, &unconfirmed)
			require.WithinRange(t, unconfirmed.KeyEnds, began.Add(steady), began.Add(prepaid+patience))
			require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
			server.Thaw()
			await(t, "the release", func() bool { return !isHeld(t, server, "a") })
		})
}

// P4: the request for which a lock was held may be over when the lock is given back.
func TestUnlockWorksAfterTheEndOfTheRequest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := fair.New(newSession(t, server), "a").Lock(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.False(t, isHeld(t, server, "a"))
}
