// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6: whenever a grant falls, before the subscription of its waiter or after it, the waiter learns of it by the
// confirmation or by the message, before its first poll.
func TestFairGrantAtAnyInstantIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	const latency, instants, step = 20 * time.Millisecond, 40, 7 * time.Millisecond
	bubble(t, func(w *fixture) {
		holder, _, closeHolder := w.session(w.T)
		defer closeHolder()
		for i := range instants {
			name := fmt.Sprint("instant/", i)
			s, link, closeWaiter := w.session(w.T)
			link.latency.Store(int64(latency))
			held := atOnce(w.T, fair.New(holder, name))
			var released time.Time
			time.AfterFunc(time.Duration(i)*step, func() {
				released = time.Now()
				_ = held.Unlock()
			})
			lease := atOnce(w.T, fair.New(s, name))
			// The rest of the way to the subscription, which is a connection of its own, and a poll.
			require.Less(w, time.Since(released), 16*latency, "released after %v", time.Duration(i)*step)
			require.NoError(w, lease.Unlock())
			closeWaiter()
		}
	})
}

// Order, P6: if no message ever arrives, the lock still goes to the waiters in their order, a poll later each.
func TestFairOrderIsKeptThoughEveryMessageIsLost(t *testing.T) {
	t.Parallel()
	const waiters = 8
	bubble(t, func(w *fixture) {
		users, closeAll := w.queueUsers(w.T, waiters+1, time.Millisecond)
		defer closeAll()
		lease := atOnce(w.T, fair.New(users[waiters].Session, "unsubscribed"))
		var queue []<-chan lockResult
		for _, u := range users[:waiters] {
			u.losesMessages.Store(true)
			queue = append(queue, queuedAndListening(w.Context(), fair.New(u.Session, "unsubscribed")))
		}
		for n, next := range queue {
			released := time.Now()
			require.NoError(w, lease.Unlock())
			got := <-next
			require.NoError(w, got.err)
			require.Less(w, got.at.Sub(released), 1010*time.Millisecond)
			require.Greater(w, got.lease.Token(), lease.Token()) // P3
			for _, later := range queue[n+1:] {
				require.Empty(w, later)
			}
			lease = got.lease
		}
		require.NoError(w, lease.Unlock())
	})
}

// Order: TryLock overtakes no waiter, however often it is called while the lock is handed from one to the next.
func TestFairTryLockNeverOvertakesAWaiter(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		users, closeAll := w.queueUsers(w.T, 3, time.Millisecond)
		defer closeAll()
		lease := atOnce(w.T, fair.New(users[1].Session, "a"))
		ctx, cancel := context.WithCancel(w.Context())
		var trying sync.WaitGroup
		tries := 0
		trying.Go(func() {
			for ; ctx.Err() == nil; tries++ {
				if lease, err := fair.New(users[2].Session, "a").TryLock(ctx); err == nil {
					w.Error("it overtook a waiter")
					_ = lease.Unlock()
				}
			}
		})
		for n := range 6 {
			waiting := queuedAndListening(w.Context(), fair.New(users[n%2].Session, "a"))
			require.NoError(w, lease.Unlock())
			got := <-waiting
			require.NoError(w, got.err)
			lease = got.lease
		}
		cancel()
		trying.Wait()
		require.Greater(w, tries, 500)
		require.NoError(w, lease.Unlock())
	})
}

// P2, P3, P6: a server that was away for longer than a lease, and comes back empty, serves all waiters, one
// after the other.
func TestServerThatComesBackEmptyServesAllFairWaiters(t *testing.T) {
	t.Parallel()
	const sessions, each, life = 5, 10, 6 * time.Second
	for _, away := range []time.Duration{10 * time.Millisecond, 4 * time.Second, time.Minute} {
		bubble(t, func(w *fixture) {
			users, closeAll := w.queueUsers(w.T, sessions+1, time.Millisecond)
			defer closeAll()
			held := atOnce(w.T, fair.New(users[sessions].Session, "a", signalbox.WithRenewedLease(life)))
			c := &chaosLock{T: w.T, name: "a"}
			c.enters(held)
			var all sync.WaitGroup
			for _, u := range users[:sessions] {
				for range each {
					all.Go(func() {
						lease := atOnce(w.T, fair.New(u.Session, "a"))
						c.enters(lease)
						c.leaves(lease)
						err := lease.Unlock()
						if errors.Is(err, signalbox.ErrUnconfirmed) {
							err = nil
						}
						require.NoError(w, err)
					})
				}
			}
			time.Sleep(time.Second)
			for _, u := range users {
				u.refuses.Store(true)
				u.cut()
			}
			time.Sleep(away)
			w.redis.FlushAll()
			c.leaves(held) // no lock excludes a holder whose key the server lost, until the next renewal
			for _, u := range users {
				u.heal()
			}
			back := time.Now()
			all.Wait()
			require.Less(w, time.Since(back), 4*time.Second, "away for %v", away)
			<-held.Done()
			require.ErrorIs(w, held.Err(), signalbox.ErrLost)
			require.Equal(w, sessions*each+1, c.mu.took)
			time.Sleep(time.Second)
			tickets, isHeld := w.queued("a")
			require.Zero(w, tickets)
			require.False(w, isHeld)
		})
	}
}

