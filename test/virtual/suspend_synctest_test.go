// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/reentrant"
)

// suspendedFor sets the wall clock as a host finds it that was suspended for d. Its monotonic clock was suspended.
func suspendedFor(d time.Duration) (resumed time.Time) {
	timers.Skew(d)
	return time.Now()
}

// P2: a host that was suspended for less than a lease has left renews it at once, on a new connection if the old one was
// forgotten meanwhile, and the lease lasts.
func TestAShortSleepIsMadeUpForAtOnce(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	bubbleOfUsers(t, func(f *fixture) {
		defer timers.Skew(0)
		s, link := f.open()
		lease := atOnce(f.T, reentrant.New(s, "a"))
		time.Sleep(time.Minute)
		asleep := time.Until(lease.Deadline()) - time.Second
		link.forgetConnections()
		resumed := suspendedFor(asleep)
		f.redis.SetTTL(locktest.Key("a"), 2*time.Second) // the server's clock ran on
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		require.NoError(f, lease.Err())
		require.Greater(f, time.Until(lease.Deadline()), 20*time.Second, "not renewed %v after the host resumed", time.Since(resumed))
		select {
		case <-lease.Done():
			require.Fail(f, "the lease was lost")
		case <-time.After(time.Minute):
		}
		require.NoError(f, lease.Unlock())
	})
}

// P1, P3: a host that was suspended within a turn, for less than its hold has left, begins no further use in that turn, nor of an idle hold:
// the server may have lost the hold long ago, though the monotonic clock says that it has just replied.
func TestASuspendedHostEndsItsTurn(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	for _, kept := range []bool{false, true} {
		bubbleOfUsers(t, func(f *fixture) {
			defer timers.Skew(0)
			mu := reentrant.New(f.user().Session, "a")
			if kept {
				mu = f.kept(f.user().Session, "a")
			}
			lease := atOnce(f.T, mu)
			next := locktest.LaterWith(f.Context(), mu.Lock)
			synctest.Wait()
			if kept {
				require.NoError(f, lease.Unlock())
				require.NoError(f, locktest.MustHave(f, next).Unlock())
			}

			suspendedFor(time.Second)
			f.redis.FlushAll()
			held := atOnce(f.T, reentrant.New(f.user().Session, "a"))
			if kept {
				next = locktest.LaterWith(f.Context(), mu.Lock)
			} else {
				_ = lease.Unlock()
			}
			time.Sleep(5 * time.Millisecond)
			synctest.Wait()
			require.Empty(f, next, "it has the lock beside another session")
			require.NoError(f, held.Unlock())
			later := locktest.MustHave(f, next)
			require.Greater(f, later.Token(), held.Token())
			require.NoError(f, later.Unlock())
		})
	}
}
