// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P1, P3: whoever is inside is alone, and has a greater token than everybody before.
func TestHoldersOfOneNameDoNotOverlap(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const sessions, goroutines, rounds = 4, 4, 20
	var inside atomic.Int32
	var last uint64 // guarded by the lock under test
	var all sync.WaitGroup
	for range sessions {
		mu := reentrant.New(newSession(t, server), "order/42")
		for range goroutines {
			all.Go(func() {
				for range rounds {
					err := mu.Do(t.Context(), func(_ context.Context, lease signalbox.Lease) error {
						if inside.Add(1) != 1 {
							return errors.New("not alone")
						}
						defer inside.Add(-1)
						if lease.Token() <= last {
							return errors.New("the token is not greater than that of the last holder")
						}
						last = lease.Token()
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// P1: locks of one name in one session are the same lock.
func TestLocksOfOneNameInOneSessionAreOneLock(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	one, other := reentrant.New(s, "order/42"), reentrant.New(s, "order/42")
	lease := mustLock(t, one)
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	again, err := other.Lock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
	require.NoError(t, again.Unlock())
}

// P6: a waiter in another session is woken by the release, long before it would look by itself.
func TestALockIsTakenAsSoonAsItIsReleasedElsewhere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := mustLock(t, reentrant.New(newSession(t, server), "a"))
	waiting := contend(t.Context(), t, server, reentrant.New(newSession(t, server), "a"), "a")
	require.NoError(t, holder.Unlock())
	got := within(t, "the released lock", waiting)
	require.NoError(t, got.err)
	require.Greater(t, got.lease.Token(), holder.Token())
	require.NoError(t, got.lease.Unlock())
}

func TestTryLockAnswersErrHeldWithTheNameAndTheOperation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := mustLock(t, reentrant.New(newSession(t, server), "a"))
	lease, err := reentrant.New(newSession(t, server), "a").TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	var op *signalbox.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "try lock", op.Op)
	require.Equal(t, "a", op.Name)
	require.EqualError(t, err, `signalbox: try lock "a": the lock is held`)
	require.Equal(t, signalbox.Lease{}, lease)
	require.NoError(t, holder.Unlock())
}

func TestTryLockTakesAFreeLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	for range 3 {
		lease, err := mu.TryLock(t.Context())
		require.NoError(t, err)
		require.True(t, isHeld(t, server, "a"))
		require.NoError(t, lease.Unlock())
		require.False(t, isHeld(t, server, "a"))
	}
}

// P7: what the process knows it does not ask the server.
func TestTryLockIsRefusedWithoutACommandWhileTheSessionHoldsTheLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newPoller(t, server), "a", signalbox.RenewedLease(longest))
	lease := mustLock(t, mu)
	require.Empty(t, sentBy(server, func() {
		_, err := mu.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
	}))
	require.NoError(t, lease.Unlock())
}

// P7: nor while a goroutine of the session is waiting for it.
func TestTryLockIsRefusedWithoutACommandWhileTheSessionContends(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holder := mustLock(t, reentrant.New(newSession(t, server), "a"))
	mu := reentrant.New(newSession(t, proxy), "a")
	onlyAcquires(proxy)
	waiting := contend(t.Context(), t, server, mu, "a")
	await(t, "the answers to the waiter's two tries", func() bool { return proxy.Replies() >= 2 })
	tries := proxy.Requests()
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.Equal(t, tries, proxy.Requests())
	require.NoError(t, holder.Unlock())
	got := within(t, "the lock", waiting)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock())
}

// P10: the error says both that the wait is over and what the server said last.
func TestErrHeldIsJoinedWhereTheLastAnswerWasHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := mustLock(t, reentrant.New(newSession(t, server), "a"))
	stopped := errors.New("the request was dropped")
	for name, end := range map[string]struct {
		ctx  func() (context.Context, func())
		want error
	}{
		"Cancelled":    {func() (context.Context, func()) { return cancelled(t.Context(), nil) }, context.Canceled},
		"WithItsCause": {func() (context.Context, func()) { return cancelled(t.Context(), stopped) }, stopped},
	} {
		ctx, stop := end.ctx()
		proxy := redistest.NewProxy(t, server.Addr())
		waiting := lockLater(ctx, reentrant.New(newSession(t, proxy), "a"))
		await(t, "the answers to the waiter's two tries", func() bool { return proxy.Replies() >= 3 })
		stop()
		got := within(t, "the end of the wait: "+name, waiting)
		require.ErrorIs(t, got.err, signalbox.ErrHeld, name)
		require.ErrorIs(t, got.err, end.want, name)
		require.ErrorIs(t, got.err, context.Canceled, name)
		require.Equal(t, signalbox.Lease{}, got.lease)
	}
	require.NoError(t, holder.Unlock())
}

