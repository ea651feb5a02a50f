// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// taken is when a lease was taken: after early, and before late.
type taken struct{ early, late time.Time }

// each runs a test for writers and readers, whose lease was taken at once, or waited for and granted.
func each(t *testing.T, options []signalbox.LockOption, test func(t *testing.T, server *redistest.Server, at taken, lease signalbox.Lease)) {
	t.Helper()
	for name, side := range map[string]side{"Write": write, "Read": read} {
		for _, granted := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "AtOnce", true: "Granted"}[granted], func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				mu := newLock(t, server, "a", options...)
				early := time.Now()
				var lease signalbox.Lease
				if granted {
					before := must(t, newLock(t, server, "a"), write)
					waiting := queue(t.Context(), t, server, mu, side, 1)
					early = time.Now()
					require.NoError(t, before.Unlock())
					lease = mustHave(t, waiting)
				} else {
					lease = must(t, mu, side)
				}
				test(t, server, taken{early, time.Now()}, lease)
			})
		}
	}
}

// until answers when the only hold of a plain name ends, by the server's clock.
func until(t *testing.T, server *redistest.Server, name string) time.Time {
	t.Helper()
	ends := holds(t, server, name)
	require.Len(t, ends, 1)
	for _, end := range ends {
		return end
	}
	return time.Time{}
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

// P8: what hangs on one reader's lease ends with that, and with no other of its hold.
func TestUnlockOfAReaderEndsNothingOfThoseBesideIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	lease, beside := must(t, mu, read), must(t, mu, read)
	bound, besides := lease.Bind(t.Context()), beside.Bind(t.Context())
	require.NoError(t, lease.Unlock())
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
	require.ErrorIs(t, context.Cause(bound), signalbox.ErrReleased)
	require.NoError(t, besides.Err())
	require.NoError(t, beside.Err())
	require.NoError(t, beside.Unlock())
	require.ErrorIs(t, context.Cause(besides), signalbox.ErrReleased)
}

// P2: at every moment the lease ends before its hold on the server, while renewals move both.
func TestALeaseEndsBeforeItsHoldAcrossRenewals(t *testing.T) {
	t.Parallel()
	each(t, []signalbox.LockOption{signalbox.RenewedLease(steady)},
		func(t *testing.T, server *redistest.Server, at taken, lease signalbox.Lease) {
			t.Helper()
			await(t, "renewals beyond what was granted", func() bool {
				deadline := lease.Deadline() // before the hold's end, which only moves forward
				require.True(t, deadline.Before(until(t, server, "a")))
				require.NoError(t, lease.Err())
				return deadline.Sub(at.late) > prepaid+steady
			})
			require.NoError(t, lease.Unlock())
		})
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
				awaitFree(t, server, "a")
			})
	}
}

// P2: after MaxHold a lease ends with ErrMaxHold, and its hold soon after.
func TestMaxHoldEndsALease(t *testing.T) {
	t.Parallel()
	each(t, []signalbox.LockOption{signalbox.RenewedLease(steady), signalbox.MaxHold(5 * shortest)},
		func(t *testing.T, server *redistest.Server, at taken, lease signalbox.Lease) {
			t.Helper()
			bound := lease.Bind(t.Context())
			within(t, "the end of the lease", lease.Done())
			within(t, "the end of the bound context", bound.Done())
			require.ErrorIs(t, lease.Err(), signalbox.ErrMaxHold)
			require.False(t, lease.Deadline().After(at.late.Add(5*shortest)))
			require.ErrorIs(t, context.Cause(bound), signalbox.ErrMaxHold)
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrMaxHold)
			awaitFree(t, server, "a")
		})
}

// P2: a short lease of one reader ends by itself, and shortens nobody else's: neither of another session, nor of this
// one, nor the key itself.
func TestAShortLeaseOfOneReaderShortensNobodyElses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	long := must(t, rwlock.New(s, "a", signalbox.FixedLease(time.Minute)), read)
	elsewhere := must(t, newLock(t, server, "a", signalbox.FixedLease(time.Minute)), read)
	ends := holds(t, server, "a")
	for _, mu := range []*rwlock.Lock{rwlock.New(s, "a", signalbox.FixedLease(shortest)), newLock(t, server, "a", signalbox.FixedLease(shortest))} {
		short := must(t, mu, read)
		within(t, "the end of the short lease", short.Done())
	}
	await(t, "the end of the short holds", func() bool { return len(holds(t, server, "a")) == 2 })
	require.Equal(t, ends, holds(t, server, "a"))
	keyEnds := integer(t, server.MustDo(t, "PEXPIRETIME", holderKey("a")))
	for _, end := range ends {
		require.GreaterOrEqual(t, keyEnds, end.UnixMilli())
	}
	for _, lease := range []signalbox.Lease{long, elsewhere} {
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
}

