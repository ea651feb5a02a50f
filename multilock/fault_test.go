// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P2, P4: the loss of one member is the loss of all: the lease ends, and the others are given back.
func TestTheLossOfOneIsTheLossOfAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	others := oneOfEach(newSession(t, server))
	mine := oneOfEach(s)
	for i := range mine {
		lease := mustLock(t, all(mine))
		bound := lease.Bind(t.Context())
		require.NoError(t, others[i].ForceUnlock(soon(t)))
		within(t, "the end of the lease", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		require.ErrorContains(t, lease.Err(), nameOf(mine[i]))
		within(t, "the end of what is bound", bound.Done())
		require.ErrorIs(t, context.Cause(bound), signalbox.ErrLost)
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		awaitFree(t, mine, s)
	}
}

// P2: the deadline of the whole is the least of its members', and a look at the clock finds it over.
func TestTheDeadlineIsTheLeast(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	const life = 5 * shortest
	long, short := reentrant.New(s, "long"), fair.New(s, "short", signalbox.FixedLease(life))
	for _, members := range [][]multilock.Member{{long, short}, {short, long}} {
		began := time.Now()
		lease := mustLock(t, multilock.New(members...))
		deadline := lease.Deadline()
		require.WithinRange(t, deadline, began.Add(-time.Second), time.Now().Add(life))
		await(t, "the end of the shortest lease", func() bool { return lease.Err() != nil })
		require.False(t, time.Now().Before(deadline), "it ended before its deadline")
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		awaitFree(t, []lock{long, short}, s)
	}
}

// P2: MaxHold of one member ends the whole, and says so.
func TestTheGreatestHoldOfOneEndsAll(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	mine := []lock{reentrant.New(s, "a"), reentrant.New(s, "b", signalbox.MaxHold(200*time.Millisecond))}
	lease := mustLock(t, all(mine))
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrMaxHold)
	awaitFree(t, mine, s)
}

// The first lease is kept alive while the last member is waited for, however long that takes.
func TestTheFirstIsKeptAliveWhileTheLastIsWaitedFor(t *testing.T) {
	t.Parallel()
	const life = 5 * time.Second // a machine may stand still for a while
	server := redistest.Start(t)
	s, other := newSession(t, server), newSession(t, server)
	mine := inOrder([]lock{
		reentrant.New(s, "a", signalbox.RenewedLease(life)), reentrant.New(s, "b", signalbox.RenewedLease(life)),
	})
	theirs := mustLock(t, reentrant.New(other, nameOf(mine[1])))
	waiting := allLater(soon(t), all(mine))
	await(t, "the first member", func() bool { return len(held(t, mine)) == 2 })
	holder := func() signalbox.Holder {
		h, err := mine[0].(*reentrant.Lock).Holder(soon(t))
		require.NoError(t, err)
		return h
	}
	first := holder()
	await(t, "the end of its first lease", func() bool { return time.Now().After(first.Until) })
	require.Equal(t, first.Token, holder().Token, "it was lost in between")
	require.NoError(t, theirs.Unlock())
	got := within(t, "the lease", waiting)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Err())
	require.NoError(t, got.lease.Unlock())
}

// A lease that is not renewed and lapses while the last member is waited for is no part of a success: all is taken
// anew.
func TestAMemberThatLapsesWhileOthersAreWaitedForIsTakenAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := newSession(t, server), newSession(t, server)
	mine := inOrder([]lock{
		fair.New(s, "a", signalbox.FixedLease(5*shortest)), fair.New(s, "b", signalbox.FixedLease(5*shortest)),
	})
	theirs := mustLock(t, fair.New(other, nameOf(mine[1])))
	waiting := allLater(soon(t), all(mine))
	first := func() uint64 {
		h, err := mine[0].(*fair.Lock).Holder(soon(t))
		if errors.Is(err, signalbox.ErrNotHeld) {
			return 0
		}
		require.NoError(t, err)
		return h.Token
	}
	lapsed := uint64(0)
	await(t, "the first member", func() bool {
		lapsed = first()
		return lapsed != 0
	})
	await(t, "the first member, taken again", func() bool { return first() > lapsed })
	require.NoError(t, theirs.Unlock())
	got := within(t, "the lease", waiting)
	require.NoError(t, got.err)
	for _, token := range multilock.Tokens(got.lease) {
		require.Greater(t, token, lapsed)
	}
	_ = got.lease.Unlock() // it lasts half a second, and a machine may stand still for longer
	awaitFree(t, mine, s)
}