// P3: a store that refuses a token smaller than the greatest it has seen loses no update of a holder that continues after
// its lease has ended. Without tokens the same holder overwrites one.
func TestTokensKeepALateHolderFromOverwriting(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Primitives() { //nolint:paralleltest // as above
		for _, fenced := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/Fenced=%v", kind.Name, fenced), func(t *testing.T) {
				bubble(t, func(w *fixture) {
					users, closeAll := w.queueUsers(w.T, 2, time.Millisecond)
					defer closeAll()
					store := &fencedCounter{fenced: fenced}
					late, other := kind.New(users[0].Session, "counter"), kind.New(users[1].Session, "counter")
					store.add(w, atOnce(w.T, late))
					lease := atOnce(w.T, late)
					value, ok := store.access(lease.Token(), nil)
					require.True(w, ok)
					users[0].goSilent() // it cannot renew, as a process that is stopped
					for range 5 {
						store.add(w, atOnce(w.T, other))
					}
					value++
					_, ok = store.access(lease.Token(), &value)
					require.Equal(w, !fenced, ok)
					require.ErrorIs(w, lease.Err(), signalbox.ErrLost)
					require.Equal(w, map[bool]int{true: 6, false: 2}[fenced], store.value)
				})
			})
		}
	}
}

// fencedCounter is what a lock protects.
type fencedCounter struct {
	fenced bool
	value  int
	seen   uint64 // the greatest token
}

// access reads the counter, or writes it, and reports whether the token allows that.
func (s *fencedCounter) access(token uint64, write *int) (value int, ok bool) {
	if s.fenced && token < s.seen {
		return 0, false
	}
	s.seen = max(s.seen, token)
	if write != nil {
		s.value = *write
	}
	return s.value, true
}

// add adds one under a lease, and unlocks that.
func (s *fencedCounter) add(w *fixture, lease signalbox.Lease) {
	w.Helper()
	value, ok := s.access(lease.Token(), nil)
	require.True(w, ok)
	value++
	_, ok = s.access(lease.Token(), &value)
	require.True(w, ok)
	require.NoError(w, lease.Unlock())
}

// P6: in Redisson's layout a waiter that lost its ticket, and gets no message, queues again and has the lock; the next
// waiter has it after that one.
func TestRedissonFairWaiterThatLostItsTicketComesAgain(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]string{ //nolint:paralleltest // as above
		"Message": {"a"}, "Tickets": {"a", "redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *fixture) {
				users, closeAll := w.queueUsers(w.T, 3, time.Millisecond)
				defer closeAll()
				lock := func(u queueUser) *fair.Lock {
					return fair.New(u.Session, "a", signalbox.WithLayout(signalbox.Redisson()))
				}
				lease := atOnce(w.T, lock(users[0]))
				first, second := queuedAndListening(w.Context(), lock(users[1])), queuedAndListening(w.Context(), lock(users[2]))
				for _, key := range lost {
					w.redis.Del(key)
				}
				deleted := time.Now()
				for n := range 2 {
					var got lockResult
					select {
					case got = <-first:
						first = nil
					case got = <-second:
						require.False(w, n == 0 && name == "Message", "it had the second ticket")
						second = nil
					}
					require.NoError(w, got.err)
					require.Less(w, got.at.Sub(deleted), 3*time.Second)
					require.NoError(w, got.lease.Unlock())
				}
				require.ErrorIs(w, lease.Unlock(), signalbox.ErrLost)
				require.Empty(w, w.redis.Keys())
			})
		})
	}
}

// P4, P5: in Redisson's layout a call whose reply is lost is repeated or undone: it leaves neither hold nor ticket.
func TestRedissonFairCallWithoutAReplyLeavesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		users, closeAll := w.queueUsers(w.T, 2, time.Millisecond)
		defer closeAll()
		mu, other := fair.New(users[0].Session, "a", signalbox.WithLayout(signalbox.Redisson())), fair.New(users[1].Session, "a", signalbox.WithLayout(signalbox.Redisson()))
		require.NoError(w, atOnce(w.T, mu).Unlock())
		lost := w.losesReply(scripts.RedissonFairAcquire, users[0].wire)
		lease := atOnce(w.T, mu)
		<-lost
		require.NoError(w, lease.Unlock())
		time.Sleep(4 * time.Second)
		require.Empty(w, w.redis.Keys())

		lease = atOnce(w.T, other)
		lost = w.losesReply(scripts.RedissonFairAcquire, users[0].wire)
		_, err := mu.TryLock(w.Context())
		require.Error(w, err)
		<-lost
		require.NoError(w, lease.Unlock())
		time.Sleep(4 * time.Second)
		require.Empty(w, w.redis.Keys())
	})
}
