// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/scripts"
)

// prepaid is how long a hold lasts on the server when it was granted to a waiter: a heartbeat of the waiter paid for it.
const prepaid = 3 * time.Second

// fairLease is a lease of the fair lock "a", with a fixture of its own.
type fairLease struct {
	*fixture
	signalbox.Lease

	wire    *wire
	began   time.Time // the instant from which the lock was free
	waited  bool
	another *signalbox.Session
}

// eachFairLease runs a test for a lease that was free, and for one that was granted to a waiter.
func eachFairLease(t *testing.T, options []signalbox.LockOption, test func(h *fairLease)) {
	t.Helper()
	for _, waited := range []bool{false, true} {
		bubble(t, func(f *fixture) {
			users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
			defer closeAll()
			mu, before := fair.New(users[0].Session, "a", options...), fair.New(users[1].Session, "a")
			h := &fairLease{fixture: f, wire: users[0].wire, waited: waited, another: users[1].Session}
			if waited {
				first := atOnce(f.T, before)
				next := queuedAndListening(f.Context(), mu)
				h.began = time.Now()
				require.NoError(f, first.Unlock())
				got := <-next
				require.NoError(f, got.err)
				h.Lease = got.lease
			} else {
				require.NoError(f, atOnce(f.T, before).Unlock())
				h.began = time.Now()
				h.Lease = atOnce(f.T, mu)
			}
			test(h)
			synctest.Wait()
		})
	}
}

// fairEnds returns when the hold of a fair lock ends on the server, or the zero time if there is no hold.
func (f *fixture) fairEnds(name string) time.Time {
	left := f.left(name)
	if left == 0 {
		return time.Time{}
	}
	return time.Now().Add(left)
}

// fairHeld reports whether a fair lock is held, according to the server.
func (f *fixture) fairHeld(name string) bool {
	_, isHeld := f.queued(name)
	return isHeld
}

// P2: at every moment the lease ends before its hold on the server, while renewals extend both. A hold that was granted to
// a waiter has the full length a third of the heartbeat's life later.
func TestFairLeaseEndsBeforeItsHold(t *testing.T) {
	t.Parallel()
	for _, life := range []time.Duration{300 * time.Millisecond, 6 * time.Second, 30 * time.Second} {
		eachFairLease(t, []signalbox.LockOption{signalbox.WithRenewedLease(life)}, func(h *fairLease) {
			for n := range 150 {
				deadline := h.Deadline()
				require.True(h, deadline.Before(h.fairEnds("a")))
				require.LessOrEqual(h, time.Until(deadline), life)
				require.NoError(h, h.Err())
				if h.waited && n == 0 {
					require.LessOrEqual(h, time.Until(deadline), prepaid)
				}
				if time.Since(h.began) > prepaid/2 {
					require.Greater(h, time.Until(deadline), life*6/10)
				}
				time.Sleep(life / 20)
			}
			require.NoError(h, h.Unlock())
			require.False(h, h.fairHeld("a"))
		})
	}
}

// P2: a lease that has an end is lost then and not later, whatever a heartbeat paid for, and its hold ends after it.
func TestFairLeaseWithAnEndEndsInTime(t *testing.T) {
	t.Parallel()
	const short, long = 200 * time.Millisecond, prepaid + 5*time.Second
	renewed := signalbox.WithRenewedLease(6 * time.Second)
	for name, c := range map[string]struct { //nolint:paralleltest // as above
		options []signalbox.LockOption
		lasts   time.Duration
		cause   error
	}{
		"FixedShort":   {[]signalbox.LockOption{signalbox.WithFixedLease(short)}, short, signalbox.ErrLost},
		"FixedLong":    {[]signalbox.LockOption{signalbox.WithFixedLease(long)}, long, signalbox.ErrLost},
		"MaxHoldShort": {[]signalbox.LockOption{renewed, signalbox.WithMaxHold(short)}, short, signalbox.ErrMaxHold},
		"MaxHoldLong":  {[]signalbox.LockOption{renewed, signalbox.WithMaxHold(long)}, long, signalbox.ErrMaxHold},
	} {
		t.Run(name, func(t *testing.T) {
			eachFairLease(t, c.options, func(h *fairLease) {
				bound := h.Bind(h.Context())
				<-h.Done()
				synctest.Wait()
				require.WithinRange(h, time.Now(), h.began.Add(c.lasts*9/10), h.began.Add(c.lasts))
				require.WithinRange(h, time.Now(), h.Deadline(), h.Deadline().Add(time.Millisecond), "a tick of the timers")
				require.ErrorIs(h, h.Err(), c.cause)
				require.ErrorIs(h, context.Cause(bound), c.cause)
				require.True(h, h.fairHeld("a"), "the lease ends first")
				require.ErrorIs(h, h.Unlock(), c.cause)
				require.ErrorIs(h, h.Unlock(), c.cause)
				time.Sleep(max(c.lasts/10, prepaid))
				require.False(h, h.fairHeld("a"))
			})
		})
	}
}