// P4: a wait that is given up leaves nothing, whichever member it was for.
func TestCancelledAtEachMemberNothingIsLeft(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := newSession(t, server), newSession(t, server)
	mine, others := allKinds(s), allKinds(other)
	for i := range mine {
		if r, reads := others[i].(reader); reads {
			others[i] = writer{r.whole}
		}
		theirs := mustLock(t, others[i])
		ctx, cancel := context.WithCancel(t.Context())
		waiting := allLater(ctx, all(mine))
		await(t, "the members before it", func() bool { return len(held(t, mine)) == i+1 })
		cancel()
		got := within(t, "the answer", waiting)
		require.ErrorIs(t, got.err, context.Canceled)
		await(t, "the members given back", func() bool { return len(held(t, mine)) == 1 })
		require.NoError(t, theirs.Unlock())
		awaitFree(t, mine, s)
	}
}

// P4: at whichever script the wire fails, and whether or not the server executed it, the call ends with all members or
// with none, and nothing is left.
func TestALostReplyAtEachMemberLeavesNothing(t *testing.T) {
	t.Parallel()
	faults := []redistest.Kind{redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.SwallowReply}
	for _, kind := range faults {
		for at := 1; at <= 6; at++ {
			t.Run(fmt.Sprint(kind, "/", at), func(t *testing.T) {
				t.Parallel()
				loseReply(t, kind, at)
			})
		}
	}
}

func loseReply(t *testing.T, kind redistest.Kind, at int) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s, view := impatient(t, proxy), allKinds(newSession(t, server))
	mine := allKinds(s)
	_ = mustLock(t, all(mine)).Unlock() // scripts and time are known; what is not confirmed in a second is waited for
	awaitFree(t, view, s)
	proxy.ResetCount()
	armed := proxy.Arm(redistest.Fault{Kind: kind, At: at})
	lease, err := all(mine).Lock(soon(t))
	if err == nil {
		require.Len(t, held(t, view), len(view))
		err = lease.Unlock()
		require.True(t, err == nil || errors.Is(err, signalbox.ErrUnconfirmed), "%v", err)
	}
	within(t, "the fault", armed.Fired())
	awaitFree(t, view, s)
}

// P4: the same for members that go in one script.
func TestALostReplyOfManyTogetherLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.SwallowReply} {
		for _, gives := range []string{"waits", "gives up", "tries"} {
			t.Run(fmt.Sprint(kind, "/", gives), func(t *testing.T) {
				t.Parallel()
				loseTogether(t, kind, gives)
			})
		}
	}
}

func loseTogether(t *testing.T, kind redistest.Kind, how string) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := impatient(t, proxy)
	mine, view := named(s, "a", "b", "c", "d"), named(newSession(t, server), "a", "b", "c", "d")
	_ = mustLock(t, all(mine)).Unlock()
	awaitFree(t, view, s)
	proxy.ResetCount()
	armed := proxy.Arm(redistest.Fault{Kind: kind, At: 1})
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	if how == "gives up" {
		go func() {
			<-armed.Fired()
			cancel()
		}()
	}
	take := all(mine).Lock
	if how == "tries" {
		take = all(mine).TryLock
	}
	lease, err := take(ctx)
	within(t, "the fault", armed.Fired())
	if err == nil {
		require.NoError(t, lease.Err())
		require.Len(t, held(t, view), len(view))
		err = lease.Unlock()
		require.True(t, err == nil || errors.Is(err, signalbox.ErrUnconfirmed), "%v", err)
	}
	awaitFree(t, view, s)
}

// P4: the same for a release.
func TestALostReplyOfTheReleaseIsSettled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newSession(t, proxy)
	mine, view := named(s, "a", "b", "c"), named(newSession(t, server), "a", "b", "c")
	lease := mustLock(t, all(mine))
	proxy.SetMatch(func(req []string) bool { // a session that begins to listen asks whether its holds are there still
		return len(req) > 1 && req[1] == scripts.ReentrantRelease.SHA1
	})
	armed := proxy.Arm(redistest.Fault{Kind: redistest.CutBeforeRequest})
	err := lease.Unlock()
	require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
	for _, m := range mine {
		require.ErrorContains(t, err, nameOf(m))
	}
	within(t, "the fault", armed.Fired())
	awaitFree(t, view, s)
}

