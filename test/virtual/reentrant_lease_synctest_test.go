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
	"github.com/signalbox-go/signalbox/reentrant"
)

// P2: a fixed lease sends nothing after its acquire, and ends before its key.
func TestFixedLeaseIsNeverRenewed(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _, closeAll := w.session(w.T, signalbox.WithPolling()) // it has no channel of its own
		defer closeAll()
		const life = 10 * time.Second
		mu := reentrant.New(s, "a", signalbox.WithFixedLease(life))
		lease := atOnce(w.T, mu)
		before, bound := w.commands.Load(), lease.Bind(w.Context())
		require.LessOrEqual(w, time.Until(lease.Deadline()), life*49/50)
		<-lease.Done()
		require.Positive(w, w.left("a"))
		require.ErrorIs(w, lease.Err(), signalbox.ErrLost)
		<-bound.Done()
		require.ErrorIs(w, context.Cause(bound), signalbox.ErrLost)
		require.ErrorIs(w, lease.Unlock(), signalbox.ErrLost)
		require.ErrorIs(w, lease.Unlock(), signalbox.ErrLost)
		require.Equal(w, before, w.commands.Load())
		time.Sleep(life / 50)
		next := atOnce(w.T, mu)
		require.Greater(w, next.Token(), lease.Token())
		require.NoError(w, next.Unlock())
	})
}

// P2: renewals do not lengthen the key beyond WithMaxHold, so it ends by itself if the release never
// arrives.
func TestMaxHoldEndsTheKeyThoughTheReleaseIsLost(t *testing.T) {
	t.Parallel()
	const life, maxHold = 6 * time.Second, 8 * time.Second
	bubble(t, func(w *fixture) {
		s, link, closeAll := w.session(w.T)
		defer closeAll()
		lease := atOnce(w.T, reentrant.New(s, "a", signalbox.WithRenewedLease(life), signalbox.WithMaxHold(maxHold)))
		began, first, bound := time.Now(), lease.Deadline(), lease.Bind(w.Context())
		for range 95 {
			time.Sleep(maxHold / 100)
			require.NoError(w, lease.Err())
			require.LessOrEqual(w, time.Since(began)+w.left("a"), maxHold+10*time.Millisecond)
		}
		require.True(w, lease.Deadline().After(first), "it was renewed")
		link.goSilent()
		<-lease.Done()
		require.Positive(w, w.left("a"))
		require.ErrorIs(w, lease.Err(), signalbox.ErrMaxHold)
		<-bound.Done()
		require.ErrorIs(w, context.Cause(bound), signalbox.ErrMaxHold)
		require.ErrorIs(w, lease.Unlock(), signalbox.ErrMaxHold)
		time.Sleep(time.Until(began.Add(maxHold + 10*time.Millisecond)))
		require.Zero(w, w.left("a"))
	})
}

// P2, P8: a renewal reports a lock that was taken away, within a third of the lease, and
// leaves the next holder's key alone. The sessions poll, so that nothing else can report it.
func TestRenewalReportsALossAndSparesTheNextHolder(t *testing.T) {
	t.Parallel()
	const life = 30 * time.Second
	for name, take := range map[string]func(w *fixture, other *signalbox.Session){
		"Deleted": func(w *fixture, _ *signalbox.Session) { w.redis.Del(locktest.Key("a")) },
		"Flushed": func(w *fixture, _ *signalbox.Session) { w.redis.FlushAll() },
		"Forced": func(w *fixture, other *signalbox.Session) {
			require.NoError(w, reentrant.New(other, "a").ForceUnlock(w.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *fixture) {
				s, _, closeAll := w.session(w.T, signalbox.WithPolling())
				defer closeAll()
				other, _, closeOther := w.session(w.T, signalbox.WithPolling())
				defer closeOther()
				lease := atOnce(w.T, reentrant.New(s, "a", signalbox.WithRenewedLease(life)))
				bound := lease.Bind(w.Context())
				time.Sleep(time.Second)
				took := time.Now()
				take(w, other)
				next := atOnce(w.T, reentrant.New(other, "a", signalbox.WithFixedLease(time.Hour)))
				require.Greater(w, next.Token(), lease.Token())
				ends := time.Now().Add(w.left("a"))
				require.NoError(w, lease.Err())
				<-lease.Done()
				require.LessOrEqual(w, time.Since(took), life/3)
				require.ErrorIs(w, lease.Err(), signalbox.ErrLost)
				<-bound.Done()
				require.ErrorIs(w, context.Cause(bound), signalbox.ErrLost)
				require.ErrorIs(w, lease.Unlock(), signalbox.ErrLost)
				synctest.Wait()
				require.True(w, ends.Equal(time.Now().Add(w.left("a"))), "the next holder's key was changed")
				require.NoError(w, next.Unlock())
			})
		})
	}
}

// P2: the same in Redisson's layout, where a Java client may take the key without a message.
func TestRenewalReportsThatJavaTookTheLock(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _, closeAll := w.session(w.T)
		defer closeAll()
		lease := atOnce(w.T, reentrant.New(s, "a", signalbox.WithLayout(signalbox.Redisson()), signalbox.WithRenewedLease(30*time.Second)))
		began := time.Now()
		time.Sleep(time.Second) // the session has asked for what it missed before it listened
		w.redis.Del("a")
		w.redis.HSet("a", "00010203-0405-0607-0809-0a0b0c0d0e0f:1", "1")
		<-lease.Done()
		require.LessOrEqual(w, time.Since(began), 10*time.Second)
		require.ErrorIs(w, lease.Err(), signalbox.ErrLost)
		holders, err := w.redis.HKeys("a")
		require.NoError(w, err)
		require.Len(w, holders, 1, "the other's hold is left alone")
		require.Zero(w, w.redis.TTL("a"))
	})
}

// P4, P5: Unlock waits for a silent server for one second, whether or not a goroutine of its
// session waits for the lock. It says until when the lock may be held, and the release is sent
// again in the background.
func TestUnconfirmedUnlockTakesASecondAndIsRepeated(t *testing.T) {
	t.Parallel()
	for _, awaited := range []bool{false, true} {
		bubble(t, func(w *fixture) {
			s, link, closeAll := w.session(w.T)
			defer closeAll()
			mu := reentrant.New(s, "a")
			lease := atOnce(w.T, mu)
			next := make(<-chan lockResult)
			if awaited {
				next = queuedAndListening(w.Context(), mu)
			}
			time.Sleep(time.Second + 2*budget) // it was renewed, and passing it on takes a round trip from here on
			ends := time.Now().Add(w.left("a"))
			link.goSilent()
			var err error
			require.Equal(w, time.Second, took(func() { err = lease.Unlock() }))
			require.ErrorIs(w, err, signalbox.ErrUnconfirmed)
			var unconfirmed *signalbox.UnconfirmedError
			require.ErrorAs(w, err, &unconfirmed)
			require.WithinRange(w, unconfirmed.KeyEnds, ends, time.Now().Add(30*time.Second))
			require.ErrorIs(w, lease.Err(), signalbox.ErrReleased)
			require.ErrorIs(w, lease.Unlock(), signalbox.ErrNotHeld)
			link.heal()
			if awaited {
				got := <-next
				require.NoError(w, got.err)
				require.Greater(w, got.lease.Token(), lease.Token())
				require.NoError(w, got.lease.Unlock())
			}
			time.Sleep(4 * time.Second)
			require.True(w, time.Now().Before(ends))
			require.Zero(w, w.left("a"))
		})
	}
}