// P7: a fixed lease is renewed only if it was granted to a waiter and is longer than what the heartbeat paid for.
func TestFixedFairLeaseIsRenewedNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	for _, life := range []time.Duration{200 * time.Millisecond, prepaid + time.Second/2} {
		eachFairLease(t, []signalbox.LockOption{signalbox.WithFixedLease(life)}, func(h *fairLease) {
			var renewals atomic.Int64
			h.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
				// The last argument is the time that is asked for; "0" asks whether the hold is there.
				if runs(scripts.HolderRenew, command, args) && args[len(args)-1] != "0" {
					renewals.Add(1)
				}
				return false
			})
			<-h.Done()
			require.Equal(h, h.waited && life > prepaid, renewals.Load() > 0, "%v, waited: %v", life, h.waited)
		})
	}
}

// P2: the next renewal reports that the key is gone, long before the deadline.
func TestFairHolderLearnsOfADeletedKeyAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	const life = 9 * time.Second
	eachFairLease(t, []signalbox.LockOption{signalbox.WithRenewedLease(life)}, func(h *fairLease) {
		time.Sleep(life)
		h.redis.Del(locktest.Key("a"))
		deleted := time.Now()
		<-h.Done()
		require.Less(h, time.Since(deleted), life*4/10)
		require.ErrorIs(h, h.Err(), signalbox.ErrLost)
		require.ErrorIs(h, h.Unlock(), signalbox.ErrLost)
	})
}

// P8: a renewal of a lease whose key was deleted neither creates a hold nor extends that of another holder.
func TestFairRenewalExtendsItsOwnHoldOnly(t *testing.T) {
	t.Parallel()
	const life = 9 * time.Second
	for _, taken := range []bool{false, true} {
		eachFairLease(t, []signalbox.LockOption{signalbox.WithRenewedLease(life)}, func(h *fairLease) {
			time.Sleep(life)
			h.redis.Del(locktest.Key("a"))
			var ends time.Time
			var other signalbox.Lease
			if taken {
				other = atOnce(h.T, fair.New(h.another, "a", signalbox.WithFixedLease(life)))
				ends = h.fairEnds("a")
			}
			<-h.Done()
			time.Sleep(100 * time.Millisecond)
			require.Equal(h, ends, h.fairEnds("a"))
			require.ErrorIs(h, h.Unlock(), signalbox.ErrLost)
			if taken {
				require.NoError(h, other.Err())
				require.NoError(h, other.Unlock())
			}
		})
	}
}

// P2, P6: a server that is silent for longer than a lease ends that at its deadline, and no wait. The waiter has the lock
// when the server replies again.
func TestSilentServerEndsFairLeasesAndNoWait(t *testing.T) {
	t.Parallel()
	const life = 6 * time.Second
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
		defer closeAll()
		lease := atOnce(f.T, fair.New(users[0].Session, "a", signalbox.WithRenewedLease(life)))
		waiting := queuedAndListening(f.Context(), fair.New(users[1].Session, "a"))
		for _, u := range users {
			u.goSilent()
		}
		silent := time.Now()
		<-lease.Done()
		require.LessOrEqual(f, time.Since(silent), life)
		require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
		time.Sleep(life)
		require.Empty(f, waiting)
		for _, u := range users {
			u.heal()
		}
		replies := time.Now()
		got := <-waiting
		require.NoError(f, got.err)
		require.Less(f, got.at.Sub(replies), 2*time.Second)
		require.Greater(f, got.lease.Token(), lease.Token()) // P3
		require.NoError(f, got.lease.Unlock())
	})
}

