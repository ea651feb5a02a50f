// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// keyEnds answers when the holder key of a plain name ends, by the clock that the server shares
// with this process.
func keyEnds(t *testing.T, server *redistest.Server, name string) time.Time {
	t.Helper()
	// -2 where there is none: a time long over.
	return time.UnixMilli(integer(t, server.MustDo(t, "PEXPIRETIME", holderKey(name))))
}

// P2: at every moment the lease ends before its key, while renewals move both.
func TestALeaseEndsBeforeItsKeyAcrossRenewals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := mustLock(t, reentrant.New(newSession(t, server), "a", signalbox.RenewedLease(steady)))
	sent := sentBy(server, func() {
		first := lease.Deadline()
		await(t, "a few renewals", func() bool {
			deadline := lease.Deadline() // before the key's end, which only moves forward
			require.True(t, deadline.Before(keyEnds(t, server, "a")))
			return deadline.Sub(first) > steady/2
		})
	})
	require.GreaterOrEqual(t, sent["pexpire"], int64(2))
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
}

// P2: a fixed lease is lost when its time is over, before its key ends, and is never renewed.
func TestAFixedLeaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a", signalbox.FixedLease(moment))
	require.NoError(t, mustLock(t, mu).Unlock()) // teaches the server the scripts
	sent := sentBy(server, func() {
		lease := mustLock(t, mu)
		bound := lease.Bind(t.Context())
		require.LessOrEqual(t, time.Until(lease.Deadline()), moment)
		require.True(t, lease.Deadline().Before(keyEnds(t, server, "a")))
		within(t, "the end of the lease", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		within(t, "the end of the bound context", bound.Done())
		require.ErrorIs(t, context.Cause(bound), signalbox.ErrLost)
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		await(t, "the end of the key", func() bool { return !isHeld(t, server, "a") })
	})
	require.Zero(t, sent["pexpire"])
}

// P2: after MaxHold a lease ends with ErrMaxHold. Renewals were trimmed to that, so that the key
// ends just after by itself, also where nobody can give it back.
func TestMaxHoldEndsARenewedLeaseAndItsKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetMatch(func(request []string) bool {
		return len(request) > 1 && request[1] == scripts.ReentrantWithdraw.SHA1
	})
	proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest})
	const maxHold = steady * 4 / 3
	mu := reentrant.New(newSession(t, proxy), "a", signalbox.RenewedLease(steady), signalbox.MaxHold(maxHold))
	lease := mustLock(t, mu)
	latest := time.Now().Add(maxHold + steady/2) // just after is later on a busy machine; untrimmed is later still
	bound := lease.Bind(t.Context())
	first := lease.Deadline()
	await(t, "the end of the lease", func() bool {
		if isHeld(t, server, "a") {
			require.False(t, keyEnds(t, server, "a").After(latest))
		}
		return isClosed(lease.Done())
	})
	require.True(t, lease.Deadline().After(first), "it was renewed")
	require.ErrorIs(t, lease.Err(), signalbox.ErrMaxHold)
	within(t, "the end of the bound context", bound.Done())
	require.ErrorIs(t, context.Cause(bound), signalbox.ErrMaxHold)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrMaxHold)
	await(t, "the end of the key", func() bool { return !isHeld(t, server, "a") })
	proxy.CutAll() // or closing the client would wait for an answer
}

// P2: also where it is shorter than the lease, which then needs no renewal.
func TestMaxHoldEndsALeaseThatIsLonger(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a", signalbox.MaxHold(moment))
	lease := mustLock(t, mu)
	require.False(t, keyEnds(t, server, "a").After(time.Now().Add(moment)))
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrMaxHold)
	next := mustLock(t, mu)
	require.NoError(t, next.Err())
	require.NoError(t, next.Unlock())
}

// P2: what a stranger did to the key is told by the next renewal, long before the deadline.
func TestADeletedKeyIsToldByTheNextRenewal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := mustLock(t, reentrant.New(newSession(t, server), "a", signalbox.RenewedLease(2*steady)))
	bound := lease.Bind(t.Context())
	server.MustDo(t, "DEL", holderKey("a"))
	deadline := lease.Deadline()
	within(t, "the loss", lease.Done())
	require.True(t, time.Now().Before(deadline))
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	within(t, "the end of the bound context", bound.Done())
	require.ErrorIs(t, context.Cause(bound), signalbox.ErrLost)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
}

// P8: a release after a stranger's DEL says so, and leaves the next holder alone.
func TestUnlockAfterADeletedKeyIsErrLostAndSparesTheNextHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lost := mustLock(t, reentrant.New(newSession(t, server), "a"))
	server.MustDo(t, "DEL", holderKey("a"))
	next := mustLock(t, reentrant.New(newSession(t, server), "a"))
	require.Greater(t, next.Token(), lost.Token())
	require.ErrorIs(t, lost.Unlock(), signalbox.ErrLost)
	require.True(t, isHeld(t, server, "a"))
	require.NoError(t, next.Unlock())
}

