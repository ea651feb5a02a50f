// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// queueUser is a session that waits in lines, and its wire.
type queueUser struct {
	*signalbox.Session
	*wire
}

// queueUsers returns n sessions with a latency.
func (f *fixture) queueUsers(n int, latency time.Duration) (users []queueUser) {
	f.Helper()
	for range n {
		u := f.user()
		u.latency.Store(int64(latency))
		users = append(users, u)
	}
	return users
}

// counts lets the fixture count the executions of a script.
func (f *fixture) counts(script *scripts.Script) *atomic.Int64 {
	var n atomic.Int64
	f.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if runs(script, command, args) {
			n.Add(1)
		}
		return false
	})
	return &n
}

// lockResult is what a call of Lock returned, and when.
type lockResult struct {
	lease signalbox.Lease
	err   error
	at    time.Time
}

// queuedAndListening locks on another goroutine, and returns when that goroutine waits in the queue and listens for its
// grant.
func queuedAndListening(ctx context.Context, mu locktest.Lock) <-chan lockResult {
	returned := queued(ctx, mu)
	time.Sleep(500 * time.Millisecond)
	return returned
}

// atOnce locks a free lock.
func atOnce(t *testing.T, mu locktest.Lock) signalbox.Lease {
	t.Helper()
	lease, err := mu.Lock(t.Context())
	require.NoError(t, err)
	return lease
}

// P4: a TryLock whose reply comes when the lease is over is undone before the next attempt, which finds the lock free.
func TestTryThatTookTooLongDoesNotBlockTheNext(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Primitives() {
		bubbleOfUsers(t, func(f *fixture) {
			users := f.queueUsers(1, time.Millisecond)
			mu := kind.New(users[0].Session, "a", signalbox.WithRenewedLease(time.Second))
			require.NoError(f, atOnce(f.T, mu).Unlock())
			users[0].latency.Store(int64(1500 * time.Millisecond))
			time.AfterFunc(time.Millisecond, func() { users[0].latency.Store(0) }) // it takes effect for the next requests
			began := time.Now()
			lease, err := mu.TryLock(f.Context())
			require.NoError(f, err)
			require.GreaterOrEqual(f, time.Since(began), 1500*time.Millisecond)
			require.NoError(f, lease.Unlock())
		})
	}
}

// scriptTimes is when the server executed scripts, counted from a moment.
type scriptTimes struct {
	mu   sync.Mutex
	from time.Time
	at   map[*scripts.Script][]time.Duration
}

// executed records the executions of these scripts.
func (f *fixture) executed(which ...*scripts.Script) *scriptTimes {
	st := &scriptTimes{at: make(map[*scripts.Script][]time.Duration)}
	f.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		for _, s := range which {
			if runs(s, command, args) {
				st.mu.Lock()
				st.at[s] = append(st.at[s], time.Since(st.from))
				st.mu.Unlock()
			}
		}
		return false
	})
	return st
}

// begin forgets what was executed.
func (st *scriptTimes) begin() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.from = time.Now()
	clear(st.at)
}

// within returns how often a script was executed in a part of the time since begin.
func (st *scriptTimes) within(s *scripts.Script, from, to time.Duration) (n int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, at := range st.at[s] {
		if from <= at && at < to {
			n++
		}
	}
	return n
}

// P6: a server that lost its data gets the enters of the sessions that waited spread over the time, one poll of each, and the
// first of them is granted the lock at once.
func TestSessionsThatLostTheirTicketsComeBackOneByOne(t *testing.T) {
	t.Parallel()
	const sessions, window, most = 100, 100 * time.Millisecond, 60
	for _, event := range []struct {
		name    string
		happens func(f *fixture, users []queueUser)
		first   time.Duration // grant after it
	}{
		{"Flush", func(*fixture, []queueUser) {}, 300 * time.Millisecond},
		{"Restart", func(_ *fixture, users []queueUser) {
			for _, u := range users {
				u.wire.cut()
			}
		}, 50 * time.Millisecond},
	} {
		for _, kind := range []locktest.Primitive{locktest.Reentrant(), locktest.Fair()} {
			t.Run(event.name+kind.Name, func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(f *fixture) {
					users := f.queueUsers(sessions+1, 0)
					for i, u := range users {
						u.wire.latency.Store(int64(time.Duration(500+10*i) * time.Microsecond))
					}
					seen := f.executed(proto.LockEnterScript, proto.LockPollScript)
					_ = atOnce(f.T, kind.New(users[sessions].Session, "a"))
					granted := make(chan time.Time, sessions)
					var waiting sync.WaitGroup
					defer waiting.Wait()
					ctx, cancel := context.WithCancel(f.Context())
					defer cancel()
					for _, u := range users[:sessions] {
						waiting.Go(func() {
							lease, err := kind.New(u.Session, "a").Lock(ctx)
							if err != nil {
								return
							}
							granted <- time.Now()
							time.Sleep(time.Millisecond)
							_ = lease.Unlock()
						})
					}
					time.Sleep(12 * time.Second) // in which the polls of the sessions drift apart
					require.Empty(f, granted)
					seen.begin()
					lost := time.Now()
					f.redis.FlushAll()
					event.happens(f, users)
					require.LessOrEqual(f, (<-granted).Sub(lost), event.first)
					time.Sleep(3 * time.Second)
					require.Len(f, granted, sessions-1, "all had the lock")
					for from := time.Duration(0); from < 2*time.Second; from += window / 2 {
						require.LessOrEqual(f, seen.within(proto.LockEnterScript, from, from+window), most)
					}
					require.LessOrEqual(f, seen.within(proto.LockPollScript, 0, time.Second), sessions*5/4)
				})
			})
		}
	}
}

