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
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6: whenever a grant falls, before the subscription of its waiter or after it, the waiter learns of it by the
// confirmation or by the message, before its first poll.
func TestFairGrantAtAnyInstantIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	const latency, instants, step = 20 * time.Millisecond, 40, 7 * time.Millisecond
	bubble(t, func(f *fixture) {
		holder, _, closeHolder := f.session(f.T)
		defer closeHolder()
		for i := range instants {
			name := fmt.Sprint("instant/", i)
			s, link, closeWaiter := f.session(f.T)
			link.latency.Store(int64(latency))
			held := atOnce(f.T, fair.New(holder, name))
			var released time.Time
			time.AfterFunc(time.Duration(i)*step, func() {
				released = time.Now()
				_ = held.Unlock()
			})
			lease := atOnce(f.T, fair.New(s, name))
			// The rest of the way to the subscription, which is a connection of its own, and a poll.
			require.Less(f, time.Since(released), 16*latency, "released after %v", time.Duration(i)*step)
			require.NoError(f, lease.Unlock())
			closeWaiter()
		}
	})
}

// Order, P6: if no message ever arrives, the lock still goes to the waiters in their order, a poll later each.
func TestFairOrderIsKeptThoughEveryMessageIsLost(t *testing.T) {
	t.Parallel()
	const waiters = 8
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, waiters+1, time.Millisecond)
		defer closeAll()
		lease := atOnce(f.T, fair.New(users[waiters].Session, "unsubscribed"))
		var queue []<-chan lockResult
		for _, u := range users[:waiters] {
			u.losesMessages.Store(true)
			queue = append(queue, queuedAndListening(f.Context(), fair.New(u.Session, "unsubscribed")))
		}
		for n, next := range queue {
			released := time.Now()
			require.NoError(f, lease.Unlock())
			got := <-next
			require.NoError(f, got.err)
			require.Less(f, got.at.Sub(released), 1010*time.Millisecond)
			require.Greater(f, got.lease.Token(), lease.Token()) // P3
			for _, later := range queue[n+1:] {
				require.Empty(f, later)
			}
			lease = got.lease
		}
		require.NoError(f, lease.Unlock())
	})
}

// Order: TryLock overtakes no waiter, however often it is called while the lock is handed from one to the next.
func TestFairTryLockNeverOvertakesAWaiter(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 3, time.Millisecond)
		defer closeAll()
		lease := atOnce(f.T, fair.New(users[1].Session, "a"))
		ctx, cancel := context.WithCancel(f.Context())
		var trying sync.WaitGroup
		tries := 0
		trying.Go(func() {
			for ; ctx.Err() == nil; tries++ {
				if lease, err := fair.New(users[2].Session, "a").TryLock(ctx); err == nil {
					f.Error("it overtook a waiter")
					_ = lease.Unlock()
				}
			}
		})
		for n := range 6 {
			waiting := queuedAndListening(f.Context(), fair.New(users[n%2].Session, "a"))
			require.NoError(f, lease.Unlock())
			got := <-waiting
			require.NoError(f, got.err)
			lease = got.lease
		}
		cancel()
		trying.Wait()
		require.Greater(f, tries, 500)
		require.NoError(f, lease.Unlock())
	})
}