// P4: the members of a closed session are lost, and the whole with them; those of others are given back.
func TestASessionThatClosesEndsTheWhole(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := newSession(t, server), newSession(t, server)
	mine := []lock{reentrant.New(one, "a"), fair.New(other, "b")}
	lease := mustLock(t, all(mine))
	require.Error(t, one.Close(endedContext()))
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.ErrorIs(t, lease.Err(), signalbox.ErrClosed)
	awaitFree(t, []lock{reentrant.New(other, "a"), mine[1]}, other)
	_, err := all(mine).Lock(soon(t))
	require.ErrorIs(t, err, signalbox.ErrClosed)
	awaitFree(t, mine[1:], other)
}

// Who waits when a session closes is told so, and has nothing left of the other.
func TestASessionThatClosesEndsTheWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := newSession(t, server), newSession(t, server)
	theirs := mustLock(t, reentrant.New(newSession(t, server), "b"))
	waiting := allLater(soon(t), multilock.New(reentrant.New(one, "a"), reentrant.New(one, "c"), reentrant.New(other, "b")))
	view := named(newSession(t, server), "a", "c")
	await(t, "one who waits", func() bool {
		reply, _ := server.MustDo(t, "PUBSUB", "NUMSUB", "sb:{b}:lock:unlocked").([]any)
		return len(reply) == 2 && reply[1] == int64(1)
	})
	require.NoError(t, other.Close(soon(t)))
	got := within(t, "the answer", waiting)
	require.ErrorIs(t, got.err, signalbox.ErrClosed)
	awaitFree(t, view, one)
	require.NoError(t, theirs.Unlock())
}

// No global order exists over two servers. Who waits on the one while it holds members of the other gives them back
// after a while, so that two that meet the wrong way round both come to their end.
func TestTwoServersInOppositeOrders(t *testing.T) {
	t.Parallel()
	here, there := redistest.Start(t), redistest.Start(t)
	const rounds = 10
	type process struct{ here, there *signalbox.Session }
	ended := make(chan error, 4)
	ctx, cancel := context.WithTimeout(t.Context(), 9*patience)
	defer cancel()
	var sessions []*signalbox.Session
	for i := range cap(ended) {
		p := process{newSession(t, here), newSession(t, there)}
		sessions = append(sessions, p.here, p.there)
		members := []multilock.Member{reentrant.New(p.here, "a"), fair.New(p.there, "b"), rwlock.New(p.here, "c")}
		if i%2 == 1 {
			members[0], members[1] = members[1], members[0]
		}
		go func() {
			for range rounds {
				lease, err := multilock.New(members...).Lock(ctx)
				if err == nil {
					err = lease.Unlock()
				}
				if err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range cap(ended) {
		require.NoError(t, <-ended)
	}
	awaitFree(t, []lock{reentrant.New(sessions[0], "a"), fair.New(sessions[1], "b"), writer{rwlock.New(sessions[0], "c")}}, sessions...)
}

// The same, made to meet: each has one and waits for the other.
func TestTwoThatHoldWhatTheOtherWantsBothGetIt(t *testing.T) {
	t.Parallel()
	here, there := redistest.Start(t), redistest.Start(t)
	s, other := newSession(t, here), newSession(t, there)
	a, b := mustLock(t, reentrant.New(newSession(t, here), "a")), mustLock(t, reentrant.New(newSession(t, there), "b"))
	waiting := allLater(soon(t), multilock.New(reentrant.New(s, "a"), reentrant.New(other, "b")))
	// One of the two is waited for, and the other is not held meanwhile but for moments.
	require.NoError(t, a.Unlock())
	view := reentrant.New(newSession(t, here), "a")
	await(t, "a given back by who waits for b", func() bool {
		lease, err := view.TryLock(soon(t))
		return err == nil && lease.Unlock() == nil
	})
	require.NoError(t, b.Unlock())
	got := within(t, "the lease", waiting)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock())
}

// P7: a multilock that is held costs no goroutine.
func TestHeldMultilocksHaveNoGoroutines(t *testing.T) { //nolint:paralleltest // looks at all goroutines
	s := newSession(t, redistest.Start(t))
	var leases []signalbox.Lease
	for i := range 200 {
		leases = append(leases, mustLock(t, all(named(s, fmt.Sprint("a", i), fmt.Sprint("b", i)))))
	}
	await(t, "no goroutine of a multilock", func() bool {
		return !strings.Contains(stacks(), "multilock.(*")
	})
	for _, lease := range leases {
		require.NoError(t, lease.Unlock())
	}
}