// P4, P5: an Unlock without a reply returns after a second with the time until which the lock may be held, and is finished
// in the background.
func TestUnconfirmedFairUnlockIsFinishedLater(t *testing.T) {
	t.Parallel()
	const life = 20 * time.Second
	eachFairLease(t, []signalbox.LockOption{signalbox.WithRenewedLease(life)}, func(h *fairLease) {
		time.Sleep(2 * prepaid)
		h.wire.goSilent()
		began, ends := time.Now(), h.fairEnds("a")
		err := h.Unlock()
		require.Equal(h, time.Second, time.Since(began))
		require.ErrorIs(h, err, signalbox.ErrUnconfirmed)
		var unconfirmed *signalbox.UnconfirmedError
		require.ErrorAs(h, err, &unconfirmed)
		require.WithinRange(h, unconfirmed.KeyEnds, ends, ends.Add(life))
		require.ErrorIs(h, h.Err(), signalbox.ErrReleased)
		require.ErrorIs(h, h.Unlock(), signalbox.ErrNotHeld)
		require.True(h, h.fairHeld("a"))
		h.wire.heal()
		time.Sleep(2 * time.Second)
		require.False(h, h.fairHeld("a"))
	})
}

// P3: tokens rise over holders that unlock, expire, lose the lock by force, or come after a pause.
func TestFairTokensRise(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
		defer closeAll()
		last := uint64(0)
		for n, end := range []func(lease signalbox.Lease, mu *fair.Lock){
			func(lease signalbox.Lease, _ *fair.Lock) { require.NoError(f, lease.Unlock()) },
			func(lease signalbox.Lease, _ *fair.Lock) {
				<-lease.Done()
				require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)
			},
			func(_ signalbox.Lease, mu *fair.Lock) { require.NoError(f, mu.ForceUnlock(f.Context())) },
			func(lease signalbox.Lease, _ *fair.Lock) {
				require.NoError(f, lease.Unlock())
				time.Sleep(50 * time.Second)
			},
			func(lease signalbox.Lease, _ *fair.Lock) { require.NoError(f, lease.Unlock()) },
		} {
			mu := fair.New(users[n%2].Session, "a", signalbox.WithFixedLease(10*time.Second))
			lease := atOnce(f.T, mu)
			require.Greater(f, lease.Token(), last, n)
			last = lease.Token()
			end(lease, mu)
		}
	})
}

// P7: sessions that hold no lock and wait for none send nothing, subscribe to nothing and have no goroutine, and the keys
// of their locks expire.
func TestIdleSessionOfFairLocksCostsNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
		defer closeAll()
		for n := range 20 {
			one, other := fair.New(users[0].Session, fmt.Sprint(n)), fair.New(users[1].Session, fmt.Sprint(n))
			lease := atOnce(f.T, one)
			waiting := queuedAndListening(f.Context(), other)
			require.NoError(f, lease.Unlock())
			got := <-waiting
			require.NoError(f, got.err)
			require.NoError(f, got.lease.Unlock())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(f, goroutines())
		require.Empty(f, f.redis.PubSubChannels(""))
		before := f.commands.Load()
		time.Sleep(time.Hour)
		require.Equal(f, before, f.commands.Load())
		require.Empty(f, f.redis.Keys())
	})
}

// The shortest and the longest times that options accept do what they say.
func TestFairLeasesOfTheShortestAndLongestTerms(t *testing.T) {
	t.Parallel()
	for _, life := range []time.Duration{100 * time.Millisecond, 24 * time.Hour} {
		for _, option := range []signalbox.LockOption{signalbox.WithRenewedLease(life), signalbox.WithFixedLease(life), signalbox.WithMaxHold(life)} {
			bubble(t, func(f *fixture) {
				users, closeAll := f.queueUsers(f.T, 1, 0)
				defer closeAll()
				lease := atOnce(f.T, fair.New(users[0].Session, "a", option, nil))
				require.LessOrEqual(f, time.Until(lease.Deadline()), life)
				time.Sleep(min(life*9/10, time.Hour))
				require.NoError(f, lease.Err())
				require.NoError(f, lease.Unlock())
			})
		}
	}
}