// P8: a renewal prolongs its own hold only.
func TestARenewalSparesTheNextHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lost := mustLock(t, reentrant.New(newSession(t, server), "a", signalbox.RenewedLease(moment)))
	server.MustDo(t, "DEL", holderKey("a"))
	next := mustLock(t, reentrant.New(newSession(t, server), "a", signalbox.FixedLease(longest)))
	ends := keyEnds(t, server, "a")
	within(t, "the loss", lost.Done())
	require.Equal(t, ends, keyEnds(t, server, "a"))
	require.NoError(t, next.Unlock())
}

// P2, P6: a server that restarts empty takes the leases with it, and those who wait for it live on.
func TestARestartedServerEndsLeasesAndServesWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := mustLock(t, reentrant.New(newSession(t, server), "a", signalbox.RenewedLease(steady)))
	waiting := contend(t.Context(), t, server, reentrant.New(newSession(t, server), "a"), "a")
	server.Restart()
	got := within(t, "the lock of the restarted server", waiting)
	require.NoError(t, got.err)
	require.Greater(t, got.lease.Token(), lease.Token())
	within(t, "the loss", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.NoError(t, got.lease.Err())
	require.NoError(t, got.lease.Unlock())
}

// P2: a frozen server answers no renewal, and the lease ends in time by itself.
func TestAFrozenServerEndsLeasesAtTheirDeadline(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := mustLock(t, reentrant.New(newSession(t, server), "a", signalbox.RenewedLease(3*shortest)))
	server.Freeze()
	deadline := lease.Deadline()
	await(t, "the loss", func() bool {
		looked := time.Now()
		err := lease.Err()
		if err == nil {
			// One renewal may have been answered that was on its way.
			require.True(t, looked.Before(lease.Deadline()))
			return false
		}
		require.ErrorIs(t, err, signalbox.ErrLost)
		return true
	})
	require.False(t, time.Now().Before(deadline))
	require.True(t, isClosed(lease.Done()))
	server.Thaw()
	await(t, "the end of the key", func() bool { return !isHeld(t, server, "a") })
}

// P4, P5: an Unlock that gets no answer says until when the lock may be held, and goes on
// in the background.
func TestAnUnconfirmedUnlockIsFinishedInTheBackground(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := mustLock(t, reentrant.New(impatient(newSession(t, server)), "a"))
	server.Freeze()
	began := time.Now()
	err := lease.Unlock()
	require.Less(t, time.Since(began), 20*time.Second, "it waited for the end of the lease")
	require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
	var unconfirmed *signalbox.UnconfirmedError
	require.ErrorAs(t, err, &unconfirmed)
	require.WithinDuration(t, began.Add(30*time.Second), unconfirmed.KeyEnds, patience)
	require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
	server.Thaw()
	await(t, "the release", func() bool { return !isHeld(t, server, "a") })
}

// P4: Unlock waits for a second, also where somebody waits behind it in the process.
func TestAnUnlockThatPassesOnIsNotSlowerThanOneThatReleases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, n := impatient(newSession(t, oneConnection{server})), 0
	// They are compared in time: a machine that runs the one and not the other may need another try.
	await(t, "one that passes on and is not slower", func() bool {
		n++
		passing, releasing := unlockBoth(t, server, s, fmt.Sprint(n))
		return passing < releasing+session.UnlockPatience*2/3
	})
}

// unlockBoth unlocks a lock that somebody waits for in the session, and one that nobody waits for, while the server is frozen, and
// answers how long each took.
func unlockBoth(t *testing.T, server *redistest.Server, s *signalbox.Session, name string) (passing, releasing time.Duration) {
	t.Helper()
	mu := reentrant.New(s, name)
	lease, other := mustLock(t, mu), mustLock(t, reentrant.New(s, "beside "+name))
	waiting := queue(t.Context(), t, mu)
	// Passing on takes no round trip for 20 ms; after that the server is asked.
	held := time.Now()
	await(t, "the end of the budget of passing", func() bool { return time.Since(held) > 50*time.Millisecond })
	server.Freeze()
	began := time.Now()
	took := func(lease signalbox.Lease) <-chan time.Duration {
		answered := make(chan time.Duration, 1)
		go func() {
			assert.ErrorIs(t, lease.Unlock(), signalbox.ErrUnconfirmed)
			answered <- time.Since(began)
		}()
		return answered
	}
	// At the same time, so that a machine that stalls holds up both.
	first, second := took(lease), took(other)
	passing, releasing = within(t, "the one that passes on", first), within(t, "the one that releases", second)
	server.Thaw()
	got := within(t, "the waiter", waiting)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock())
	return passing, releasing
}
