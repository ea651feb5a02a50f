// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
)

// P1, P2: a lease is held for as long as its holder likes, though a minority of the servers dies, and no other process
// gets the lock meanwhile.
func TestRedlock_MinorityDies_LeaseIsRenewed(t *testing.T) {
	t.Parallel()
	readyBubble(t, 5, func(r *redlockServers) {
		mu, wires := r.lock(signalbox.WithRenewedLease(6 * time.Second))
		other, theirs := r.lock()
		r.warm(mu)
		lease := r.mustLock(mu)
		time.Sleep(time.Second)
		stopRenewing([]int{0, 3}, wires, theirs)
		for range 10 {
			time.Sleep(7 * time.Second)
			require.NoError(t, lease.Err())
			_, err := other.TryLock(r.Context())
			require.ErrorIs(t, err, signalbox.ErrHeld)
		}
		require.NoError(t, lease.Unlock())
		require.NoError(t, r.mustLock(other).Unlock(), "three servers are a quorum")
	})
}

// P2, P8: a renewal creates no hold: a key that a minority lost does not come back, and what a quorum lost is reported by
// the next renewal, which gives the rest back.
func TestRedlock_LostKeys_RenewalCreatesNoHold(t *testing.T) {
	t.Parallel()
	readyBubble(t, 3, func(r *redlockServers) {
		mu, _ := r.lock(signalbox.WithRenewedLease(6 * time.Second))
		r.warm(mu)
		lease := r.mustLock(mu)
		time.Sleep(time.Second)
		r.remove(0)
		time.Sleep(30 * time.Second)
		require.NoError(t, lease.Err())
		require.Equal(t, 2, r.holds())
		r.remove(1)
		require.Less(t, took(func() { <-lease.Done() }), 3*time.Second)
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		time.Sleep(time.Second)
		require.Zero(t, r.holds(), "the rest exists for six seconds")
	})
}

// P2: Unlock returns what a quorum of the servers says of the hold.
func TestRedlock_UnlockReturnsWhatAQuorumSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(r *redlockServers, wires []*wire)
		want  error
	}{
		"MinorityLost": {func(r *redlockServers, _ []*wire) { r.remove(0) }, nil},
		"QuorumLost":   {func(r *redlockServers, _ []*wire) { r.remove(0); r.remove(1) }, signalbox.ErrLost},
		"QuorumSilent": {func(_ *redlockServers, wires []*wire) { stopRenewing([]int{0, 1}, wires) }, signalbox.ErrUnconfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readyBubble(t, 3, func(r *redlockServers) {
				sessions, wires := r.process(signalbox.WithPolling()) // one that learns of nothing
				mu := redlock.New(sessions, "a", signalbox.WithFixedLease(time.Minute))
				r.warm(mu)
				lease := r.mustLock(mu)
				time.Sleep(time.Second)
				c.spoil(r, wires)
				err := lease.Unlock()
				require.ErrorIs(t, err, c.want)
				if errors.Is(err, signalbox.ErrUnconfirmed) {
					require.ErrorContains(t, err, "of 3")
				}
				for _, w := range wires {
					w.heal()
				}
				time.Sleep(10 * time.Second)
				r.requireNothing(sessions...)
			})
		})
	}
}

// P3: with Fenced, tokens rise though the clock of the server that gave one is far ahead of the others', and its holder
// crashed. Without it they do not.
func TestRedlock_Fenced_TokensRiseWhateverTheClocksSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		rises   bool
	}{"Fenced": {[]signalbox.LockOption{redlock.Fenced()}, true}, "Bare": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOf(t, 3, func(r *redlockServers) {
				r.ahead[0] = 10 * time.Minute
				r.makeReady()
				mu, wires := r.lock(c.options...)
				other, theirs := r.lock(c.options...)
				r.warm(other)
				stopRenewing([]int{2}, wires)
				lease := r.mustLock(mu)
				stopRenewing([]int{0, 1}, wires) // it crashes
				stopRenewing([]int{0}, theirs)   // server 1 is all that the two quorums share
				next := r.mustLock(other)
				require.Equal(t, c.rises, next.Token() > lease.Token())
				require.NoError(t, next.Unlock())
			})
		})
	}
}

