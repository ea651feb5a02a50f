// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// P1, P3, H20: five processes on five servers all get their turns, one at a time, with tokens that rise.
func TestFiveProcessesOnFiveServersMakeProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	const processes, turns = 5, 15
	var inside, last atomic.Int64
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 9*patience)
	defer cancel()
	for range processes {
		mu := w.lock("a")
		group.Go(func() {
			for range turns {
				lease, err := mu.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("held by two")
				}
				if token := int64(lease.Token()); last.Swap(token) >= token {
					t.Error("the token is not greater than that of the holder before")
				}
				inside.Add(-1)
				if err := lease.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	w.awaitFree("a")
}

// P7: of many goroutines of a process one at a time asks the servers, and they have the lock in the order in which they came.
func TestGoroutinesOfAProcessAreOneContender(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	sessions := w.sessions()
	lease := w.mustLockAll(redlock.New(sessions, "a"), "a")
	for _, p := range w.proxies {
		p.ResetCount()
	}
	const goroutines = 64
	answered := make(chan error, goroutines)
	for range goroutines {
		mu := redlock.New(sessions, "a")
		go func() {
			lease, err := mu.Lock(t.Context())
			answered <- errors.Join(err, lease.Unlock())
		}()
	}
	_, err := redlock.New([]*signalbox.Session{sessions[2], sessions[0], sessions[1]}, "a").TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld, "the same sessions in another order are the same lock")
	require.NoError(t, lease.Unlock())
	for range goroutines {
		require.NoError(t, within(t, "the lock", answered))
	}
	w.awaitFree("a")
	for _, p := range w.proxies {
		// An acquire and a release each; a few more where a late vote is taken back.
		require.Less(t, p.Requests(), 4*goroutines)
	}
}

// P4: what a minority granted is released, even what a server grants after the call has returned.
func TestAMinoritysGrantsAreTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	for _, s := range w.servers[:3] {
		s.MustDo(t, "SET", key("a"), foreign(strings.Repeat("1", 19)), "PX", 60_000)
	}
	returned := make(chan struct{})
	w.proxies[4].SetMatch(runs(scripts.RedlockAcquire))
	w.proxies[4].OnRequest(func(int, []string) { <-returned })
	sessions := w.sessions()
	mustBeHeld(t.Context(), t, redlock.New(sessions, "a"))
	close(returned)
	settled(t, sessions)
	require.Equal(t, 3, w.holds("a"), "the other process holds these three")
}

// H20: two that have a part each are waited for as one that has all.
func TestASplitVoteIsWaitedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	mu := w.lock("a")
	for i, attempt := range []string{"1", "1", "2", "2"} {
		w.servers[i].MustDo(t, "SET", key("a"), foreign(strings.Repeat(attempt, 19)), "PX", 2*moment.Milliseconds())
	}
	mustBeHeld(t.Context(), t, mu)
	require.NoError(t, mustLock(t, mu).Unlock())
}

// P6: where some of those that are waited for die, the others do.
func TestAWaiterIsNotHeldUpByAServerThatDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	lease := w.mustLockAll(w.lock("a"), "a")
	waiting := lockLater(t.Context(), w.lock("a"))
	await(t, "the marks of the waiter", func() bool { return w.marked("a") >= 3 })
	w.servers[0].Kill()
	w.servers[1].Kill()
	require.NoError(t, lease.Unlock())
	require.NoError(t, mustHave(t, waiting).Unlock())
}

// P6: a holder that dies is waited for as long as its keys live.
func TestAHolderThatDiedIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	for i, s := range w.servers {
		s.MustDo(t, "SET", key("a"), foreign(strings.Repeat("1", 19)), "PX", 500+100*i)
	}
	require.NoError(t, mustLock(t, w.lock("a")).Unlock())
}

// P9: a key of another kind on a minority costs its votes; on a quorum it is the error.
func TestAKeyOfAnotherKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.servers[0].MustDo(t, "RPUSH", key("a"), "x")
	mu := w.lock("a")
	lease := mustLock(t, mu)
	require.NoError(t, lease.Unlock())
	w.awaitFree("a")
	other := mustLockReentrant(t, reentrant.New(newSession(t, w.servers[1]), "a"))
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	_, err = mu.Lock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	require.ErrorContains(t, err, "server 1 of 3")
	require.ErrorContains(t, err, "(reentrant)")
	require.NoError(t, other.Unlock())
	require.Equal(t, "list", w.servers[0].MustDo(t, "TYPE", key("a")))

	lease = mustLock(t, mu)
	_, err = reentrant.New(newSession(t, w.servers[1]), "a").TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	require.ErrorContains(t, err, "(redlock)")
	require.NoError(t, lease.Unlock())
}

