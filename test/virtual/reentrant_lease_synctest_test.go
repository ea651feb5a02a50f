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
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P2: a fixed lease sends nothing after its acquire, and ends before its key.
func TestFixedLeaseIsNeverRenewed(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T, signalbox.WithPolling()) // it has no channel of its own
		defer closeAll()
		const life = 10 * time.Second
		mu := reentrant.New(s, "a", signalbox.WithFixedLease(life))
		lease := atOnce(f.T, mu)
		before, bound := f.commands.Load(), lease.Bind(f.Context())
		require.LessOrEqual(f, time.Until(lease.Deadline()), life*49/50)
		<-lease.Done()
		require.Positive(f, f.left("a"))
		require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
		<-bound.Done()
		require.ErrorIs(f, context.Cause(bound), signalbox.ErrLost)
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)
		require.Equal(f, before, f.commands.Load())
		time.Sleep(life / 50)
		next := atOnce(f.T, mu)
		require.Greater(f, next.Token(), lease.Token())
		require.NoError(f, next.Unlock())
	})
}

// P2: renewals do not lengthen the key beyond WithMaxHold, so it ends by itself if the release never
// arrives.
func TestMaxHoldEndsTheKeyThoughTheReleaseIsLost(t *testing.T) {
	t.Parallel()
	const life, maxHold = 6 * time.Second, 8 * time.Second
	bubble(t, func(f *fixture) {
		s, link, closeAll := f.session(f.T)
		defer closeAll()
		lease := atOnce(f.T, reentrant.New(s, "a", signalbox.WithRenewedLease(life), signalbox.WithMaxHold(maxHold)))
		began, first, bound := time.Now(), lease.Deadline(), lease.Bind(f.Context())
		for range 95 {
			time.Sleep(maxHold / 100)
			require.NoError(f, lease.Err())
			require.LessOrEqual(f, time.Since(began)+f.left("a"), maxHold+10*time.Millisecond)
		}
		require.True(f, lease.Deadline().After(first), "it was renewed")
		link.goSilent()
		<-lease.Done()
		require.Positive(f, f.left("a"))
		require.ErrorIs(f, lease.Err(), signalbox.ErrMaxHold)
		<-bound.Done()
		require.ErrorIs(f, context.Cause(bound), signalbox.ErrMaxHold)
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrMaxHold)
		time.Sleep(time.Until(began.Add(maxHold + 10*time.Millisecond)))
		require.Zero(f, f.left("a"))
	})
}

// P2, P8: a renewal reports a lock that was taken away, within a third of the lease, and
// leaves the next holder's key alone. The sessions poll, so that nothing else can report it.
func TestRenewalReportsALossAndSparesTheNextHolder(t *testing.T) {
	t.Parallel()
	const life = 30 * time.Second
	for name, take := range map[string]func(f *fixture, other *signalbox.Session){
		"Deleted": func(f *fixture, _ *signalbox.Session) { f.redis.Del(locktest.Key("a")) },
		"Flushed": func(f *fixture, _ *signalbox.Session) { f.redis.FlushAll() },
		"Forced": func(f *fixture, other *signalbox.Session) {
			require.NoError(f, reentrant.New(other, "a").ForceUnlock(f.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				s, _, closeAll := f.session(f.T, signalbox.WithPolling())
				defer closeAll()
				other, _, closeOther := f.session(f.T, signalbox.WithPolling())
				defer closeOther()
				lease := atOnce(f.T, reentrant.New(s, "a", signalbox.WithRenewedLease(life)))
				bound := lease.Bind(f.Context())
				time.Sleep(time.Second)
				took := time.Now()
				take(f, other)
				next := atOnce(f.T, reentrant.New(other, "a", signalbox.WithFixedLease(time.Hour)))
				require.Greater(f, next.Token(), lease.Token())
				ends := time.Now().Add(f.left("a"))
				require.NoError(f, lease.Err())
				<-lease.Done()
				require.LessOrEqual(f, time.Since(took), life/3)
				require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
				<-bound.Done()
				require.ErrorIs(f, context.Cause(bound), signalbox.ErrLost)
				require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)
				synctest.Wait()
				require.True(f, ends.Equal(time.Now().Add(f.left("a"))), "the next holder's key was changed")
				require.NoError(f, next.Unlock())
			})
		})
	}
}

// P2: the same in Redisson's layout, where a Java client may take the key without a message.
func TestRenewalReportsThatJavaTookTheLock(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		lease := atOnce(f.T, reentrant.New(s, "a", signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(30*time.Second)))
		began := time.Now()
		time.Sleep(time.Second) // the session has asked for what it missed before it listened
		f.redis.Del("a")
		f.redis.HSet("a", "00010203-0405-0607-0809-0a0b0c0d0e0f:1", "1")
		<-lease.Done()
		require.LessOrEqual(f, time.Since(began), 10*time.Second)
		require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
		holders, err := f.redis.HKeys("a")
		require.NoError(f, err)
		require.Len(f, holders, 1, "the other's hold is left alone")
		require.Zero(f, f.redis.TTL("a"))
	})
}

// P4, P5: Unlock waits for a silent server for one second, whether or not a goroutine of its
// session waits for the lock. It says until when the lock may be held, and the release is sent
// again in the background.
func TestUnconfirmedUnlockTakesASecondAndIsRepeated(t *testing.T) {
	t.Parallel()
	for _, awaited := range []bool{false, true} {
		bubble(t, func(f *fixture) {
			s, link, closeAll := f.session(f.T)
			defer closeAll()
			mu := reentrant.New(s, "a")
			lease := atOnce(f.T, mu)
			next := make(<-chan lockResult)
			if awaited {
				next = queuedAndListening(f.Context(), mu)
			}
			time.Sleep(time.Second + 2*budget) // it was renewed, and passing it on takes a round trip from here on
			ends := time.Now().Add(f.left("a"))
			link.goSilent()
			var err error
			require.Equal(f, time.Second, took(func() { err = lease.Unlock() }))
			require.ErrorIs(f, err, signalbox.ErrUnconfirmed)
			var unconfirmed *signalbox.UnconfirmedError
			require.ErrorAs(f, err, &unconfirmed)
			require.WithinRange(f, unconfirmed.KeyEnds, ends, time.Now().Add(30*time.Second))
			require.ErrorIs(f, lease.Err(), signalbox.ErrReleased)
			require.ErrorIs(f, lease.Unlock(), signalbox.ErrNotHeld)
			link.heal()
			if awaited {
				got := <-next
				require.NoError(f, got.err)
				require.Greater(f, got.lease.Token(), lease.Token())
				require.NoError(f, got.lease.Unlock())
			}
			time.Sleep(4 * time.Second)
			require.True(f, time.Now().Before(ends))
			require.Zero(f, f.left("a"))
		})
	}
}
