// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// lockRepeatedly lets each user acquire and release a lock again and again until the context ends, and sends
// the time of each grant to a channel that has the capacity for them.
func lockRepeatedly(ctx context.Context, t *testing.T, locks []locktest.Lock) (grants chan time.Time, ended *sync.WaitGroup) {
	t.Helper()
	grants, ended = make(chan time.Time, 100_000), new(sync.WaitGroup)
	for _, mu := range locks {
		ended.Go(func() {
			for {
				lease, err := mu.Lock(ctx)
				if err != nil {
					require.ErrorIs(t, err, context.Canceled)
					return
				}
				grants <- time.Now()
				require.NoError(t, lease.Unlock())
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	return grants, ended
}

// locksOf returns how to make one lock of each kind that hands over by messages.
func locksOf(name string) map[string]func(*signalbox.Session) locktest.Lock {
	return map[string]func(*signalbox.Session) locktest.Lock{
		"fair":      func(s *signalbox.Session) locktest.Lock { return fair.New(s, name) },
		"reentrant": func(s *signalbox.Session) locktest.Lock { return reentrant.New(s, name) },
	}
}

// P6: grants continue while the subscriptions of all sessions break again and again, and a second
// later each hand-off takes one script and one message.
func TestGrantsContinueWhileSubscriptionsBreak(t *testing.T) {
	t.Parallel()
	const latency, every = time.Millisecond, 250 * time.Millisecond
	for name, lock := range locksOf("broken") { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				t := f.T
				users, closeAll := f.queueUsers(t, 3, latency)
				defer closeAll()
				var locks []locktest.Lock
				for _, u := range users {
					locks = append(locks, lock(u.Session))
				}
				ctx, cancel := context.WithCancel(t.Context())
				grants, ended := lockRepeatedly(ctx, t, locks)
				for second := range redistest.Rounds(1, 5) {
					before := len(grants)
					for range time.Second / every {
						time.Sleep(every)
						for _, u := range users {
							u.breakSubscriptions()
						}
					}
					require.GreaterOrEqual(t, len(grants)-before, 20, "second %d", second)
				}
				cancel()
				ended.Wait()
				time.Sleep(10 * time.Second) // the longest pause before a node is asked again is five
				for n := range locks {
					lease := atOnce(t, locks[n])
					next := queuedAndListening(t.Context(), locks[(n+1)%len(locks)])
					released := time.Now()
					require.NoError(t, lease.Unlock())
					got := <-next
					require.NoError(t, got.err)
					require.LessOrEqual(t, got.at.Sub(released), 4*latency, "by message")
					require.NoError(t, got.lease.Unlock())
				}
			})
		})
	}
}

// refusesSubscriptions lets the fixture refuse every SUBSCRIBE from now on.
func (f *fixture) refusesSubscriptions() {
	f.redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command != "SUBSCRIBE" {
			return false
		}
		c.WriteError("NOPERM this user has no permissions to run the 'subscribe' command")
		return true
	})
}

// P6: a waiter that loses its subscription, and gets no other, polls ten times a second from then
// on: it does not wait for the poll that was planned while messages came.
func TestLostSubscriptionBringsPollsForward(t *testing.T) {
	t.Parallel()
	const latency = time.Millisecond
	for name, lock := range locksOf("lost") { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			for _, after := range []time.Duration{10 * time.Millisecond, 120 * time.Millisecond, 3 * time.Second} {
				bubble(t, func(f *fixture) {
					t := f.T
					users, closeAll := f.queueUsers(t, 2, latency)
					defer closeAll()
					lease := atOnce(t, lock(users[0].Session))
					next := queuedAndListening(t.Context(), lock(users[1].Session))
					time.Sleep(600 * time.Millisecond) // a second after the first poll was planned, and one was sent
					f.refusesSubscriptions()
					users[1].breakSubscriptions()
					time.Sleep(after)
					released := time.Now()
					require.NoError(t, lease.Unlock())
					got := <-next
					require.NoError(t, got.err)
					require.Less(t, got.at.Sub(released), 115*time.Millisecond, "released after %v", after)
					require.NoError(t, got.lease.Unlock())
				})
			}
		})
	}
}
