// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/rwlock"
)

// bothSides are the sides of a read-write lock.
func bothSides() []locktest.Primitive {
	return []locktest.Primitive{locktest.Writer(), locktest.Reader()}
}

// eachRWSide runs a test in a bubble for each side, with the lock "a" of n sessions.
func eachRWSide(t *testing.T, n int, test func(t *testing.T, f *fixture, users []queueUser, side locktest.Primitive)) {
	t.Helper()
	for _, side := range bothSides() {
		t.Run(side.Name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				users, closeAll := f.queueUsers(f.T, n, time.Millisecond)
				defer closeAll()
				test(f.T, f, users, side)
			})
		})
	}
}

// P6: if every message is lost, readers that wait together enter together, and writers in their turn.
func TestRWPhasesAreKeptIfEveryMessageIsLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 5, time.Millisecond)
		defer closeAll()
		held := atOnce(t, rwlock.New(users[0].Session, "a"))
		var waiting []<-chan lockResult
		for n, u := range users[1:] {
			u.losesMessages.Store(true)
			waiting = append(waiting, queuedAndListening(t.Context(), bothSides()[n%2].New(u.Session, "a")))
		}
		require.NoError(t, held.Unlock())
		one, other := granted(t, waiting[1]), granted(t, waiting[3]) // both readers, beside each other
		require.NoError(t, one.Unlock())
		require.NoError(t, other.Unlock())
		first := granted(t, waiting[0])
		require.Greater(t, first.Token(), max(one.Token(), other.Token()))
		require.Empty(t, waiting[2])
		require.NoError(t, first.Unlock())
		require.NoError(t, granted(t, waiting[2]).Unlock())
		f.rwFree(t)
	})
}

// P6, order: a writer that gives up lets all waiting readers enter by the same step that takes it out of the queue: at no
// instant do some of them wait still.
func TestRWWriterThatGivesUpLetsAllReadersEnter(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 5, time.Millisecond)
		defer closeAll()
		inside := atOnce(t, locktest.Reader().New(users[0].Session, "a"))
		ctx, giveUp := context.WithCancel(t.Context())
		writer := queuedAndListening(ctx, rwlock.New(users[1].Session, "a"))
		var readers []<-chan lockResult
		for _, u := range users[2:] {
			readers = append(readers, queuedAndListening(t.Context(), locktest.Reader().New(u.Session, "a")))
		}
		giveUp()
		require.ErrorIs(t, (<-writer).err, context.Canceled)
		began := time.Now()
		for f.rwWaiting("a") > 0 {
			require.Equal(t, 1+len(readers), f.rwWaiting("a"), "the writer is gone, and some wait still")
			require.Less(t, time.Since(began), 10*time.Millisecond)
			time.Sleep(50 * time.Microsecond)
			synctest.Wait()
		}
		for _, got := range readers {
			lease := granted(t, got)
			require.NoError(t, inside.Err(), "the first is inside still")
			require.NoError(t, lease.Unlock())
		}
		require.Less(t, time.Since(began), 20*time.Millisecond, "by message")
		require.NoError(t, inside.Unlock())
	})
}

// P2, P6: if the server loses everything, at once or in an outage that outlasts every ticket, holders are notified, and all
// waiters are served, none beside a writer.
func TestRWWaitersOutliveAServerThatLostEverything(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"AtOnce": 0, "Away": 15 * time.Second} { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				t := f.T
				users, closeAll := f.queueUsers(t, 5, time.Millisecond)
				defer closeAll()
				lost := atOnce(t, locktest.Reader().New(users[0].Session, "a", signalbox.WithRenewedLease(rwLife)))
				var waiting []<-chan lockResult
				var readers, writers atomic.Int32
				for n, u := range users[1:] {
					for range 3 {
						side := bothSides()[n%2]
						got := queuedAndListening(t.Context(), side.New(u.Session, "a"))
						served := make(chan lockResult, 1)
						waiting = append(waiting, served)
						mine, most := &writers, int32(1)
						if side.Name == locktest.Reader().Name {
							mine, most = &readers, 6
						}
						go func() {
							h := <-got
							if mine.Add(1) > most || writers.Load() > 0 && readers.Load() > 0 {
								t.Error("a writer is not alone")
							}
							time.Sleep(5 * time.Millisecond)
							mine.Add(-1)
							if h.err == nil {
								h.err = h.lease.Unlock()
							}
							served <- h
						}()
					}
				}
				if away > 0 {
					for _, u := range users {
						u.refuses.Store(true)
						u.cut()
					}
					time.Sleep(away)
				}
				f.redis.FlushAll()
				for _, u := range users {
					u.refuses.Store(false)
				}
				lostAt := time.Now()
				<-lost.Done()
				require.LessOrEqual(t, time.Since(lostAt), rwLife/3+10*time.Millisecond)
				require.ErrorIs(t, lost.Unlock(), signalbox.ErrLost)
				for _, served := range waiting {
					require.NoError(t, (<-served).err)
				}
				require.Less(t, time.Since(lostAt), 10*time.Second)
				synctest.Wait()
				f.rwFree(t)
			})
		})
	}
}

