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
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// undone is after how long nothing is left of a call that failed, and all that was delayed has arrived.
const undone = 12 * time.Second

// requireDone requires that nothing is undone any more, and that another session has the lock with a greater token than the last one.
func (s *faultySession) requireDone(next locktest.Lock, last uint64) {
	s.fixture.Helper()
	time.Sleep(undone)
	require.Zero(s.fixture, locktest.Undoing(s.Session))
	lease, err := next.TryLock(s.fixture.Context())
	require.NoError(s.fixture, err)
	require.Greater(s.fixture, lease.Token(), last)
	require.NoError(s.fixture, lease.Unlock())
}

// rivalOf returns the kind that excludes a kind.
func rivalOf(kind locktest.Primitive) locktest.Primitive {
	if kind.Name == locktest.Reader().Name {
		return locktest.Writer()
	}
	return kind
}

// P4: a waiter that is granted the lock by a message, before the reply to its only request, leaves nothing to be undone: Close
// returns at once after its release.
func TestGrantBeforeTheReplyLeavesNothingToUndo(t *testing.T) {
	t.Parallel()
	for _, kind := range append(locktest.Primitives(), locktest.Reader()) {
		bubbleOfUsers(t, func(f *fixture) {
			s := f.faultySession(proto.LockEnterScript, proto.RWLockEnterScript, proto.SemaphoreEnterScript)
			rival := rivalOf(kind).New(f.user().Session, "a")
			waitsFor := func() <-chan locktest.Result[signalbox.Lease] {
				held := locktest.Must(f, rival.Lock)
				waiting := locktest.LaterWith(f.Context(), kind.New(s.Session, "a").Lock)
				time.Sleep(100 * time.Millisecond)
				require.NoError(f, held.Unlock())
				return waiting
			}
			require.NoError(f, locktest.MustHave(f, waitsFor()).Unlock()) // and the session listens
			s.arm(redistest.DelayReply, 1)
			began := time.Now()
			lease := locktest.MustHave(f, waitsFor())
			require.Less(f, time.Since(began), time.Second, "by the message")
			require.True(f, s.hasFault())
			require.NoError(f, lease.Unlock())
			began = time.Now()
			require.NoError(f, s.Session.Close(f.Context()))
			require.Less(f, time.Since(began), 100*time.Millisecond)
			s.requireDone(rival, lease.Token())
		})
	}
}

// P3, P5: whatever happens to the request that asks whether a lock may be handed over inside a process,
// each waiter gets the lock once, tokens rise, and no Unlock reports a loss.
func TestYieldThatFailsIsNoLoss(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind  locktest.Primitive
		yield *scripts.Script
	}{{locktest.Reentrant(), proto.LockRequeueScript}, {locktest.Permit(), proto.SemaphoreYieldScript}} {
		for _, fault := range redistest.FaultKinds() {
			for _, elsewhere := range []bool{false, true} { // another process waits as well
				bubbleOfUsers(t, func(f *fixture) {
					s, other := f.faultySession(c.yield), c.kind.New(f.user().Session, "a")
					s.neverAbove("a")
					waiting := []locktest.Lock{c.kind.New(s.Session, "a"), c.kind.New(s.Session, "a")}
					lease := locktest.Must(f, waiting[0].Lock)
					if elsewhere {
						waiting = append(waiting, other)
					}
					served := make(chan uint64, len(waiting))
					for _, lock := range waiting {
						next := locktest.LaterWith(f.Context(), lock.Lock)
						go func() {
							got := locktest.MustHave(f, next)
							served <- got.Token()
							_ = locktest.IgnoreUnconfirmed(got.Unlock())
						}()
					}
					time.Sleep(2 * budget) // the process asks before it passes the lock on
					s.arm(fault, 1)
					released := locktest.Later(func() (struct{}, error) { return struct{}{}, locktest.IgnoreUnconfirmed(lease.Unlock()) })
					last := lease.Token()
					for range waiting {
						token := redistest.Receive(f, "the lock", served)
						require.Greater(f, token, last, fault)
						last = token
					}
					locktest.MustHave(f, released)
					require.True(f, s.hasFault(), fault)
					s.requireDone(other, last)
				})
			}
		}
	}
}

// P5: a ForceUnlock of which a request fails, or that is cancelled then, may be repeated and touches no other hold. If what
// takes the lock fails, it asks whether that was executed, and returns nil.
func TestForceUnlockThatFailsMayBeRepeated(t *testing.T) {
	t.Parallel()
	calls := []*scripts.Script{proto.HolderDescribeScript, proto.LockForceScript, proto.HoldsListScript, proto.RWLockForceScript}
	for _, kind := range []locktest.Primitive{locktest.Reentrant(), locktest.Writer(), locktest.Reader()} {
		for _, fault := range redistest.FaultKinds() {
			for at := 1; at <= 2; at++ { // ForceUnlock asks for the holder, and ends its hold
				for _, cancelled := range []bool{false, true} {
					bubbleOfUsers(t, func(f *fixture) {
						what := fmt.Sprint(kind.Name, fault, at, cancelled)
						s, other := f.faultySession(calls...), f.user().Session
						force := func(ctx context.Context, of *signalbox.Session) error {
							return kind.New(of, "a").(interface {
								ForceUnlock(ctx context.Context) error
							}).ForceUnlock(ctx)
						}
						held := locktest.Must(f, kind.New(f.user().Session, "a").Lock)
						ctx, cancel := context.WithCancel(f.Context())
						defer cancel()
						if cancelled {
							s.then(at, cancel)
						}
						s.arm(fault, at)
						began := time.Now()
						err := force(ctx, s.Session)
						require.True(f, s.hasFault(), what)
						if cancelled {
							require.Less(f, time.Since(began), time.Second, what)
						} else if at == 2 {
							require.NoError(f, err, what)
						}
						if err != nil {
							again := force(f.Context(), other) // the script of the first call may have been first after all
							require.True(f, again == nil || errors.Is(again, signalbox.ErrNotHeld), "%s: %v", what, again)
						}
						redistest.Receive(f, "the holder is notified", held.Done())
						next := locktest.Must(f, rivalOf(kind).New(other, "a").Lock)
						require.Greater(f, next.Token(), held.Token(), what)
						time.Sleep(2 * time.Second) // what was delayed has arrived
						require.NoError(f, next.Unlock(), what)
					})
				}
			}
		}
	}
}
