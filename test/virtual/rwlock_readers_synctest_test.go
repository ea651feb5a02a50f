// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P7: readers of a session enter beside each other without a command, but for one each 20 ms that asks whether a writer waits;
// and all but the last one leave without a command.
func TestRWReadersOfASessionAskTheServerEvery20ms(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		s, _, closeAll := f.session(t, signalbox.WithPolling()) // which sends nothing by itself
		defer closeAll()
		lock, reader := rwlock.New(s, "a"), locktest.Reader().New(s, "a")
		leases := []signalbox.Lease{atOnce(t, reader), atOnce(t, reader)}
		time.Sleep(25 * time.Millisecond)
		leases = append(leases, atOnce(t, reader)) // teaches the server the script that asks
		before := f.scripts.Load()
		for n := range 200 {
			enter := []func(context.Context) (signalbox.Lease, error){lock.RLock, lock.TryRLock}[n%2]
			lease, err := enter(t.Context())
			require.NoError(t, err)
			require.Equal(t, leases[0].Token(), lease.Token())
			leases = append(leases, lease)
			require.EqualValues(t, n/20, f.scripts.Load()-before, "after %d ms", n)
			time.Sleep(time.Millisecond)
		}
		require.Len(t, f.rwEnds("a"), 1)
		for _, lease := range leases[1:] {
			require.NoError(t, lease.Unlock())
		}
		require.EqualValues(t, 9, f.scripts.Load()-before)
		require.NoError(t, leases[0].Unlock())
		f.rwFree(t)
	})
}

// No reader enters a hold that is lost: the server says so, or a renewal has said so before.
func TestRWNoReaderEntersAHoldThatIsLost(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{25 * time.Millisecond, rwLife} {
		bubble(t, func(f *fixture) {
			t := f.T
			users, closeAll := f.queueUsers(t, 1, time.Millisecond)
			defer closeAll()
			lock := locktest.Reader().New(users[0].Session, "a", signalbox.WithRenewedLease(rwLife))
			lost := []signalbox.Lease{atOnce(t, lock), atOnce(t, lock)}
			f.redis.FlushAll()
			time.Sleep(after)
			next := atOnce(t, lock)
			require.Greater(t, next.Token(), lost[0].Token())
			for _, lease := range lost {
				<-lease.Done()
				require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
			}
			require.NoError(t, next.Err())
			require.NoError(t, next.Unlock())
			f.rwFree(t)
		})
	}
}

// P6: a reader that gives up before the reply to its call leaves the attempt to the next reader of its session.
func TestRWLeaderThatGivesUpLeavesItsAttemptToTheNext(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]func(u queueUser){ //nolint:paralleltest // as above
		"RequestLost": func(u queueUser) { u.goSilent() },
		"ReplyLost":   func(u queueUser) { u.swallowsReplies.Store(true) },
		"Late":        func(u queueUser) { u.latency.Store(int64(1500 * time.Millisecond)) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				t := f.T
				users, closeAll := f.queueUsers(t, 2, time.Millisecond)
				defer closeAll()
				lock := locktest.Reader().New(users[0].Session, "a")
				require.NoError(t, atOnce(t, lock).Unlock())
				cause(users[0])
				ctx, cancel := context.WithCancel(t.Context())
				leader := queued(ctx, lock)
				next := queued(t.Context(), lock)
				cancel()
				require.ErrorIs(t, (<-leader).err, context.Canceled)
				users[0].latency.Store(int64(time.Millisecond))
				if name != "Late" {
					time.Sleep(time.Second)
					users[0].heal()
				}
				healed := time.Now()
				lease := granted(t, next)
				require.Less(t, time.Since(healed), 4*time.Second)
				require.NoError(t, lease.Err())
				require.NoError(t, lease.Unlock())
				require.NoError(t, atOnce(t, rwlock.New(users[1].Session, "a")).Unlock())
				f.rwFree(t)
			})
		})
	}
}

// P6: Close takes a second at most if the call of a leader gets no reply, and wakes the readers that wait for it at once.
func TestRWCloseDoesNotWaitForALeaderWithoutAReply(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 1, time.Millisecond)
		defer closeAll()
		lock := locktest.Reader().New(users[0].Session, "a")
		require.NoError(t, atOnce(t, lock).Unlock())
		users[0].goSilent()
		began := time.Now()
		leader, one, other := queued(t.Context(), lock), queued(t.Context(), lock), queued(t.Context(), lock)
		require.Error(t, users[0].Close(locktest.Ended()))
		require.LessOrEqual(t, time.Since(began), time.Second)
		for _, got := range []<-chan lockResult{one, other} {
			h := <-got
			require.ErrorIs(t, h.err, signalbox.ErrClosed)
			require.Equal(t, began, h.at, "at once")
		}
		require.ErrorIs(t, (<-leader).err, signalbox.ErrClosed)
	})
}

// rwUsers is users of one side in a closed loop, the number of their leases, and the tokens of their holds: readers of a
// session may share one hold for as long as no writer waits.
type rwUsers struct {
	stop   context.CancelFunc
	users  sync.WaitGroup
	mu     sync.Mutex
	leases int
	tokens map[uint64]bool
}

