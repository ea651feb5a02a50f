// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/setnx"
	"github.com/signalbox-go/signalbox/shards"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

const name = "order/42"

// acquired is what an acquire of any kind returned.
type acquired struct {
	token   uint64
	done    <-chan struct{}
	err     func() error
	release func() error
}

// acquirer acquires what one kind has under the name, and waits for it.
type acquirer func(ctx context.Context) (acquired, error)

// lockOf returns the acquirer of a call that returns a lease.
func lockOf(acquire func(context.Context) (signalbox.Lease, error)) acquirer {
	return func(ctx context.Context) (acquired, error) {
		lease, err := acquire(ctx)
		return acquired{lease.Token(), lease.Done(), lease.Err, lease.Unlock}, err
	}
}

// process opens a session on each server.
func process(kits []*signalboxtest.Kit) []*signalbox.Session {
	sessions := make([]*signalbox.Session, len(kits))
	for i, k := range kits {
		sessions[i] = k.Session()
	}
	return sessions
}

// kindCase is one kind of lock. The second of two processes waits for the first.
type kindCase struct {
	servers       int
	in            *signalbox.Layout // nil for the library's own
	first, second func(s []*signalbox.Session) acquirer
}

// kindOnOneServer is a kind on one server, of which the second process does what the first does.
func kindOnOneServer(open func(s *signalbox.Session) acquirer) kindCase {
	all := func(s []*signalbox.Session) acquirer { return open(s[0]) }
	return kindCase{servers: 1, first: all, second: all}
}

// inLayout is a kind on one server in the layout of another client.
func inLayout(in signalbox.Layout, open func(s *signalbox.Session, in signalbox.LockOption) Locker) kindCase {
	k := kindOnOneServer(func(s *signalbox.Session) acquirer { return lockOf(open(s, signalbox.WithLayout(in)).Lock) })
	k.in = &in
	return k
}

// Locker is what waits for a lock.
type Locker interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
}

var errAgain = errors.New("the function failed")

// claim acquires the claim of a once: its function runs until release, and fails, so that the next caller runs it.
func claim(s *signalbox.Session) acquirer {
	return func(ctx context.Context) (acquired, error) {
		type claimed struct {
			acquired
			err error
		}
		begun, release, ended := make(chan claimed, 1), make(chan struct{}), make(chan error, 1)
		go func() {
			_, _, err := once.New(s, name).Do(ctx, func(_ context.Context, l signalbox.Lease) ([]byte, error) {
				begun <- claimed{acquired{l.Token(), l.Done(), l.Err, nil}, nil}
				select {
				case <-release:
				case <-ctx.Done(): // of a test that failed
				}
				return nil, errAgain
			})
			begun <- claimed{err: err}
			ended <- err
		}()
		c := <-begun
		c.release = func() error {
			close(release)
			if err := <-ended; errors.Is(err, signalbox.ErrLost) || !errors.Is(err, errAgain) {
				return err
			}
			return nil
		}
		return c.acquired, c.err
	}
}

func kinds() map[string]kindCase {
	quorum := func(s []*signalbox.Session) acquirer { return lockOf(redlock.New(s, name).Lock) }
	return map[string]kindCase{
		"reentrant": kindOnOneServer(func(s *signalbox.Session) acquirer { return lockOf(reentrant.New(s, name).Lock) }),
		"fair":      kindOnOneServer(func(s *signalbox.Session) acquirer { return lockOf(fair.New(s, name).Lock) }),
		"writer":    kindOnOneServer(func(s *signalbox.Session) acquirer { return lockOf(rwlock.New(s, name).Lock) }),
		"reader": {
			servers: 1,
			first:   func(s []*signalbox.Session) acquirer { return lockOf(rwlock.New(s[0], name).RLock) },
			second:  func(s []*signalbox.Session) acquirer { return lockOf(rwlock.New(s[0], name).Lock) },
		},
		"semaphore": kindOnOneServer(func(s *signalbox.Session) acquirer {
			return lockOf(func(ctx context.Context) (signalbox.Lease, error) { return semaphore.New(s, name, 3).Acquire(ctx, 2) })
		}),
		"multilock": kindOnOneServer(func(s *signalbox.Session) acquirer {
			return lockOf(multilock.New(reentrant.New(s, name), fair.New(s, "of/"+s.ID())).Lock) // contends by one member
		}),
		"redlock": {servers: 3, first: quorum, second: quorum},
		"election": kindOnOneServer(func(s *signalbox.Session) acquirer {
			return func(ctx context.Context) (acquired, error) {
				term, err := election.New(s, name).Campaign(ctx)
				return acquired{term.Token(), term.Done(), term.Err, term.Resign}, err
			}
		}),
		"once":  kindOnOneServer(claim),
		"SetNX": inLayout(setnx.Layout(), func(s *signalbox.Session, in signalbox.LockOption) Locker { return reentrant.New(s, name, in) }),
		"RLock": inLayout(redisson.Layout(), func(s *signalbox.Session, in signalbox.LockOption) Locker { return reentrant.New(s, name, in) }),
		"RedissonFairLock": inLayout(redisson.Layout(), func(s *signalbox.Session, in signalbox.LockOption) Locker {
			return fair.New(s, name, in)
		}),
		"RReadWriteLock": inLayout(redisson.Layout(), func(s *signalbox.Session, in signalbox.LockOption) Locker { return rwlock.New(s, name, in) }),
	}
}