func cancelled(ctx context.Context, cause error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, func() { cancel(cause) }
}

// P10: a bounded wait is a context with a deadline, for those who queue behind a holder of
// their own session as for those who ask the server.
func TestErrHeldIsJoinedWithTheDeadlineInTheQueueOfAHolder(t *testing.T) {
	t.Parallel()
	mu := reentrant.New(newSession(t, redistest.Start(t)), "a")
	lease := mustLock(t, mu)
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	_, err := mu.Lock(ctx)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, lease.Unlock())
}

// P10: who queues behind a contender of its own session knows what that one was told last.
func TestErrHeldIsJoinedInTheQueueOfAContender(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holder := mustLock(t, reentrant.New(newSession(t, server), "a"))
	s := newSession(t, proxy)
	giveUp := func(name string) error {
		ctx, cancel := context.WithCancel(t.Context())
		waiting := queue(ctx, t, reentrant.New(s, name))
		cancel()
		err := within(t, "the end of the wait", waiting).err
		require.ErrorIs(t, err, context.Canceled)
		return err
	}
	told := contend(t.Context(), t, server, reentrant.New(s, "a"), "a")
	await(t, "the answers to the waiter's two tries", func() bool { return proxy.Replies() >= 3 })
	require.ErrorIs(t, giveUp("a"), signalbox.ErrHeld)

	require.NoError(t, holder.Unlock())
	got := within(t, "the released lock", told)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock())

	// A contender that was told nothing has nothing to tell.
	proxy.Refuse()
	proxy.CutAll()
	untold := queue(t.Context(), t, reentrant.New(s, "b"))
	require.NotErrorIs(t, giveUp("b"), signalbox.ErrHeld)
	proxy.Accept()
	got = within(t, "the lock, once the server is back", untold)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock())
}

// P10: a try that was cut short by the context is no answer, so the last one stands.
func TestErrHeldIsJoinedAlsoWhereTheContextEndsDuringATry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holder := mustLock(t, reentrant.New(newSession(t, server), "a"))
	ctx, cancel := context.WithCancel(t.Context())
	// A short lease, so that Close need not wait long until the try cannot take effect any more.
	mu := reentrant.New(newSession(t, proxy), "a", signalbox.FixedLease(moment))
	onlyAcquires(proxy)
	waiting := lockLater(ctx, mu)
	await(t, "the answers to the waiter's two tries", func() bool { return proxy.Replies() >= 2 })
	trying := proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest})
	server.MustDo(t, "PUBLISH", "sb:{a}:lock:unlocked", "1")
	within(t, "a try that gets no answer", trying.Fired())
	cancel()
	got := within(t, "the end of the wait", waiting)
	require.ErrorIs(t, got.err, context.Canceled)
	require.ErrorIs(t, got.err, signalbox.ErrHeld)
	proxy.CutAll() // or closing the client would wait for the answer
	require.NoError(t, holder.Unlock())
}