// rwCircles lets n users of one side, in sessions of theirs, have the lock "a" again and again until the crowd is stopped.
func rwCircles(t *testing.T, sessions []queueUser, side locktest.Primitive, n int, options ...signalbox.LockOption) *rwUsers {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &rwUsers{stop: stop, tokens: make(map[uint64]bool)}
	for i := range n {
		lock := side.New(sessions[i%len(sessions)].Session, "a", options...)
		r.users.Go(func() {
			for {
				lease, err := lock.Lock(ctx)
				if err != nil {
					require.ErrorIs(t, err, context.Canceled)
					return
				}
				r.mu.Lock()
				r.leases++
				r.tokens[lease.Token()] = true
				r.mu.Unlock()
				time.Sleep(rand.N(10 * time.Millisecond))
				require.NoError(t, lease.Unlock())
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	return r
}

// holds returns how many holds the crowd has had.
func (r *rwUsers) holds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tokens)
}

// acquired returns how many leases the crowd has had.
func (r *rwUsers) acquired() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leases
}

func (r *rwUsers) ends() {
	r.stop()
	r.users.Wait()
}

// overlaps lets a user have the lock n times, and fails the test if more than most holds of a crowd began while it waited. The
// wire takes no time here, so whatever the server granted has arrived when nothing runs.
func (r *rwUsers) overlaps(t *testing.T, lock locktest.Lock, n, most int) {
	t.Helper()
	for range n {
		time.Sleep(rand.N(5 * time.Millisecond))
		met := make(chan int, 1)
		go func() {
			lease, err := lock.Lock(t.Context())
			require.NoError(t, err)
			met <- r.holds() // no holder that excludes this one begins before it releases
			require.NoError(t, lease.Unlock())
		}()
		synctest.Wait()
		before, began := r.holds(), time.Now()
		require.LessOrEqual(t, <-met-before, most, "it was passed over")
		require.Less(t, time.Since(began), 5*time.Second, "it starves")
	}
}

// P6, order: neither side starves. No reader enters a new hold while a writer waits, a reader waits for one writer at most,
// and a writer for the writers before it, with readers and writers in closed loops.
func TestRWNeitherSideStarves(t *testing.T) {
	t.Parallel()
	own := signalbox.WithMaxHold(time.Hour)  // what makes each reader have its own hold
	for name, c := range map[string]struct { //nolint:paralleltest // counts all goroutines
		readers, writers int
		options          []signalbox.LockOption // the options of the readers
	}{
		"AWriterAmongReaders":        {readers: 8, options: []signalbox.LockOption{own}},
		"AWriterAmongSharingReaders": {readers: 16},
		"AReaderAmongWriters":        {writers: 6},
		"AmongBoth":                  {readers: 8, writers: 3, options: []signalbox.LockOption{own}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				t := f.T
				users, closeAll := f.queueUsers(t, 5, 0)
				defer closeAll()
				readers := rwCircles(t, users[:4], locktest.Reader(), c.readers, c.options...)
				writers := rwCircles(t, users[:4], locktest.Writer(), c.writers)
				writer, reader := rwlock.New(users[4].Session, "a"), locktest.Reader().New(users[4].Session, "a", own)
				uses := redistest.Rounds(4, 10)
				if c.writers == 0 {
					readers.overlaps(t, writer, uses, 0)
				} else {
					writers.overlaps(t, reader, uses, 1)
					writers.overlaps(t, writer, uses, c.writers)
				}
				for _, crowd := range []*rwUsers{readers, writers} {
					before := crowd.acquired()
					time.Sleep(50 * time.Millisecond)
					if crowd == readers && c.readers > 0 || crowd == writers && c.writers > 0 {
						require.Greater(t, crowd.acquired(), before, "the crowd continues")
					}
				}
				readers.ends()
				writers.ends()
				time.Sleep(5 * time.Second) // until nothing is being undone any more
				f.rwFree(t)
			})
		})
	}
}

// Order: TryLock never takes the lock before a waiter, whether that is a writer or a reader of the next phase.
func TestRWTryLockNeverPassesAWaiter(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 4, time.Millisecond)
		defer closeAll()
		lease := atOnce(t, rwlock.New(users[0].Session, "a"))
		jumper := rwlock.New(users[3].Session, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var jumping sync.WaitGroup
		for range 10 {
			jumping.Go(func() {
				for ctx.Err() == nil {
					_, err := jumper.TryLock(context.WithoutCancel(ctx))
					require.ErrorIs(t, err, signalbox.ErrHeld)
					time.Sleep(rand.N(500 * time.Microsecond))
				}
			})
		}
		// From hand to hand: there is always a waiter, or a holder.
		for n := range 40 {
			got := queued(t.Context(), bothSides()[n%2].New(users[(n+1)%3].Session, "a"))
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, lease.Unlock())
			lease = granted(t, got)
		}
		cancel()
		jumping.Wait()
		require.NoError(t, lease.Unlock())
	})
}
