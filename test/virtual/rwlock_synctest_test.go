// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6: when a writer is done all readers that wait have the lock one script and one message later, and when the last of
// them is done so has the next writer.
func TestAPhaseIsOneScriptAndOneMessageAway(t *testing.T) {
	t.Parallel()
	const latency = 10 * time.Millisecond
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 4, latency)
		defer closeAll()
		read := func(n int) locktest.Lock { return locktest.Reader().New(users[n].Session, "near") }
		write := func(n int) locktest.Lock { return rwlock.New(users[n].Session, "near") }
		require.NoError(t, atOnce(t, write(0)).Unlock()) // teaches the server the script
		for range 10 {
			first := atOnce(t, write(0))
			one, second, other := queuedAndListening(t.Context(), read(1)), queuedAndListening(t.Context(), write(2)), queuedAndListening(t.Context(), read(3))
			released := time.Now()
			require.NoError(t, first.Unlock())
			a, b := <-one, <-other
			require.NoError(t, a.err)
			require.NoError(t, b.err)
			require.Equal(t, 2*latency, a.at.Sub(released), "there and back")
			require.Equal(t, 2*latency, b.at.Sub(released), "beside each other, past the writer between them")
			require.NoError(t, a.lease.Unlock())
			require.Empty(t, second)
			released = time.Now()
			require.NoError(t, b.lease.Unlock())
			got := <-second
			require.NoError(t, got.err)
			require.Equal(t, 2*latency, got.at.Sub(released))
			require.Greater(t, got.lease.Token(), max(a.lease.Token(), b.lease.Token()))
			require.NoError(t, got.lease.Unlock())
		}
	})
}

// P6: if the message of a grant is lost, or its subscription or connection breaks, a poll makes up for it, about a second
// later, for either side.
func TestAPollFindsALostGrantOfEitherSide(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, time.Millisecond)
		defer closeAll()
		for n := range 60 {
			lease := atOnce(t, rwlock.New(users[0].Session, "lost"))
			next := queuedAndListening(t.Context(), bothSides()[n%2].New(users[1].Session, "lost"))
			lose := []func(){
				func() { users[1].losesMessages.Store(true) }, users[1].breakSubscriptions, users[1].cut,
			}[n/2%3]
			time.Sleep(time.Duration(n) * 37 * time.Millisecond)
			lose()
			released := time.Now()
			require.NoError(t, lease.Unlock())
			got := <-next
			users[1].losesMessages.Store(false)
			require.NoError(t, got.err)
			require.Less(t, got.at.Sub(released), 1010*time.Millisecond)
			require.NoError(t, got.lease.Err())
			require.Greater(t, got.lease.Token(), lease.Token())
			require.NoError(t, got.lease.Unlock())
		}
	})
}

// P6, order: a waiting writer that dies no longer keeps readers out when its life has ended, from the
// readers' next poll.
func TestADeadWriterAdmitsReadersWithinItsLifeAndAPoll(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 3, time.Millisecond)
		defer closeAll()
		for n := range 10 {
			inside := atOnce(t, locktest.Reader().New(users[0].Session, "door"))
			ctx, cancel := context.WithCancel(t.Context())
			writer := queuedAndListening(ctx, rwlock.New(users[1].Session, "door"))
			reader := queuedAndListening(t.Context(), locktest.Reader().New(users[2].Session, "door"))
			time.Sleep(time.Duration(n) * 170 * time.Millisecond)
			users[1].goSilent()
			died := time.Now()
			got := <-reader
			require.NoError(t, got.err)
			require.Less(t, got.at.Sub(died), 4100*time.Millisecond)
			require.NoError(t, inside.Err(), "the first is inside still")
			require.NoError(t, got.lease.Unlock())
			cancel()
			require.ErrorIs(t, (<-writer).err, context.Canceled)
			users[1].heal()
			require.NoError(t, inside.Unlock())
			time.Sleep(45 * time.Second) // until nothing is being undone any more
		}
	})
}

// P6: a reader that crashed keeps a writer out for its own lease, whatever others renew.
func TestACrashedReaderKeepsAWriterOutForItsOwnLease(t *testing.T) {
	t.Parallel()
	const life = 10 * time.Second
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 3, time.Millisecond)
		defer closeAll()
		for range 5 {
			crashed := atOnce(t, locktest.Reader().New(users[0].Session, "crash", signalbox.WithRenewedLease(life)))
			beside := atOnce(t, locktest.Reader().New(users[1].Session, "crash", signalbox.WithRenewedLease(life)))
			time.Sleep(time.Minute)
			users[0].goSilent()
			died := time.Now()
			writer := queuedAndListening(t.Context(), rwlock.New(users[2].Session, "crash"))
			time.Sleep(2 * life)
			require.ErrorIs(t, crashed.Err(), signalbox.ErrLost)
			require.NoError(t, beside.Err())
			require.Empty(t, writer)
			released := time.Now()
			require.NoError(t, beside.Unlock())
			got := <-writer
			require.NoError(t, got.err)
			require.Less(t, got.at.Sub(released), 10*time.Millisecond, "no waiter waits for the dead one any more")
			require.Greater(t, got.at.Sub(died), life*2/3)
			require.NoError(t, got.lease.Unlock())
			users[0].heal()
			time.Sleep(45 * time.Second)
		}
	})
}

// P2, P7: a hold that readers of a session share is renewed for hours, each third of its life however many
// share it, and continues while readers enter and leave.
func TestASharedHoldIsRenewedForHours(t *testing.T) {
	t.Parallel()
	const life, readers = 30 * time.Second, 50
	hours := redistest.Rounds(2, 10)
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, time.Millisecond)
		defer closeAll()
		lock := locktest.Reader().New(users[0].Session, "shared", signalbox.WithRenewedLease(life))
		leases := make([]signalbox.Lease, readers)
		for i := range leases {
			leases[i] = atOnce(t, lock)
		}
		token := leases[0].Token()
		renewals := f.counts(scripts.HoldsRenew)
		for hour := range hours {
			for range 3600 {
				time.Sleep(time.Second)
				require.NoError(t, leases[hour].Err())
			}
			// A reader leaves, the first or the last, another one enters, and the hold continues.
			require.NoError(t, leases[hour].Unlock())
			leases[hour] = atOnce(t, lock)
			require.Equal(t, token, leases[hour].Token(), "the same hold")
			_, err := rwlock.New(users[1].Session, "shared").TryLock(t.Context())
			require.ErrorIs(t, err, signalbox.ErrHeld)
		}
		due := int64(time.Duration(hours) * time.Hour / (life / 3))
		require.GreaterOrEqual(t, renewals.Load(), due)
		require.LessOrEqual(t, renewals.Load(), due*51/50+1)
		for _, lease := range leases {
			require.NoError(t, lease.Unlock())
		}
		writer := atOnce(t, rwlock.New(users[1].Session, "shared"))
		require.Greater(t, writer.Token(), token)
		require.NoError(t, writer.Unlock())
	})
}
