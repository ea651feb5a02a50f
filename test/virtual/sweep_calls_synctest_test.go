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
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// eachFault runs a test of every kind of lock that runs any of the scripts, which can fail, with each kind of fault.
func eachFault(t *testing.T, of func(s sweptLock) []*scripts.Script, test func(s *faultSweep, fault redistest.FaultKind)) {
	t.Helper()
	for _, kind := range sweptKinds() {
		these := of(kind)
		if len(these) == 0 {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			sweepBubble(t, kind, locktest.RunsScript(these...), func(s *faultSweep) {
				for _, fault := range redistest.FaultKinds() {
					s.reopen()
					test(s, fault)
				}
				s.view.NoImmortals(s.fixture)
			})
		})
	}
}

// P4, P5: an Unlock whose request or reply is lost returns ErrUnconfirmed, and the lock is free soon after.
func TestReleaseThatFailsIsUnconfirmedAndDone(t *testing.T) {
	t.Parallel()
	eachFault(t, func(s sweptLock) []*scripts.Script { return []*scripts.Script{s.release} }, func(s *faultSweep, fault redistest.FaultKind) {
		name := fault.String()
		lease := locktest.Must(s.fixture, s.New(locktest.Impatient(s.Session), name).Lock)
		s.arm(fault, 1)
		began := time.Now()
		err := lease.Unlock()
		require.LessOrEqual(s.fixture, time.Since(began), time.Second, fault)
		require.True(s.fixture, s.allFired(), fault)
		if fault == redistest.CutAfterReply {
			require.NoError(s.fixture, err)
		} else {
			var unconfirmed *signalbox.UnconfirmedError
			require.ErrorAs(s.fixture, err, &unconfirmed, fault)
			require.WithinRange(s.fixture, unconfirmed.KeyEnds, began, time.Now().Add(30*time.Second))
		}
		require.ErrorIs(s.fixture, lease.Err(), signalbox.ErrReleased)
		require.ErrorIs(s.fixture, lease.Unlock(), signalbox.ErrNotHeld)
		require.NoError(s.fixture, s.isDone(name, lease.Token()), fault)
	})
}

// P2, P5: a renewal that fails is repeated, and the lease lasts; also the first one, but not if the connection is silent: the
// client gives that up after 3 s.
func TestLeaseOutlivesARenewalThatFails(t *testing.T) {
	t.Parallel()
	const life = 6 * time.Second
	renews := func(sweptLock) []*scripts.Script { return []*scripts.Script{scripts.HolderRenew, scripts.HoldsRenew} }
	eachFault(t, renews, func(s *faultSweep, fault redistest.FaultKind) {
		name := fault.String()
		lease := locktest.Must(s.fixture, s.New(s.Session, name, signalbox.WithRenewedLease(life)).Lock)
		if fault == redistest.SwallowRequest || fault == redistest.SwallowReply || fault == redistest.HalfOpen {
			time.Sleep(1500 * time.Millisecond) // the first renewal was after a second: it has its whole lease
		}
		s.arm(fault, 1)
		s.awaitFault()
		time.Sleep(2 * life)
		require.NoError(s.fixture, s.valid(name, lease), fault)
		require.NoError(s.fixture, lease.Unlock())
		require.NoError(s.fixture, s.isDone(name, lease.Token()), fault)
	})
}

// P4: a waiter that is granted the lock by a message, before the reply to its only request, leaves nothing to be undone: Close
// returns at once after its release.
func TestGrantBeforeTheReplyLeavesNothingToUndo(t *testing.T) {
	t.Parallel()
	for _, kind := range sweptKinds() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			sweepBubble(t, kind, locktest.RunsScript(kind.acquire), func(s *faultSweep) {
				rival, lock := s.rival.New(s.holder, "a"), s.New(s.Session, "a")
				waitsFor := func() <-chan locktest.Result[signalbox.Lease] {
					held := locktest.Must(s.fixture, rival.Lock)
					waiting := locktest.LaterWith(s.fixture.Context(), lock.Lock)
					time.Sleep(100 * time.Millisecond)
					require.NoError(s.fixture, held.Unlock())
					return waiting
				}
				require.NoError(s.fixture, locktest.MustHave(s.fixture, waitsFor()).Unlock()) // and the session listens
				s.arm(redistest.DelayReply, 1)
				began := time.Now()
				lease := locktest.MustHave(s.fixture, waitsFor())
				require.Less(s.fixture, time.Since(began), time.Second, "by the message")
				require.True(s.fixture, s.allFired())
				require.NoError(s.fixture, lease.Unlock())
				began = time.Now()
				require.NoError(s.fixture, s.Session.Close(s.fixture.Context()))
				require.Less(s.fixture, time.Since(began), 100*time.Millisecond)
				require.NoError(s.fixture, s.isDone("a", lease.Token()))
			})
		})
	}
}

