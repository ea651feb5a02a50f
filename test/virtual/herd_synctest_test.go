// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

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
				bubble(t, func(f *fixture) {
					users, closeAll := f.queueUsers(f.T, sessions+1, 0)
					defer closeAll()
					for i, u := range users {
						u.wire.latency.Store(int64(time.Duration(500+10*i) * time.Microsecond))
					}
					seen := f.executed(scripts.LockEnter, scripts.LockPoll)
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
						require.LessOrEqual(f, seen.within(scripts.LockEnter, from, from+window), most)
					}
					require.LessOrEqual(f, seen.within(scripts.LockPoll, 0, time.Second), sessions*5/4)
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
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, 0)
		defer closeAll()
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
			if slow.Load() && command == "EVALSHA" && args[0] == scripts.LockLeave.SHA1 {
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