// P10: the error of a wait that ended says both why it ended and that the lock is held; also that of a reader who waited for
// another of its session.
func TestRWErrorOfAWaitSaysThatTheLockIsHeld(t *testing.T) {
	t.Parallel()
	stopped := errors.New("the request was dropped")
	eachRWSide(t, 2, func(t *testing.T, f *fixture, users []queueUser, side locktest.Primitive) {
		holder := atOnce(t, rwlock.New(users[0].Session, "a"))
		for _, want := range []error{context.Canceled, stopped} {
			ctx, cancel := context.WithCancelCause(t.Context())
			waiting := []<-chan lockResult{queuedAndListening(ctx, side.New(users[1].Session, "a")), queuedAndListening(ctx, side.New(users[1].Session, "a"))}
			cancel(want)
			for _, got := range waiting {
				h := <-got
				require.ErrorIs(t, h.err, signalbox.ErrHeld)
				require.ErrorIs(t, h.err, want)
				require.ErrorIs(t, h.err, context.Canceled)
			}
			time.Sleep(10 * time.Millisecond)
			require.Zero(t, f.rwWaiting("a"), "P4")
		}
		require.NoError(t, holder.Unlock())
	})
}

// P10: a server that is away is waited for within the context, and named in the error. No reply said that the lock is held.
func TestRWUnreachableServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	eachRWSide(t, 1, func(t *testing.T, _ *fixture, users []queueUser, side locktest.Primitive) {
		lock := side.New(users[0].Session, "a")
		require.NoError(t, atOnce(t, lock).Unlock())
		users[0].refuses.Store(true)
		users[0].cut()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := lock.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, signalbox.ErrHeld)
		var refused *net.OpError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "dial", refused.Op)
		got := queuedAndListening(t.Context(), lock)
		users[0].refuses.Store(false)
		require.NoError(t, granted(t, got).Unlock())
	})
}

// P4: a call whose reply was lost, or whose request comes late, is undone within 3 s of the server's return, in both layouts.
func TestRWCallWithoutAReplyIsUndone(t *testing.T) {
	t.Parallel()
	eachRWSide(t, 2, func(t *testing.T, f *fixture, users []queueUser, side locktest.Primitive) {
		for name, cause := range map[string]func(){
			"RequestLost": users[0].goSilent,
			"ReplyLost":   func() { users[0].swallowsReplies.Store(true) },
			"Late":        func() { users[0].latency.Store(int64(1500 * time.Millisecond)) },
		} {
			for _, layout := range [][]signalbox.LockOption{nil, {signalbox.WithLayout(redisson.Layout())}} {
				mine, other := side.New(users[0].Session, "a", layout...), rwlock.New(users[1].Session, "a", layout...)
				for _, call := range []func(context.Context) (signalbox.Lease, error){mine.Lock, mine.TryLock} {
					require.NoError(t, atOnce(t, mine).Unlock())
					cause()
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
					_, err := call(ctx)
					cancel()
					require.ErrorIs(t, err, context.DeadlineExceeded, name)
					users[0].latency.Store(int64(time.Millisecond))
					if name != "Late" {
						time.Sleep(time.Second)
						users[0].heal()
					}
					healed := time.Now()
					require.NoError(t, atOnce(t, other).Unlock(), name)
					require.LessOrEqual(t, time.Since(healed), 4*time.Second, name)
					time.Sleep(10 * time.Second)
					f.rwFree(t)
				}
			}
		}
	})
}

// P5: a downgrade whose reply is lost is repeated in the background, and lets readers enter while the holder stays.
func TestRWDowngradeWithoutAReplyIsRepeated(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]func(u queueUser){ //nolint:paralleltest // as above
		"RequestLost": func(u queueUser) { u.goSilent() },
		"ReplyLost":   func(u queueUser) { u.swallowsReplies.Store(true) },
		"Refused":     func(u queueUser) { u.refuses.Store(true); u.cut() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				t := f.T
				users, closeAll := f.queueUsers(t, 2, time.Millisecond)
				defer closeAll()
				lock := rwlock.New(users[0].Session, "a")
				lease := atOnce(t, lock)
				reader := queuedAndListening(t.Context(), locktest.Reader().New(users[1].Session, "a"))
				cause(users[0])
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				require.Error(t, lock.Downgrade(ctx, lease))
				healed := time.Now()
				users[0].heal()
				beside := granted(t, reader)
				require.Less(t, time.Since(healed), 4*time.Second)
				require.NoError(t, lease.Err())
				require.NoError(t, lock.Downgrade(t.Context(), lease), "it can be called again")
				require.NoError(t, beside.Unlock())
				require.NoError(t, lease.Unlock())
				f.rwFree(t)
			})
		})
	}
}

// P2: a downgrade of a lease that has expired returns why.
func TestRWDowngradeOfAnExpiredLeaseSaysWhy(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		s, _, closeAll := f.session(t)
		defer closeAll()
		for option, want := range map[string]error{"fixed": signalbox.ErrLost, "greatest": signalbox.ErrMaxHold} {
			terms := map[string]signalbox.LockOption{"fixed": signalbox.WithFixedLease(time.Second), "greatest": signalbox.WithMaxHold(time.Second)}[option]
			lock := rwlock.New(s, option, terms)
			lease := atOnce(t, lock)
			<-lease.Done()
			require.ErrorIs(t, lock.Downgrade(t.Context(), lease), want)
		}
	})
}