func mustLockReentrant(tb testing.TB, mu *reentrant.Lock) signalbox.Lease {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, err := mu.Lock(ctx)
	require.NoError(tb, err)
	return lease
}

// P4, P5: whatever becomes of a request or a reply, at whichever step and on whichever servers, everything is settled in
// the end, and the next one has the lock.
func TestWhateverIsLostNothingIsLeft(t *testing.T) {
	t.Parallel()
	steps := map[string]*scripts.Script{
		"Acquire": scripts.RedlockAcquire, "Fence": scripts.RedlockFence, "Release": scripts.RedlockRelease,
		"Renew": scripts.HolderRenew, "Hello": scripts.SessionHello,
	}
	kinds := []redistest.Kind{
		redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.CutAfterReply, redistest.DelayRequest, redistest.DelayReply,
		redistest.SwallowRequest, redistest.SwallowReply,
	}
	for step, script := range steps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			for _, s := range w.servers {
				wiretest.LoadScripts(t, s)
			}
			for n, kind := range kinds {
				for _, struck := range []int{1, 3} { // a minority, and all
					w.strike(fmt.Sprint("a", n, struck), script, kind, struck)
				}
			}
		})
	}
}

// strike uses a lock while something is lost at one step, on so many servers.
func (w *world) strike(name string, script *scripts.Script, kind redistest.Kind, struck int) {
	w.Helper()
	sessions := w.sessions()
	life := time.Minute // what is left is not to end by itself before it is seen
	if script == scripts.HolderRenew {
		life = time.Second // renewed a third into it
	}
	mu := redlock.New(sessions, name, signalbox.RenewedLease(life), redlock.Fenced())
	for _, p := range w.proxies[:struck] {
		p.SetMatch(runs(script))
		p.ResetCount()
		p.Arm(redistest.Fault{Kind: kind, Delay: 50 * time.Millisecond})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	lease, err := mu.Lock(ctx)
	if err == nil {
		if script == scripts.HolderRenew {
			first := lease.Deadline()
			await(w, "a renewal, or the end", func() bool { return lease.Err() != nil || lease.Deadline().After(first.Add(100*time.Millisecond)) })
		}
		_ = lease.Unlock()
	}
	for _, p := range w.proxies {
		p.Disarm()
	}
	w.awaitFree(name)
	settled(w, sessions)
	require.Zero(w, w.holds(name), "%v on %d", kind, struck)
	other := redlock.New(w.sessions(), name, signalbox.RenewedLease(steady), redlock.Fenced())
	next := mustLock(w, other)
	require.Greater(w, next.Token(), lease.Token())
	require.NoError(w, next.Unlock())
}

// P4: a call that is cancelled, in whatever state, leaves nothing.
func TestCancelInEveryStateLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]*scripts.Script{
		"Acquiring": scripts.RedlockAcquire, "Fencing": scripts.RedlockFence, "Meeting": scripts.SessionHello,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			sessions := w.sessions()
			mu := redlock.New(sessions, "a", redlock.Fenced())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, p := range w.proxies {
				p.SetMatch(runs(script))
				p.OnRequest(func(int, []string) { cancel() })
				p.Arm(delayed(moment))
			}
			_, err := mu.Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			for _, p := range w.proxies {
				p.OnRequest(nil)
			}
			w.nothing(sessions)
		})
	}
	t.Run("Waiting", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 3)
		lease := w.mustLockAll(w.lock("a"), "a")
		sessions := w.sessions()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiting := []<-chan outcome{lockLater(ctx, redlock.New(sessions, "a")), lockLater(ctx, redlock.New(sessions, "a"))}
		await(t, "the marks of the waiter", func() bool { return w.marked("a") >= 2 })
		cancel()
		for _, c := range waiting {
			require.ErrorIs(t, within(t, "the end of a wait", c).err, context.Canceled)
		}
		require.NoError(t, lease.Unlock())
		w.awaitFree("a")
		w.nothing(sessions)
	})
}

// nothing checks that nothing of the lock "a" is left, nor of what these sessions did for it.
func (w *world) nothing(sessions []*signalbox.Session) {
	w.Helper()
	closing, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, s := range sessions {
		require.NoError(w, s.Close(closing)) // which waits for what is under way
	}
	require.Zero(w, w.holds("a"))
}

// marked answers on how many servers a waiter has left its mark.
func (w *world) marked(name string) int {
	w.Helper()
	n := 0
	for i := range w.servers {
		if v := w.value(i, name); len(v) >= 83 && v[61:83] != strings.Repeat("-", 22) {
			n++
		}
	}
	return n
}
