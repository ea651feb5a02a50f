// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P7: entering again makes no round trip and allocates nothing, to write and to read; a writer may read.
func TestEnteringAgainSendsNoCommandAndAllocatesNothing(t *testing.T) {
	server := redistest.Start(t)
	mu := rwlock.New(newPoller(t, server), "a", signalbox.RenewedLease(time.Hour))
	for _, c := range []struct {
		outer side
		inner []side
	}{{write, []side{write, read, tryWrite, tryRead}}, {read, []side{read, tryRead}}} {
		lease := must(t, mu, c.outer)
		ctx := lease.Enter(t.Context())
		for n, enter := range c.inner {
			var allocated float64
			require.Empty(t, sentBy(server, func() {
				allocated = testing.AllocsPerRun(100, func() {
					again, err := enter(mu, ctx)
					if err != nil || again.Token() != lease.Token() || again.Err() != nil {
						t.Error("not entered again", n, err)
					}
					if err := again.Unlock(); err != nil {
						t.Error(err)
					}
				})
			}))
			require.Zero(t, allocated, n)
		}
		require.NoError(t, lease.Unlock())
	}
}

// A reader enters again past a writer that waits, and so does a writer past everybody: else each would wait for the
// other.
func TestEnteringAgainDoesNotQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	for _, side := range []side{write, read} {
		lease := must(t, mu, side)
		waiting := queue(t.Context(), t, server, newLock(t, server, "a"), write, 1)
		pass(2 * rwlock.ShareFor)
		for _, enter := range []func(context.Context) (signalbox.Lease, error){mu.RLock, mu.TryRLock} {
			again, err := enter(lease.Enter(t.Context()))
			require.NoError(t, err)
			require.Equal(t, lease.Token(), again.Token())
			require.NoError(t, again.Unlock())
		}
		require.False(t, isClosed(waiting))
		require.NoError(t, lease.Unlock())
		require.NoError(t, mustHave(t, waiting).Unlock())
	}
}

// P8: the hold goes with the last of its leases, whichever they are.
func TestTheLockGoesOnWithTheLastOfItsLeases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	for _, outer := range []side{write, read} {
		for _, unlockOuterFirst := range []bool{true, false} {
			lease := must(t, mu, outer)
			inner, err := mu.RLock(lease.Enter(t.Context()))
			require.NoError(t, err)
			waiting := queue(t.Context(), t, server, newLock(t, server, "a"), write, 1)
			first, last := lease, inner
			if !unlockOuterFirst {
				first, last = inner, lease
			}
			require.NoError(t, first.Unlock())
			require.NoError(t, last.Err())
			require.True(t, isHeld(t, server, "a"))
			require.False(t, isClosed(waiting))
			require.NoError(t, last.Unlock())
			require.NoError(t, mustHave(t, waiting).Unlock())
		}
	}
}

// A reader that asks to write is told at once, without a command: two that waited would wait for each other for ever.
func TestAReaderThatAsksToWriteIsErrUpgradeAtOnce(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	mus := newLocks(t, proxy, 2)
	leases := []signalbox.Lease{must(t, mus[0], read), must(t, mus[1], read)}
	// A session that begins to listen asks whether its holds are there still.
	scripted, asks := redistest.Commands("EVAL", "EVALSHA"), isOf(scripts.HoldsRenew)
	proxy.SetMatch(func(request []string) bool { return scripted(request) && !asks(request) })
	proxy.ResetCount()
	for n, mu := range mus {
		ctx := leases[n].Enter(t.Context())
		for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx)} {
			for _, ask := range []side{write, tryWrite} {
				lease, err := ask(mu, ctx)
				require.ErrorIs(t, err, signalbox.ErrUpgrade)
				require.Equal(t, signalbox.Lease{}, lease)
			}
			require.ErrorIs(t, mu.Do(ctx, func(context.Context, signalbox.Lease) error {
				t.Error("a reader writes")
				return nil
			}), signalbox.ErrUpgrade)
		}
	}
	require.Zero(t, proxy.Requests())
	for _, lease := range leases {
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, must(t, mus[0], write).Unlock())
}