// P7: the leaves of thousands of waiters that are cancelled at once wait for a slow server, and not in it: each is sent once, and a
// call of the session waits behind some of them only.
func TestLeavesOfACancelledHerdAreSentOnce(t *testing.T) {
	t.Parallel()
	const pause = 500 * time.Microsecond
	waiters := redistest.Rounds(500, 2500)
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(2, 0)
		_ = atOnce(f.T, locktest.Fair().New(users[0].Session, "a"))
		waiting, cancel := context.WithCancel(f.Context())
		defer cancel()
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() { _, _ = locktest.Fair().New(users[1].Session, "a").Lock(waiting) })
		}
		time.Sleep(time.Minute)
		var leaves atomic.Int64
		var slow atomic.Bool
		slow.Store(true)
		f.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool { // one at a time: of one connection
			if slow.Load() && command == "EVALSHA" && args[0] == proto.LockLeaveScript.SHA1 {
				leaves.Add(1)
				time.Sleep(pause)
			}
			return false
		})
		cancel()
		all.Wait()
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		_ = atOnce(f.T, locktest.Fair().New(users[1].Session, "b"))
		require.Less(f, time.Since(began), time.Duration(waiters)*pause, "not behind all of them")
		time.Sleep(time.Minute)
		require.EqualValues(f, waiters, leaves.Load())
		slow.Store(false)
	})
}

// P10: a release that is denied is repeated for as long as the hold lasts: the lock is free soon after the right is given.
func TestDeniedReleaseIsRepeatedForAsLongAsTheLeaseLasts(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		first := f.user().Session
		second := f.user().Session
		held := atOnce(f.T, reentrant.New(first, "a"))
		next := queuedAndListening(f.Context(), reentrant.New(second, "a", signalbox.WithRenewedLease(10*time.Minute)))
		require.NoError(f, held.Unlock())
		lease := (<-next).lease
		time.Sleep(4 * time.Minute) // in which it is renewed
		var tries atomic.Int64
		f.redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
			if strings.HasPrefix(command, "EVAL") {
				tries.Add(1)
			}
			peer.WriteError("NOPERM this user has no permissions to run the 'evalsha' command")
			return true
		})
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrDenied)
		time.Sleep(time.Minute)
		require.InDelta(f, 60, tries.Load(), 10, "once a second, after a few that come sooner")
		f.redis.SetError("")
		time.Sleep(2 * time.Second)
		again, err := reentrant.New(first, "a").TryLock(f.Context())
		require.NoError(f, err)
		require.NoError(f, again.Unlock())
	})
}

// The session's own tickets say how many goroutines wait for them, and other sessions' do not.
func TestWaiters_OwnSession_CountsGoroutines(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		holding := f.user().Session
		s := f.user().Session
		held := atOnce(f.T, reentrant.New(holding, "a"))
		ctx, cancel := context.WithCancel(f.Context())
		var waiting []<-chan lockResult
		for _, lock := range []locktest.Lock{
			reentrant.New(s, "a"), reentrant.New(s, "a"), reentrant.New(s, "a"), // one ticket
			fair.New(s, "a"), fair.New(s, "a"), // one each
			reentrant.New(s, "a", signalbox.WithRenewedLease(time.Minute)), reentrant.New(s, "a", signalbox.WithRenewedLease(time.Minute)),
		} {
			waiting = append(waiting, queued(ctx, lock))
			time.Sleep(time.Millisecond)
		}
		counts := func(s *signalbox.Session) (counts []int) {
			for waiter, err := range fair.New(s, "a").Waiters(f.Context()) {
				require.NoError(f, err)
				counts = append(counts, waiter.Goroutines)
			}
			return counts
		}
		require.Equal(f, []int{3, 1, 1, 2}, counts(s))
		require.Equal(f, []int{0, 0, 0, 0}, counts(holding))
		cancel()
		for _, waiter := range waiting {
			require.ErrorIs(f, (<-waiter).err, context.Canceled)
		}
		require.NoError(f, held.Unlock())
	})
}
