// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/rwlock"
)

const rwLife = 6 * time.Second

// P2: at every moment a lease expires before its hold on the server, while renewals lengthen both.
func TestRWLeaseExpiresBeforeItsHold(t *testing.T) {
	t.Parallel()
	eachRWContention(t, []signalbox.LockOption{signalbox.WithRenewedLease(rwLife)}, func(t *testing.T, r rwCrowd) {
		for range 200 {
			require.NoError(t, r.lease.Err())
			require.Positive(t, time.Until(r.lease.Deadline()))
			ends := r.rwEnds("a")
			require.Len(t, ends, 1)
			for _, end := range ends {
				require.True(t, r.lease.Deadline().Before(end))
			}
			time.Sleep(103 * time.Millisecond)
		}
		require.NoError(t, r.lease.Unlock())
		require.ErrorIs(t, r.lease.Err(), signalbox.ErrReleased)
		r.rwFree(t)
	})
}

// P2: a lease with an end of its own expires by then, whatever was granted to a waiter, and the lock is free soon after.
func TestRWLeaseWithAnEndExpiresInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct { //nolint:paralleltest // counts all goroutines
		options []signalbox.LockOption
		lasts   time.Duration
		why     error
	}{
		"ShortFixedLease": {[]signalbox.LockOption{signalbox.WithFixedLease(300 * time.Millisecond)}, 300 * time.Millisecond, signalbox.ErrLost},
		"FixedLease":      {[]signalbox.LockOption{signalbox.WithFixedLease(10 * time.Second)}, 10 * time.Second, signalbox.ErrLost},
		"MaxHold":         {[]signalbox.LockOption{signalbox.WithRenewedLease(rwLife), signalbox.WithMaxHold(500 * time.Millisecond)}, 500 * time.Millisecond, signalbox.ErrMaxHold},
	} {
		t.Run(name, func(t *testing.T) {
			eachRWContention(t, c.options, func(t *testing.T, r rwCrowd) {
				bound := r.lease.Bind(t.Context())
				<-r.lease.Done()
				require.WithinRange(t, time.Now(), r.requestedAt.Add(c.lasts*9/10-10*time.Millisecond), r.requestedAt.Add(c.lasts+10*time.Millisecond))
				require.ErrorIs(t, r.lease.Err(), c.why)
				<-bound.Done()
				require.ErrorIs(t, context.Cause(bound), c.why)
				require.ErrorIs(t, r.lease.Unlock(), c.why)
				require.NoError(t, atOnce(t, r.writer).Unlock())
				require.Less(t, time.Since(r.requestedAt), c.lasts+4*time.Second)
			})
		})
	}
}

// P2: a short lease of one reader shortens no other hold, neither of its session nor of another, and not the key.
func TestRWShortReaderShortensNoOtherHold(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, time.Millisecond)
		defer closeAll()
		var long []signalbox.Lease
		for _, u := range users {
			long = append(long, atOnce(t, locktest.Reader().New(u.Session, "a", signalbox.WithFixedLease(time.Minute))))
		}
		ends := f.rwEnds("a")
		require.Len(t, ends, 2)
		for _, u := range users {
			short := atOnce(t, locktest.Reader().New(u.Session, "a", signalbox.WithFixedLease(100*time.Millisecond)))
			require.Len(t, f.rwEnds("a"), 3)
			<-short.Done()
			time.Sleep(time.Second)
			require.Equal(t, ends, f.rwEnds("a"))
		}
		for _, end := range ends {
			require.GreaterOrEqual(t, f.redis.TTL(locktest.Key("a")), time.Until(end))
		}
		for _, lease := range long {
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock())
		}
	})
}

// P2: the shortest and the longest terms are kept by both sides.
func TestRWShortestAndLongestTermsWork(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		s, _, closeAll := f.session(t)
		defer closeAll()
		for _, d := range []time.Duration{100 * time.Millisecond, 24 * time.Hour} {
			for _, option := range []signalbox.LockOption{signalbox.WithRenewedLease(d), signalbox.WithFixedLease(d), signalbox.WithMaxHold(d)} {
				for _, side := range []locktest.Primitive{locktest.Writer(), locktest.Reader()} {
					lease := atOnce(t, side.New(s, "a", option, nil))
					require.LessOrEqual(t, time.Until(lease.Deadline()), d)
					require.NoError(t, lease.Err())
					require.NoError(t, lease.Unlock())
				}
			}
		}
	})
}