// P6, P8: a reader that crashed delays a writer by its own lease, though others read on and renew: a renewal lengthens
// the own hold and nobody else's.
func TestAReaderThatCrashedDelaysAWriterByItsOwnLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	crashed := must(t, newLock(t, proxy, "a", signalbox.RenewedLease(moment)), read)
	living := must(t, newLock(t, server, "a", signalbox.RenewedLease(2*steady)), read)
	writer := queue(t.Context(), t, server, newLock(t, server, "a"), write, 1)
	proxy.HalfOpenAll()
	proxy.Refuse()
	await(t, "the end of the hold, while the other is renewed", func() bool { return len(holds(t, server, "a")) == 1 })
	require.ErrorIs(t, crashed.Err(), signalbox.ErrLost)
	deadline := living.Deadline()
	await(t, "a renewal", func() bool { return living.Deadline().After(deadline) })
	require.False(t, isClosed(writer))
	require.NoError(t, living.Unlock())
	lease := mustHave(t, writer)
	require.Greater(t, lease.Token(), crashed.Token())
	require.NoError(t, lease.Unlock())
	proxy.CutAll()
}

// P8: of what has been given back nothing is renewed, re-entries and shared holds included.
func TestNothingIsRenewedThatWasGivenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	mu := newLock(t, proxy, "a", signalbox.RenewedLease(steady))
	for _, side := range []side{read, write} {
		lease := must(t, mu, side)
		again, err := mu.RLock(lease.Enter(t.Context()))
		require.NoError(t, err)
		leases := []signalbox.Lease{lease, again}
		if beside, err := mu.TryRLock(t.Context()); err == nil {
			leases = append(leases, beside)
		}
		deadline := lease.Deadline()
		await(t, "a renewal", func() bool { return lease.Deadline().After(deadline) })
		for _, lease := range leases {
			require.NoError(t, lease.Unlock())
		}
	}
	proxy.SetMatch(func(request []string) bool { return strings.HasPrefix(strings.ToUpper(request[0]), "EVAL") })
	proxy.ResetCount()
	before := proxy.Requests()
	pass(steady / 2) // a third of it is when it would be renewed
	require.Equal(t, before, proxy.Requests(), proxy.Log())
	require.Zero(t, mu.Rooms())
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
	for _, side := range []side{write, read} {
		lost := must(t, newLock(t, server, "a"), side)
		server.MustDo(t, "DEL", holderKey("a"))
		next := must(t, newLock(t, server, "a"), write)
		require.Greater(t, next.Token(), lost.Token())
		require.ErrorIs(t, lost.Unlock(), signalbox.ErrLost)
		require.True(t, isHeld(t, server, "a"))
		require.ErrorIs(t, second(newLock(t, server, "a").TryRLock(t.Context())), signalbox.ErrHeld)
		require.NoError(t, next.Unlock())
	}
}

// P6: a holder that does not give back hands on when its hold ends, to all who may come in.
func TestThoseWhoWaitHaveTheLockWhenALostHoldEnds(t *testing.T) {
	t.Parallel()
	for name, side := range map[string]side{"Write": write, "Read": read} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			lost := must(t, newLock(t, proxy, "a", signalbox.RenewedLease(steady)), side)
			writer := queue(t.Context(), t, server, newLock(t, server, "a"), write, 1)
			reader := queue(t.Context(), t, server, newLock(t, server, "a"), read, 2)
			proxy.HalfOpenAll()
			proxy.Refuse()
			order := []<-chan outcome{reader, writer} // a writer is done, so the readers come in
			if name == "Read" {
				order = []<-chan outcome{writer, reader}
			}
			lease := mustHave(t, order[0])
			require.ErrorIs(t, lost.Err(), signalbox.ErrLost)
			require.Greater(t, lease.Token(), lost.Token())
			require.False(t, isClosed(order[1]))
			require.NoError(t, lease.Unlock())
			require.NoError(t, mustHave(t, order[1]).Unlock())
			proxy.CutAll()
		})
	}
}

// P2: a frozen server answers no renewal, and leases end in time by themselves; those who wait go on waiting.
func TestAFrozenServerEndsLeasesAtTheirDeadlineAndNoWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a", signalbox.RenewedLease(steady))
	leases := []signalbox.Lease{must(t, mu, read), must(t, mu, read)}
	waiting := queue(t.Context(), t, server, newLock(t, server, "a"), write, 1)
	server.Freeze()
	for _, lease := range leases {
		within(t, "the loss", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	}
	require.False(t, isClosed(waiting))
	await(t, "an empty room", func() bool { return mu.Rooms() == 0 })
	server.Thaw()
	require.NoError(t, mustHave(t, waiting).Unlock())
}

// P4, P5: an Unlock that gets no answer says until when the lock may be held, and goes on in the background.
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
			awaitFree(t, server, "a")
		})
}