// P6: if any of its sessions closes, waiters return with ErrClosed, those in the queue of the process as those that wait
// for the servers, and Close waits for the holder; but not if its context has ended.
func TestRedlock_CloseOfAnySession_EndsTheLock(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		readyBubble(t, 3, func(r *redlockServers) {
			sessions, _ := r.process(signalbox.WithCloseGrace(time.Minute))
			holding, _ := r.process()
			mu := redlock.New(sessions, "a")
			lease := r.mustLock(mu)
			theirs := r.mustLock(redlock.New(holding, "b"))
			queued := locktest.LaterWith(r.Context(), mu.Lock)
			waiting := locktest.LaterWith(r.Context(), redlock.New(sessions, "b").Lock)
			elsewhere := locktest.LaterWith(r.Context(), redlock.New(holding, "a").Lock)
			time.Sleep(time.Second)
			closed := make(chan error, 1)
			go func() { closed <- sessions[i].Close(r.Context()) }()
			require.ErrorIs(t, (<-queued).Err, signalbox.ErrClosed)
			require.ErrorIs(t, (<-waiting).Err, signalbox.ErrClosed)
			time.Sleep(10 * time.Second)
			require.NoError(t, lease.Err())
			require.False(t, locktest.IsClosed(closed))
			require.NoError(t, lease.Unlock())
			require.NoError(t, <-closed)
			_, err := mu.Lock(r.Context())
			require.ErrorIs(t, err, signalbox.ErrClosed)
			require.ErrorIs(t, mu.Check(), signalbox.ErrClosed)
			got := <-elsewhere
			require.NoError(t, got.Err)

			require.Error(t, holding[i].Close(locktest.Ended()))
			for _, lost := range []signalbox.Lease{got.Value, theirs} {
				require.ErrorIs(t, lost.Err(), signalbox.ErrLost)
				require.ErrorIs(t, lost.Err(), signalbox.ErrClosed)
			}
			time.Sleep(time.Second)
			require.Zero(t, r.holds())
		})
	}
}

// P9, P10: a key of a quorum that another program uses ends a call at once, with the server's words, if it is at a majority of the
// servers; at fewer it is no hindrance. It is left as it is, and when it is gone the lock serves.
func TestRedlock_ForeignKeyOfAMajority_EndsACallAtOnce(t *testing.T) {
	t.Parallel()
	for _, key := range []string{locktest.Key("a"), locktest.Keys("a").Fence(), "sb:epoch"} {
		for bad := 1; bad <= 2; bad++ {
			for name, call := range map[string]func(mu *redlock.Lock, ctx context.Context) (signalbox.Lease, error){"Lock": (*redlock.Lock).Lock, "TryLock": (*redlock.Lock).TryLock} {
				t.Run(fmt.Sprint(key, bad, name), func(t *testing.T) {
					t.Parallel()
					readyBubble(t, 3, func(r *redlockServers) {
						mu, _ := r.lock(redlock.Fenced())
						var ready []backup
						for _, f := range r.servers[:bad] {
							ready = append(ready, backupOf(r.T, f.redis))
							f.redis.Del(key)
							_, err := f.redis.RPush(key, "x")
							require.NoError(r, err)
						}
						ctx, cancel := context.WithTimeout(r.Context(), time.Second)
						defer cancel()
						lease, err := call(mu, ctx)
						require.NoError(r, ctx.Err(), "it waited")
						if bad == 1 {
							require.NoError(r, err)
							require.NoError(r, lease.Unlock())
							return
						}
						require.ErrorContains(r, err, "WRONGTYPE")
						for i, f := range r.servers[:bad] {
							list, err := f.redis.List(key)
							require.NoError(r, err)
							require.Equal(r, []string{"x"}, list)
							ready[i].restore(r.T, f.redis)
						}
						time.Sleep(time.Second)
						require.NoError(r, r.mustLock(mu).Unlock())
					})
				})
			}
		}
	}
}