// P2: a holder whose key was deleted is notified by the next renewal, and the next holder is left alone.
func TestRWDeletedKeyIsReportedByTheNextRenewal(t *testing.T) {
	t.Parallel()
	eachRWContention(t, []signalbox.LockOption{signalbox.WithRenewedLease(rwLife)}, func(t *testing.T, r rwCrowd) {
		time.Sleep(2 * rwLife)
		r.redis.FlushAll()
		deleted := time.Now()
		next := atOnce(t, r.writer)
		<-r.lease.Done()
		require.LessOrEqual(t, time.Since(deleted), rwLife/3+10*time.Millisecond)
		require.ErrorIs(t, r.lease.Err(), signalbox.ErrLost)
		require.ErrorIs(t, r.lease.Unlock(), signalbox.ErrLost)
		require.NoError(t, next.Err())
		_, err := r.reader.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
		require.NoError(t, next.Unlock())
	})
}

// P7, P8: nothing is renewed that was released, re-entries and shared holds included, and an idle session sends nothing.
func TestRWReleasedHoldIsNeverRenewed(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, time.Millisecond)
		defer closeAll()
		lock := rwlock.New(users[0].Session, "a", signalbox.WithRenewedLease(rwLife))
		for _, side := range []locktest.Lock{lock, locktest.Reader().New(users[0].Session, "a", signalbox.WithRenewedLease(rwLife))} {
			for range 10 {
				lease := atOnce(t, side)
				again, err := lock.RLock(lease.Enter(t.Context()))
				require.NoError(t, err)
				leases := []signalbox.Lease{lease, again}
				if beside, err := lock.TryRLock(t.Context()); err == nil {
					leases = append(leases, beside)
				}
				reader, writer := queuedAndListening(t.Context(), locktest.Reader().New(users[1].Session, "a")), queuedAndListening(t.Context(), rwlock.New(users[1].Session, "a"))
				before := lease.Deadline()
				time.Sleep(rwLife)
				require.True(t, lease.Deadline().After(before))
				for _, lease := range leases {
					require.NoError(t, lease.Unlock())
				}
				for _, got := range []<-chan lockResult{reader, writer} {
					h := <-got
					require.NoError(t, h.err)
					require.NoError(t, h.lease.Unlock())
				}
			}
		}
		time.Sleep(2 * time.Minute)
		require.Empty(t, f.redis.PubSubChannels("*"))
		requested := f.commands.Load()
		time.Sleep(time.Hour)
		require.Equal(t, requested, f.commands.Load())
		require.Zero(t, goroutines())
		f.keysEnd(t)
	})
}

// P6: the lock of a holder that is cut off goes to the waiters when its hold expires: the other side first, and all readers
// beside each other.
func TestRWLostHoldIsHandedOverWhenItExpires(t *testing.T) {
	t.Parallel()
	eachRWContention(t, []signalbox.LockOption{signalbox.WithRenewedLease(rwLife)}, func(t *testing.T, r rwCrowd) {
		time.Sleep(2 * rwLife)
		died := time.Now()
		r.user.goSilent()
		<-r.lease.Done()
		require.ErrorIs(t, r.lease.Err(), signalbox.ErrLost)
		require.Less(t, time.Since(died), rwLife)
		require.Len(t, r.rwEnds("a"), 1, "the lease ends first")
		if !r.writes() {
			beside, err := r.reader.TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, beside.Unlock())
		}
		next := granted(t, queued(t.Context(), r.writer))
		require.Greater(t, next.Token(), r.lease.Token())
		require.Less(t, time.Since(died), rwLife+2*time.Second)
		require.NoError(t, next.Unlock())
	})
}

