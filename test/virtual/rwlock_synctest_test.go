// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// queued calls Lock on another goroutine, and returns when that waits.
func queued(ctx context.Context, lock locktest.Lock) <-chan lockResult {
	got := make(chan lockResult, 1)
	go func() {
		lease, err := lock.Lock(ctx)
		got <- lockResult{lease, err, time.Now()}
	}()
	synctest.Wait()
	return got
}

// P7: readers of a session enter beside each other without a command, but for one each 20 ms that asks whether a writer waits;
// and all but the last one leave without a command.
func TestRWReadersOfASessionAskTheServerEvery20ms(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user(signalbox.WithPolling()).Session // which sends nothing by itself
		lock, reader := rwlock.New(s, "a"), locktest.Reader().New(s, "a")
		leases := []signalbox.Lease{atOnce(f.T, reader), atOnce(f.T, reader)}
		time.Sleep(25 * time.Millisecond)
		leases = append(leases, atOnce(f.T, reader)) // teaches the server the script that asks
		before := f.scripts.Load()
		for n := range 200 {
			enter := []func(context.Context) (signalbox.Lease, error){lock.RLock, lock.TryRLock}[n%2]
			lease, err := enter(f.Context())
			require.NoError(f, err)
			require.Equal(f, leases[0].Token(), lease.Token())
			leases = append(leases, lease)
			require.EqualValues(f, n/20, f.scripts.Load()-before, "after %d ms", n)
			time.Sleep(time.Millisecond)
		}
		for _, lease := range leases[1:] {
			require.NoError(f, lease.Unlock())
		}
		require.EqualValues(f, 9, f.scripts.Load()-before)
		require.NoError(f, leases[0].Unlock())
		require.NoError(f, atOnce(f.T, lock).Unlock())
	})
}

// P2, P7: a hold that readers of a session share is renewed for hours, each third of its life however many share it, and continues while
// readers enter and leave.
func TestASharedHoldIsRenewedForHours(t *testing.T) {
	t.Parallel()
	const life, readers = 30 * time.Second, 50
	hours := redistest.Rounds(2, 10)
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(2, time.Millisecond)
		lock := locktest.Reader().New(users[0].Session, "a", signalbox.WithRenewedLease(life))
		leases := make([]signalbox.Lease, readers)
		for i := range leases {
			leases[i] = atOnce(f.T, lock)
		}
		token := leases[0].Token()
		renewals := f.counts(scripts.HoldsRenew)
		for hour := range hours {
			time.Sleep(time.Hour)
			require.NoError(f, leases[hour].Unlock()) // which did not end meanwhile
			leases[hour] = atOnce(f.T, lock)
			require.Equal(f, token, leases[hour].Token(), "the same hold")
			_, err := rwlock.New(users[1].Session, "a").TryLock(f.Context())
			require.ErrorIs(f, err, signalbox.ErrHeld)
		}
		due := int64(time.Duration(hours) * time.Hour / (life / 3))
		require.GreaterOrEqual(f, renewals.Load(), due)
		require.LessOrEqual(f, renewals.Load(), due*51/50+1)
		for _, lease := range leases {
			require.NoError(f, lease.Unlock())
		}
		require.Greater(f, atOnce(f.T, rwlock.New(users[1].Session, "a")).Token(), token)
	})
}

// No reader enters a hold that is lost: the server says so, or a renewal has said so before.
func TestRWNoReaderEntersAHoldThatIsLost(t *testing.T) {
	t.Parallel()
	const life = 6 * time.Second
	for _, after := range []time.Duration{25 * time.Millisecond, life} {
		bubbleOfUsers(t, func(f *fixture) {
			s := f.user().Session
			lock := locktest.Reader().New(s, "a", signalbox.WithRenewedLease(life))
			lost := []signalbox.Lease{atOnce(f.T, lock), atOnce(f.T, lock)}
			f.redis.FlushAll()
			time.Sleep(after)
			next := atOnce(f.T, lock)
			require.Greater(f, next.Token(), lost[0].Token())
			for _, lease := range lost {
				<-lease.Done()
				require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)
			}
			require.NoError(f, next.Unlock())
		})
	}
}