// Whoever gives its lease back asks as everybody else, and two that do come in one behind the other.
func TestTwoReadersThatWantToWriteDoSoOneBehindTheOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := newLocks(t, server, 2)
	done := make(chan outcome, 2)
	for _, mu := range mus {
		lease := must(t, mu, read)
		go func() {
			_, err := mu.Lock(lease.Enter(t.Context()))
			if err == nil {
				t.Error("a reader writes")
			}
			_ = lease.Unlock()
			lease, err := mu.Lock(t.Context())
			if err == nil {
				err = lease.Unlock()
			}
			done <- outcome{lease, err}
		}()
	}
	require.NotEqual(t, mustHave(t, done).Token(), mustHave(t, done).Token())
}

// P1: a carried lease that has ended is an error, never a new acquire, on either side.
func TestACarriedLeaseThatHasEndedNeverAcquires(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, short := newLock(t, server, "a"), newLock(t, server, "b", signalbox.FixedLease(shortest))
	for _, outer := range []side{write, read} {
		released := must(t, mu, outer)
		ctx := released.Enter(t.Context())
		require.NoError(t, released.Unlock())
		lost := must(t, short, outer)
		within(t, "the end of the lease", lost.Done())
		for _, c := range []struct {
			mu   *rwlock.Lock
			ctx  context.Context
			want error
		}{
			{mu, ctx, signalbox.ErrReleased},
			{mu, context.WithoutCancel(ctx), signalbox.ErrReleased},
			{short, lost.Enter(t.Context()), signalbox.ErrLost},
			{short, context.WithoutCancel(lost.Enter(t.Context())), signalbox.ErrLost},
		} {
			for _, enter := range []side{read, tryRead} {
				require.ErrorIs(t, second(enter(c.mu, c.ctx)), c.want)
			}
		}
		awaitFree(t, server, "b")
	}
}

// P1: leases of another session or name mean nothing here, nor do bound contexts.
func TestOnlyACarriedLeaseOfTheSessionEnters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	lease := must(t, mu, write)
	for _, enter := range []side{tryWrite, tryRead} {
		require.ErrorIs(t, second(enter(newLock(t, server, "a"), lease.Enter(t.Context()))), signalbox.ErrHeld)
		require.ErrorIs(t, second(enter(mu, lease.Bind(t.Context()))), signalbox.ErrHeld)
		other, err := enter(newLock(t, server, "b"), lease.Enter(t.Context()))
		require.NoError(t, err)
		require.NotEqual(t, lease.Token(), other.Token())
		require.NoError(t, other.Unlock())
	}
	require.NoError(t, lease.Unlock())
}

// P3: all entries of a hold have its token, and its terms: a fixed lease is not lengthened by entering again, as where
// the times of all entries add up, nor a renewed one cut short.
func TestEnteringAgainKeepsTokenAndTerms(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	for _, outer := range []side{write, read} {
		lease := must(t, rwlock.New(s, "a", signalbox.FixedLease(time.Minute)), outer)
		ends := holds(t, server, "a")
		for n := range 5 {
			option := []signalbox.LockOption{signalbox.FixedLease(shortest), signalbox.RenewedLease(time.Hour)}[n%2]
			again, err := rwlock.New(s, "a", option).RLock(lease.Enter(t.Context()))
			require.NoError(t, err)
			require.Equal(t, lease.Token(), again.Token())
			require.WithinDuration(t, lease.Deadline(), again.Deadline(), time.Second)
		}
		require.Equal(t, ends, holds(t, server, "a"))
		require.NoError(t, lease.Err())
		require.NoError(t, rwlock.New(s, "a").ForceUnlock(t.Context()))
		within(t, "the loss", lease.Done())
	}
}