// P10: a server that is away is waited for within the context, and named in the error. Nobody
// said that the lock is held.
func TestAnUnreachableServerIsWaitedForWithinTheContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	mu := reentrant.New(newSession(t, proxy), "a")
	proxy.Refuse()
	proxy.CutAll()
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	_, err := mu.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, signalbox.ErrHeld)
	var refused *net.OpError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "dial", refused.Op)

	waiting := lockLater(t.Context(), mu)
	proxy.Accept()
	got := within(t, "the lock, once the server is back", waiting)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock())
}

// P6, P10: the context bounds the wait for a server that is silent, too. While the client makes
// a connection to it, the end of the context is noticed late: after ConnWriteTimeout, see Tune.
func TestASilentServerIsWaitedForWithinTheContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	lockOf := func(limit time.Duration) *reentrant.Lock {
		s := signalbox.NewSession(oneConnection{proxy}.Client(t, func(o *rueidis.ClientOption) {
			signalbox.Tune(o)
			o.ConnWriteTimeout = limit
		}))
		t.Cleanup(func() { _ = s.Close(endedContext()) })
		mu := reentrant.New(s, fmt.Sprint(limit), signalbox.FixedLease(moment))
		require.NoError(t, mustLock(t, mu).Unlock())
		return mu
	}
	at, late := lockOf(time.Minute), lockOf(moment)
	server.Freeze()
	wait := func(mu *reentrant.Lock) {
		ctx, cancel := context.WithTimeout(t.Context(), shortest)
		defer cancel()
		err := within(t, "the end of the wait", lockLater(ctx, mu)).err
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, signalbox.ErrHeld)
	}
	wait(at)
	proxy.CutAll()
	wait(late)
	server.Thaw()
	require.NoError(t, mustLock(t, late).Unlock())
}

// P4: an ended context acquires nothing and sends nothing.
func TestAnEndedContextAcquiresNothingAndSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	require.NoError(t, mustLock(t, mu).Unlock())
	stopped := errors.New("the request was dropped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	require.Empty(t, sentBy(server, func() {
		_, err := mu.Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, stopped)
		require.NotErrorIs(t, err, signalbox.ErrHeld)
		_, err = mu.TryLock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, stopped)
		err = mu.Do(ctx, func(context.Context, signalbox.Lease) error {
			t.Error("an ended context got the lock")
			return nil
		})
		require.ErrorIs(t, err, stopped)
	}))
}

// P4: entering again is no exception.
func TestAnEndedContextEntersNothingEither(t *testing.T) {
	t.Parallel()
	mu := reentrant.New(newSession(t, redistest.Start(t)), "a")
	lease := mustLock(t, mu)
	ctx, cancel := context.WithCancel(lease.Enter(t.Context()))
	cancel()
	_, err := mu.Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = mu.TryLock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, lease.Unlock())
}

// P7: Check looks at what New was given, and asks nobody.
func TestCheckSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	require.Empty(t, sentBy(server, func() {
		require.NoError(t, reentrant.New(s, "a").Check())
		require.ErrorIs(t, reentrant.New(s, "").Check(), signalbox.ErrBadName)
	}))
}

// P4: an acquire whose answer never came is taken back as soon as the server hears of it.
func TestAnAcquireWithoutAnAnswerIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.CutAfterRequest, redistest.DelayReply, redistest.DelayRequest} {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		mu := reentrant.New(newSession(t, proxy), "a")
		require.NoError(t, mustLock(t, mu).Unlock())

		onlyAcquires(proxy)
		lost := proxy.Arm(redistest.Fault{Kind: kind, Delay: delay})
		ctx, cancel := context.WithCancel(t.Context())
		trying := make(chan error, 1)
		go func() {
			_, err := mu.TryLock(ctx)
			trying <- err
		}()
		within(t, "the fault", lost.Fired())
		cancel()
		require.Error(t, within(t, "the answer to TryLock", trying), kind)

		lease := mustLock(t, reentrant.New(newSession(t, server), "a"))
		require.NoError(t, lease.Unlock())
		await(t, "nobody holds the lock", func() bool { return !isHeld(t, server, "a") })
	}
}