// P3, P5: whatever happens to the request that asks whether a lock may be handed over inside a process,
// each waiter gets the lock once, tokens rise, and no Unlock reports a loss.
func TestYieldThatFailsIsNoLoss(t *testing.T) {
	t.Parallel()
	yields := func(s sweptLock) (these []*scripts.Script) {
		if s.yield != nil {
			these = append(these, s.yield)
		}
		return these
	}
	eachFault(t, yields, func(s *faultSweep, fault redistest.FaultKind) {
		for _, elsewhere := range []bool{false, true} { // another process waits as well
			name := fmt.Sprint(fault, elsewhere)
			s.reopen()
			s.neverAbove(name)
			waiting := []locktest.Lock{s.New(s.Session, name), s.New(s.Session, name)}
			lease := locktest.Must(s.fixture, waiting[0].Lock)
			if elsewhere {
				waiting = append(waiting, s.New(s.other, name))
			}
			served := make(chan uint64, len(waiting))
			for _, lock := range waiting {
				next := locktest.LaterWith(s.fixture.Context(), lock.Lock)
				go func() {
					got := locktest.MustHave(s.fixture, next)
					served <- got.Token()
					_ = locktest.IgnoreUnconfirmed(got.Unlock())
				}()
			}
			time.Sleep(2 * budget) // the process asks before it passes the lock on
			s.arm(fault, 1)
			released := locktest.Later(func() (struct{}, error) { return struct{}{}, locktest.IgnoreUnconfirmed(lease.Unlock()) })
			last := lease.Token()
			for range waiting {
				token := redistest.Receive(s.fixture, "the lock", served)
				require.Greater(s.fixture, token, last, fault)
				last = token
			}
			locktest.MustHave(s.fixture, released)
			require.True(s.fixture, s.allFired(), fault)
			require.NoError(s.fixture, s.isDone(name, last), fault)
		}
	})
}

// P5: a ForceUnlock of which a request fails, or that is cancelled then, may be repeated and touches no other hold. If what
// takes the lock fails, it asks whether that was executed, and returns nil.
func TestForceUnlockThatFailsMayBeRepeated(t *testing.T) {
	t.Parallel()
	eachFault(t, func(s sweptLock) []*scripts.Script { return s.force }, func(s *faultSweep, fault redistest.FaultKind) {
		for step, script := range s.force {
			for _, cancelled := range []bool{false, true} {
				s.reopen()
				s.forceFails(fault, step, cancelled, fmt.Sprint(fault, " at ", script.Name, ", cancelled ", cancelled))
			}
		}
	})
}

func (s *faultSweep) forceFails(fault redistest.FaultKind, step int, cancelled bool, what string) { //nolint:revive // a case of the test
	s.fixture.Helper()
	force := func(ctx context.Context, of *signalbox.Session) error {
		return s.New(of, what).(interface {
			ForceUnlock(ctx context.Context) error
		}).ForceUnlock(ctx)
	}
	held := locktest.Must(s.fixture, s.New(s.holder, what).Lock)
	ctx, cancel := context.WithCancel(s.fixture.Context())
	defer cancel()
	s.on(nil)
	if cancelled {
		s.then(step+1, cancel)
	}
	s.arm(fault, step+1)
	began := time.Now()
	err := force(ctx, s.Session)
	require.True(s.fixture, s.allFired(), what)
	if cancelled {
		require.Less(s.fixture, time.Since(began), time.Second, what)
	} else if step == 1 {
		require.NoError(s.fixture, err, what)
	}
	if !s.view.Free(what) {
		require.Error(s.fixture, err, what)
		again := force(s.fixture.Context(), s.other)
		if cancelled && errors.Is(again, signalbox.ErrNotHeld) {
			again = nil // the first call had returned before its script ran, and the script was first after all
		}
		require.NoError(s.fixture, again, what)
	}
	redistest.Receive(s.fixture, "the holder is notified", held.Done())
	next := locktest.Must(s.fixture, s.rival.New(s.other, what).Lock)
	require.Greater(s.fixture, next.Token(), held.Token(), what)
	time.Sleep(2 * time.Second) // what was delayed has arrived
	require.NoError(s.fixture, s.valid(what, next), what)
	require.NoError(s.fixture, next.Unlock())
}
