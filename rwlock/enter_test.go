// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P7: entering again makes no round trip and allocates nothing, to write and to read; a writer may read.
func TestEnteringAgainSendsNoCommandAndAllocatesNothing(t *testing.T) {
	w := alone(t)
	mu := rwlock.New(w.poller(), w.name, signalbox.RenewedLease(time.Hour))
	for _, c := range []struct {
		outer side
		inner []side
	}{{write, []side{write, read, tryWrite, tryRead}}, {read, []side{read, tryRead}}} {
		lease := must(t, mu, c.outer)
		ctx := lease.Enter(t.Context())
		for n, enter := range c.inner {
			var allocated float64
			require.Empty(t, w.server.SentBy(func() {
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
	w := here(t)
	mu := w.lock()
	for _, side := range []side{write, read} {
		lease := must(t, mu, side)
		waiting := w.queue(t.Context(), w.lock(), write, 1)
		aged()
		for _, enter := range []func(context.Context) (signalbox.Lease, error){mu.RLock, mu.TryRLock} {
			again, err := enter(lease.Enter(t.Context()))
			require.NoError(t, err)
			require.Equal(t, lease.Token(), again.Token())
			require.NoError(t, again.Unlock())
		}
		require.False(t, locktest.IsClosed(waiting))
		require.NoError(t, lease.Unlock())
		require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	}
}

// P8: the hold goes with the last of its leases, whichever they are.
func TestTheLockGoesOnWithTheLastOfItsLeases(t *testing.T) {
	t.Parallel()
	w := here(t)
	mu := w.lock()
	for _, outer := range []side{write, read} {
		for _, unlockOuterFirst := range []bool{true, false} {
			lease := must(t, mu, outer)
			inner, err := mu.RLock(lease.Enter(t.Context()))
			require.NoError(t, err)
			waiting := w.queue(t.Context(), w.lock(), write, 1)
			first, last := lease, inner
			if !unlockOuterFirst {
				first, last = inner, lease
			}
			require.NoError(t, first.Unlock())
			require.NoError(t, last.Err())
			require.True(t, w.isHeld())
			require.False(t, locktest.IsClosed(waiting))
			require.NoError(t, last.Unlock())
			require.NoError(t, locktest.MustHave(t, waiting).Unlock())
		}
	}
}

// A reader that asks to write is told at once, without a command: two that waited would wait for each other for ever.
func TestAReaderThatAsksToWriteIsErrUpgradeAtOnce(t *testing.T) {
	t.Parallel()
	w := here(t)
	proxy := w.proxy()
	mus := []*rwlock.Lock{w.lockAt(proxy), w.lockAt(proxy)}
	leases := []signalbox.Lease{must(t, mus[0], read), must(t, mus[1], read)}
	// A session that begins to listen asks whether its holds are there still.
	scripted, asks := redistest.Commands("EVAL", "EVALSHA"), locktest.Runs(scripts.HoldsRenew)
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
	w := here(t)
	mus := w.locks(2)
	done := make(chan result, 2)
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
			done <- result{Value: lease, Err: err}
		}()
	}
	require.NotEqual(t, locktest.MustHave(t, done).Token(), locktest.MustHave(t, done).Token())
}

// P1: leases of another session or name mean nothing here, nor do bound contexts.
func TestOnlyACarriedLeaseOfTheSessionEnters(t *testing.T) {
	t.Parallel()
	w := here(t)
	mu := w.lock()
	lease := must(t, mu, write)
	for _, enter := range []side{tryWrite, tryRead} {
		require.ErrorIs(t, second(enter(w.lock(), lease.Enter(t.Context()))), signalbox.ErrHeld)
		require.ErrorIs(t, second(enter(mu, lease.Bind(t.Context()))), signalbox.ErrHeld)
		other, err := enter(w.of("b").lock(), lease.Enter(t.Context()))
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
	w := here(t)
	s := w.session()
	for _, outer := range []side{write, read} {
		lease := must(t, rwlock.New(s, w.name, signalbox.FixedLease(time.Minute)), outer)
		ends := w.holds()
		for n := range 5 {
			option := []signalbox.LockOption{signalbox.FixedLease(time.Second), signalbox.RenewedLease(time.Hour)}[n%2]
			again, err := rwlock.New(s, w.name, option).RLock(lease.Enter(t.Context()))
			require.NoError(t, err)
			require.Equal(t, lease.Token(), again.Token())
			require.WithinDuration(t, lease.Deadline(), again.Deadline(), time.Second)
		}
		require.Equal(t, ends, w.holds())
		require.NoError(t, lease.Err())
		require.NoError(t, rwlock.New(s, w.name).ForceUnlock(t.Context()))
		redistest.Receive(t, "the loss", lease.Done())
	}
}