// P6: a writer that is cut off lets in all readers that wait when its hold expires, before the next writer.
func TestRWReadersEnterTogetherWhenAWritersHoldExpires(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 5, time.Millisecond)
		defer closeAll()
		lost := atOnce(t, locktest.Writer().New(users[0].Session, "a", signalbox.WithRenewedLease(rwLife)))
		writer := queuedAndListening(t.Context(), locktest.Writer().New(users[1].Session, "a"))
		var readers []<-chan lockResult
		for _, u := range users[2:] {
			readers = append(readers, queuedAndListening(t.Context(), locktest.Reader().New(u.Session, "a")))
		}
		users[0].goSilent()
		var leases []signalbox.Lease
		for _, got := range readers {
			leases = append(leases, granted(t, got))
		}
		require.ErrorIs(t, lost.Err(), signalbox.ErrLost)
		for _, lease := range leases {
			require.Empty(t, writer)
			require.Greater(t, lease.Token(), lost.Token())
			require.NoError(t, lease.Unlock())
		}
		require.NoError(t, granted(t, writer).Unlock())
	})
}

// P4, P5: an Unlock without a reply says until when the lock may be held, and is repeated in the background.
func TestRWUnconfirmedUnlockIsRepeated(t *testing.T) {
	t.Parallel()
	eachRWContention(t, []signalbox.LockOption{signalbox.WithRenewedLease(rwLife)}, func(t *testing.T, r rwCrowd) {
		time.Sleep(2 * rwLife)
		r.user.goSilent()
		began := time.Now()
		err := r.lease.Unlock()
		require.Equal(t, time.Second, time.Since(began))
		var unconfirmed *signalbox.UnconfirmedError
		require.ErrorAs(t, err, &unconfirmed)
		for _, end := range r.rwEnds("a") {
			require.WithinRange(t, unconfirmed.KeyEnds, end, end.Add(2*rwLife))
		}
		require.ErrorIs(t, r.lease.Err(), signalbox.ErrReleased)
		require.ErrorIs(t, r.lease.Unlock(), signalbox.ErrNotHeld)
		r.user.heal()
		require.NoError(t, atOnce(t, r.writer).Unlock())
		require.Less(t, time.Since(began), 3*time.Second, "before the hold expires")
	})
}

// P2: Do reports that its lease was lost, beside the error of its function.
func TestRWDoJoinsTheLossOfItsLease(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		s, _, closeAll := f.session(t)
		defer closeAll()
		failed := errors.New("no funds")
		lock := rwlock.New(s, "a", signalbox.WithFixedLease(time.Second))
		for name, do := range map[string]func(context.Context, func(context.Context, signalbox.Lease) error) error{"Do": lock.Do, "RDo": lock.RDo} {
			err := do(t.Context(), func(ctx context.Context, lease signalbox.Lease) error {
				if err := lock.Downgrade(ctx, lease); err != nil {
					return err
				}
				<-ctx.Done()
				return failed
			})
			require.ErrorIs(t, err, failed, name)
			require.ErrorIs(t, err, signalbox.ErrLost, name)
		}
	})
}

// P1: a context whose lease has ended is an error for those who enter by it, never a new acquire.
func TestRWCarriedLeaseThatEndedNeverAcquires(t *testing.T) {
	t.Parallel()
	eachRWContention(t, []signalbox.LockOption{signalbox.WithFixedLease(time.Second)}, func(t *testing.T, r rwCrowd) {
		lost := r.lease.Enter(t.Context())
		<-r.lease.Done()
		released := atOnce(t, r.lock)
		ended := released.Enter(t.Context())
		require.NoError(t, released.Unlock())
		requested := r.commands.Load()
		enters := []locktest.Lock{r.beside}
		if r.writes() {
			enters = append(enters, r.lock)
		}
		for _, lock := range enters {
			for ctx, want := range map[context.Context]error{
				lost: signalbox.ErrLost, context.WithoutCancel(lost): signalbox.ErrLost,
				ended: signalbox.ErrReleased, context.WithoutCancel(ended): signalbox.ErrReleased,
			} {
				for _, enter := range []func(context.Context) (signalbox.Lease, error){lock.Lock, lock.TryLock} {
					_, err := enter(ctx)
					require.ErrorIs(t, err, want)
				}
			}
		}
		synctest.Wait()
		require.Equal(t, requested, r.commands.Load())
	})
}
