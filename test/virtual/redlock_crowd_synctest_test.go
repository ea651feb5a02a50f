// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P1, P3, P6, H20: five processes on five servers, each nearest to another, all get their turns, one at a time, with tokens
// that rise.
func TestRedlock_FiveProcesses_TakeTurns(t *testing.T) {
	t.Parallel()
	readyBubble(t, 5, func(r *redlockServers) {
		const processes, turns = 5, 6
		var inside, last atomic.Int64
		done := make(chan error, processes)
		for p := range processes {
			mu, wires := r.lock()
			for i, w := range wires {
				w.latency.Store(int64(hop + time.Duration((i+p)%5)*time.Millisecond))
			}
			go func() {
				for range turns {
					err := mu.Do(r.Context(), func(_ context.Context, lease signalbox.Lease) error {
						defer inside.Add(-1)
						if inside.Add(1) != 1 {
							return errors.New("held by two")
						}
						time.Sleep(hop)
						if token := int64(lease.Token()); last.Swap(token) >= token {
							return errors.New("the token is not greater than that of the holder before")
						}
						return nil
					})
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range processes {
			require.NoError(t, <-done)
		}
		time.Sleep(time.Second)
		require.Zero(t, r.holds())
	})
}

// P6: holds of processes that crashed are waited for as long as a quorum of their keys exists, whether one of them has all
// or two have a part each.
func TestRedlock_CrashedHolders_AreOutlived(t *testing.T) {
	t.Parallel()
	for name, attempts := range map[string]string{"One": "1111", "TwoWithAPartEach": "1122"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readyBubble(t, 5, func(r *redlockServers) {
				mu, _ := r.lock()
				for i, digit := range attempts {
					r.foreign(i, string(digit), 6*time.Second)
				}
				_, err := mu.TryLock(r.Context())
				require.ErrorIs(t, err, signalbox.ErrHeld)
				waited := took(func() { require.NoError(t, r.mustLock(mu).Unlock()) })
				require.GreaterOrEqual(t, waited, 5900*time.Millisecond)
				require.Less(t, waited, 8*time.Second)
			})
		})
	}
}

// P6, P10: a wait ends with its context, and the error says that the lock was held.
func TestRedlock_ContextEnds_ErrorSaysHeld(t *testing.T) {
	t.Parallel()
	readyBubble(t, 3, func(r *redlockServers) {
		mu, _ := r.lock()
		lease := r.mustLock(mu)
		sessions, _ := r.process()
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		_, err := redlock.New(sessions, "a").Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, signalbox.ErrHeld)
		require.NoError(t, lease.Unlock())
		time.Sleep(time.Second)
		r.requireNothing(sessions...)
	})
}

// P4: a call whose context ends, at whichever instant, leaves nothing on any server, and nothing under way.
func TestRedlock_CancelAtAnyInstant_LeavesNothing(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprint("Held=", held), func(t *testing.T) {
			t.Parallel()
			readyBubble(t, 3, func(r *redlockServers) {
				holder, _ := r.lock(signalbox.WithRenewedLease(time.Minute))
				r.warm(holder)
				for at := time.Duration(0); at < 45*time.Millisecond; at += 3 * time.Millisecond {
					var lease signalbox.Lease
					if held {
						lease = r.mustLock(holder)
						time.Sleep(time.Second)
					}
					sessions, wires := r.process()
					for i, w := range wires {
						w.latency.Store(int64(hop + time.Duration(i)*time.Millisecond))
					}
					ctx, cancel := context.WithTimeout(r.Context(), at)
					got, err := redlock.New(sessions, "a", redlock.Fenced(), signalbox.WithRenewedLease(time.Minute)).Lock(ctx)
					cancel()
					if err == nil {
						require.NoError(t, got.Unlock())
					} else {
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					if held {
						require.Error(t, err)
						require.NoError(t, lease.Unlock())
					}
					time.Sleep(5 * time.Second)
					r.requireNothing(sessions...)
				}
			})
		})
	}
}

// P4, P5: any request or reply may fail, at any step and on any servers. Everything is undone in the end,
// and the next process has the lock, with a greater token.
func TestRedlock_FaultAtAnyStep_LeavesNothing(t *testing.T) {
	t.Parallel()
	for step, script := range map[string]*scripts.Script{
		"Acquire": scripts.RedlockAcquire, "Fence": scripts.RedlockFence, "Release": scripts.RedlockRelease,
		"Renew": scripts.HolderRenew, "Hello": scripts.SessionHello,
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			readyBubble(t, 3, func(r *redlockServers) {
				next, _ := r.lock(redlock.Fenced())
				r.warm(next)
				for _, kind := range []redistest.FaultKind{
					redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.CutAfterReply, redistest.DelayRequest,
					redistest.DelayReply, redistest.SwallowRequest, redistest.SwallowReply,
				} {
					for _, faulty := range []int{1, 3} { // a minority, and all
						r.useUnderFault(next, script, kind, faulty)
					}
				}
			})
		})
	}
}

// useUnderFault uses the lock while so many servers fail at one step.
func (r *redlockServers) useUnderFault(next *redlock.Lock, script *scripts.Script, kind redistest.FaultKind, faulty int) {
	r.Helper()
	const life = time.Minute
	what := fmt.Sprint(kind, " on ", faulty)
	var sessions []*signalbox.Session
	var faults []*requestFault
	for i, f := range r.servers {
		fault := newRequestFault(kind)
		s, link, end := f.requestFaultSession(fault)
		defer end()
		sessions = append(sessions, s)
		if i < faulty {
			fault.arm(1, script)
			faults = append(faults, fault)
		} else {
			link.latency.Store(int64(hop)) // so that the others are asked before they have decided
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), 400*time.Millisecond)
	defer cancel()
	lease, err := redlock.New(sessions, "a", signalbox.WithRenewedLease(life), redlock.Fenced()).Lock(ctx)
	if err == nil {
		if script == scripts.HolderRenew {
			time.Sleep(life)
		}
		_ = lease.Unlock() // a fault may keep it from being confirmed
	}
	fired := 0
	for _, fault := range faults {
		if locktest.IsClosed(fault.fired) {
			fired++
		}
	}
	require.GreaterOrEqual(r, fired, min(faulty, 2), what) // the third may not be asked any more
	time.Sleep(life / 4)                                   // what is left does not end by itself in that
	require.Zero(r, r.holds(), what)
	requireIdle(r.T, sessions...)
	after := r.mustLock(next)
	require.Greater(r, after.Token(), lease.Token(), what)
	require.NoError(r, after.Unlock())
	time.Sleep(time.Second)
}