// P2, P3, P6: a server that was away for longer than a lease, and comes back empty, serves all waiters, one
// after the other.
func TestServerThatComesBackEmptyServesAllFairWaiters(t *testing.T) {
	t.Parallel()
	const sessions, each, life = 5, 10, 6 * time.Second
	for _, away := range []time.Duration{10 * time.Millisecond, 4 * time.Second, time.Minute} {
		bubble(t, func(f *fixture) {
			users, closeAll := f.queueUsers(f.T, sessions+1, time.Millisecond)
			defer closeAll()
			held := atOnce(f.T, fair.New(users[sessions].Session, "a", signalbox.WithRenewedLease(life)))
			c := &chaosLock{T: f.T, name: "a"}
			c.enters(held)
			var all sync.WaitGroup
			for _, u := range users[:sessions] {
				for range each {
					all.Go(func() {
						lease := atOnce(f.T, fair.New(u.Session, "a"))
						c.enters(lease)
						c.leaves(lease)
						err := lease.Unlock()
						if errors.Is(err, signalbox.ErrUnconfirmed) {
							err = nil
						}
						require.NoError(f, err)
					})
				}
			}
			time.Sleep(time.Second)
			for _, u := range users {
				u.refuses.Store(true)
				u.cut()
			}
			time.Sleep(away)
			f.redis.FlushAll()
			c.leaves(held) // no lock excludes a holder whose key the server lost, until the next renewal
			for _, u := range users {
				u.heal()
			}
			back := time.Now()
			all.Wait()
			require.Less(f, time.Since(back), 4*time.Second, "away for %v", away)
			<-held.Done()
			require.ErrorIs(f, held.Err(), signalbox.ErrLost)
			require.Equal(f, sessions*each+1, c.mu.took)
			time.Sleep(time.Second)
			tickets, isHeld := f.queued("a")
			require.Zero(f, tickets)
			require.False(f, isHeld)
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
				bubble(t, func(f *fixture) {
					users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
					defer closeAll()
					store := &fencedCounter{fenced: fenced}
					late, other := kind.New(users[0].Session, "counter"), kind.New(users[1].Session, "counter")
					store.add(f, atOnce(f.T, late))
					lease := atOnce(f.T, late)
					value, ok := store.access(lease.Token(), nil)
					require.True(f, ok)
					users[0].goSilent() // it cannot renew, as a process that is stopped
					for range 5 {
						store.add(f, atOnce(f.T, other))
					}
					value++
					_, ok = store.access(lease.Token(), &value)
					require.Equal(f, !fenced, ok)
					require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
					require.Equal(f, map[bool]int{true: 6, false: 2}[fenced], store.value)
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
func (f *fencedCounter) access(token uint64, write *int) (value int, ok bool) {
	if f.fenced && token < f.seen {
		return 0, false
	}
	f.seen = max(f.seen, token)
	if write != nil {
		f.value = *write
	}
	return f.value, true
}

// add adds one under a lease, and unlocks that.
func (f *fencedCounter) add(fx *fixture, lease signalbox.Lease) {
	fx.Helper()
	value, ok := f.access(lease.Token(), nil)
	require.True(fx, ok)
	value++
	_, ok = f.access(lease.Token(), &value)
	require.True(fx, ok)
	require.NoError(fx, lease.Unlock())
}

// P6: in Redisson's layout a waiter that lost its ticket, and gets no message, queues again and has the lock; the next
// waiter has it after that one.
func TestRedissonFairWaiterThatLostItsTicketComesAgain(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]string{ //nolint:paralleltest // as above
		"Message": {"a"}, "Tickets": {"a", "redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				users, closeAll := f.queueUsers(f.T, 3, time.Millisecond)
				defer closeAll()
				lock := func(u queueUser) *fair.Lock {
					return fair.New(u.Session, "a", signalbox.WithLayout(redisson.Layout()))
				}
				lease := atOnce(f.T, lock(users[0]))
				first, second := queuedAndListening(f.Context(), lock(users[1])), queuedAndListening(f.Context(), lock(users[2]))
				for _, key := range lost {
					f.redis.Del(key)
				}
				deleted := time.Now()
				for n := range 2 {
					var got lockResult
					select {
					case got = <-first:
						first = nil
					case got = <-second:
						require.False(f, n == 0 && name == "Message", "it had the second ticket")
						second = nil
					}
					require.NoError(f, got.err)
					require.Less(f, got.at.Sub(deleted), 3*time.Second)
					require.NoError(f, got.lease.Unlock())
				}
				require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)
				require.Empty(f, f.redis.Keys())
			})
		})
	}
}

// P4, P5: in Redisson's layout a call whose reply is lost is repeated or undone: it leaves neither hold nor ticket.
func TestRedissonFairCallWithoutAReplyLeavesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
		defer closeAll()
		mu, other := fair.New(users[0].Session, "a", signalbox.WithLayout(redisson.Layout())), fair.New(users[1].Session, "a", signalbox.WithLayout(redisson.Layout()))
		require.NoError(f, atOnce(f.T, mu).Unlock())
		lost := f.losesReply(scripts.Load("redisson/fair-acquire", 1), users[0].wire)
		lease := atOnce(f.T, mu)
		<-lost
		require.NoError(f, lease.Unlock())
		time.Sleep(4 * time.Second)
		require.Empty(f, f.redis.Keys())

		lease = atOnce(f.T, other)
		lost = f.losesReply(scripts.Load("redisson/fair-acquire", 1), users[0].wire)
		_, err := mu.TryLock(f.Context())
		require.Error(f, err)
		<-lost
		require.NoError(f, lease.Unlock())
		time.Sleep(4 * time.Second)
		require.Empty(f, f.redis.Keys())
	})
}