// timedAcquire is what an acquire returned, and when.
type timedAcquire struct {
	acquired
	at time.Time
}

// acquireLater acquires on another goroutine.
func acquireLater(t *testing.T, acquire acquirer) <-chan timedAcquire {
	t.Helper()
	got := make(chan timedAcquire, 1)
	go func() {
		h, err := acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- timedAcquire{h, time.Now()}
	}()
	return got
}

// P2, P3, P6: the kit knows the holder of each kind. Lose ends its lease at once, and the other process has a greater token. A hold
// that expires goes to the waiter, while its holder does not know; fencing tokens are for that.
func TestEveryKindIsLostAndExpires(t *testing.T) {
	t.Parallel()
	for kindName, kind := range kinds() {
		t.Run(kindName, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				servers := make([]*signalboxtest.Kit, kind.servers)
				for i := range servers {
					servers[i] = signalboxtest.New(t)
				}
				first := process(servers)
				one, two := kind.first(first), kind.second(process(servers))
				kits := slices.Clone(servers)
				if kind.in != nil {
					kits[0] = kits[0].In(*kind.in)
				}
				holder, err := one(t.Context())
				require.NoError(t, err)
				kits[0].Advance(time.Millisecond) // a redlock does not wait for its last server
				require.True(t, kits[0].IsHeld(name))
				require.True(t, kits[0].HeldBy(name, first[0]))
				require.Equal(t, kind.in == nil, servers[0].IsHeld(name), "a lock in another layout is another lock")
				next := acquireLater(t, two)
				kits[0].Advance(500 * time.Millisecond)
				var others []*signalboxtest.Holding
				for _, k := range kits[:len(kits)/2+1] {
					others = append(others, k.Lose(name))
					require.False(t, k.HeldBy(name, first[0]))
				}
				lost := time.Now()
				<-holder.done
				require.LessOrEqual(t, time.Since(lost), 2*time.Millisecond, "renewals begin with a tick")
				require.ErrorIs(t, holder.err(), signalbox.ErrLost)
				if len(kits) == 1 { // a vote of a redlock goes to no process
					require.Greater(t, others[0].Token(), holder.token)
					kits[0].Advance(3 * time.Second)
					require.Empty(t, next, "the waiter waits for the other process")
				}
				require.ErrorIs(t, holder.release(), signalbox.ErrLost)
				for _, other := range others {
					other.Release()
					other.Release()
				}
				got := <-next
				require.Greater(t, got.token, max(holder.token, others[0].Token()))

				kits[0].Advance(1200 * time.Millisecond) // behind the first renewal
				next = acquireLater(t, one)
				kits[0].Advance(300 * time.Millisecond) // 2.5 s after the grant the next renewal may come
				for _, k := range kits {
					k.Expire(name)
				}
				expired := time.Now()
				require.NoError(t, got.err(), "it does not know")
				last := <-next
				require.LessOrEqual(t, last.at.Sub(expired), 2*time.Second)
				require.Greater(t, last.token, got.token)
				kits[0].Advance(15 * time.Second)
				require.ErrorIs(t, got.err(), signalbox.ErrLost)
				require.NoError(t, last.err())
				require.ErrorIs(t, got.release(), signalbox.ErrLost)
				require.NoError(t, last.release())
				kits[0].Advance(time.Millisecond)
				require.False(t, kits[0].IsHeld(name))
			})
		})
	}
}

// P2: a session that is cut off ends its lease before another has the lock; when it is healed, it goes to the queue.
func TestASessionThatIsCutOffIsHealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		s, other := kit.Session(), kit.Session()
		one, two := lockOf(reentrant.New(s, name).Lock), lockOf(reentrant.New(other, name).Lock)
		holder, err := one(t.Context())
		require.NoError(t, err)
		next := acquireLater(t, two)
		kit.Advance(2 * time.Second)
		kit.Partition(s)
		<-holder.done
		require.ErrorIs(t, holder.err(), signalbox.ErrLost)
		require.Empty(t, next, "the lease ends before the hold")
		got := <-next
		require.ErrorIs(t, holder.release(), signalbox.ErrLost)
		kit.Heal(s)
		again := acquireLater(t, one)
		kit.Advance(5 * time.Second)
		require.Empty(t, again)
		require.NoError(t, got.release())
		require.NoError(t, (<-again).release())
	})
}

// A latch opens by message, and its round ends with Expire.
func TestALatchOpensAtOnceAndExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		round, err := countdown.New(kit.Session(), name).Start(t.Context(), 1)
		require.NoError(t, err)
		workers, err := countdown.New(kit.Session(), name).Round(t.Context())
		require.NoError(t, err)
		opened := make(chan time.Time, 1)
		go func() {
			_ = round.Wait(t.Context())
			opened <- time.Now()
		}()
		kit.Advance(500 * time.Millisecond)
		counted := time.Now()
		_, err = workers.CountDown(t.Context(), "only")
		require.NoError(t, err)
		require.Zero(t, (<-opened).Sub(counted))

		round, err = countdown.New(kit.Session(), name).Start(t.Context(), 1)
		require.NoError(t, err)
		kit.Expire(name)
		require.ErrorIs(t, round.Wait(t.Context()), signalbox.ErrRoundLost)
	})
}

// The outcome of a once ends with Expire, so that the function runs again.
func TestAnOutcomeExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		runs := 0
		do := func() {
			_, _, err := once.New(kit.Session(), name).Do(t.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
				runs++
				return nil, nil
			})
			require.NoError(t, err)
		}
		do()
		do()
		require.Equal(t, 1, runs)
		kit.Expire(name)
		do()
		require.Equal(t, 2, runs)
	})
}

// A lock that is held in its old layout and in its new one can be lost in either.
func TestAMoveBetweenLayoutsIsTested(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		s := kit.Session()
		moving := multilock.New(reentrant.New(s, name, signalbox.WithLayout(setnx.Layout())), reentrant.New(s, name))
		for _, k := range []*signalboxtest.Kit{kit, kit.In(setnx.Layout())} {
			require.ErrorIs(t, moving.Do(t.Context(), func(ctx context.Context, _ signalbox.Lease) error {
				require.True(t, kit.HeldBy(name, s))
				require.True(t, kit.In(setnx.Layout()).HeldBy(name, s))
				k.Lose(name).Release()
				<-ctx.Done()
				return nil
			}), signalbox.ErrLost)
		}
	})
}

// A pause that is shorter than what is left of the lease loses nothing.
func TestAShortPauseLosesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		s := kit.Session()
		lease, err := reentrant.New(s, "a").Lock(t.Context())
		require.NoError(t, err)
		kit.Pause(s)
		kit.Pause(s)
		require.True(t, kit.HeldBy("a", s))
		kit.Resume(s)
		kit.Resume(s)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
		require.False(t, kit.IsHeld("a"))
	})
}

// Calls and messages wait for the end of a pause: a waiter that was granted the lock in it has the lock then.
func TestMessagesWaitForTheEndOfAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		waiter := kit.Session()
		other := kit.Hold("a")
		got := make(chan signalbox.Lease, 2)
		lock := func(name string) {
			lease, err := reentrant.New(waiter, name).Lock(t.Context())
			if err == nil {
				got <- lease
			}
		}
		go lock("a")
		kit.Advance(100 * time.Millisecond)
		kit.Pause(waiter)
		other.Release()
		go lock("b")
		kit.Advance(time.Second)
		require.Empty(t, got)
		require.True(t, kit.HeldBy("a", waiter), "it does not know yet")
		require.False(t, kit.IsHeld("b"))
		kit.Resume(waiter)
		ended := time.Now()
		for range 2 {
			require.NoError(t, (<-got).Unlock())
		}
		require.LessOrEqual(t, time.Since(ended), 200*time.Millisecond)
	})
}

// A user's test of a group: members join, one is cut off, one stands still, one is ended by force, and one leaves.
func TestGroupOfShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		join := func() (*signalbox.Session, *shards.Member) {
			s := kit.Session()
			m, err := shards.New(s, "orders", shards.Count(8)).Join(t.Context())
			require.NoError(t, err)
			go func() { // ends when the member has left
				for c := range m.Changes() {
					if c.Kind != shards.Granted {
						_ = c.Shard.Release()
					}
				}
			}()
			return s, m
		}
		session, a := join()
		_, b := join()
		kit.Advance(10 * time.Second)
		require.Equal(t, []int{4, 4}, []int{a.Owned(), b.Owned()})

		kit.Partition(session) // as if its process was killed
		kit.Advance(30 * time.Second)
		require.Equal(t, []int{0, 8}, []int{a.Owned(), b.Owned()})
		kit.Heal(session)
		kit.Advance(30 * time.Second)
		require.Equal(t, []int{4, 4}, []int{a.Owned(), b.Owned()})

		kit.Pause(session) // as if its process was stopped
		kit.Advance(30 * time.Second)
		require.Equal(t, 8, b.Owned())
		kit.Resume(session)
		kit.Advance(30 * time.Second)
		require.Equal(t, []int{4, 4}, []int{a.Owned(), b.Owned()})

		require.NoError(t, inspect.Break(t.Context(), kit.Session(), "orders")) // all members lose their shards, and join again
		kit.Advance(30 * time.Second)
		require.Equal(t, []int{4, 4}, []int{a.Owned(), b.Owned()})
		require.NoError(t, a.Leave(context.Background()))
		kit.Advance(10 * time.Second)
		require.Equal(t, 8, b.Owned())
	})
}
