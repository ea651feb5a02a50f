// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

func TestBreakTakesEachKindAndNotifiesItsHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, operator := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	for name, lock := range map[string]func(context.Context) (signalbox.Lease, error){
		"reentrant": reentrant.New(s, "reentrant").Lock,
		"fair":      fair.New(s, "fair").Lock,
		"rwlock":    rwlock.New(s, "rwlock").Lock,
		"reader":    rwlock.New(s, "reader").RLock,
		"semaphore": func(ctx context.Context) (signalbox.Lease, error) {
			return semaphore.New(s, "semaphore", 3).Acquire(ctx, 2)
		},
	} {
		held := locktest.Must(t, lock)
		next := waiting(t, operator, name, 0, func(ctx context.Context) (signalbox.Lease, error) {
			if name == "semaphore" {
				return semaphore.New(operator, name, 3).Acquire(ctx, 2)
			}
			if name == "reader" || name == "rwlock" {
				return rwlock.New(operator, name).Lock(ctx)
			}
			return reentrant.New(operator, name).Lock(ctx)
		})
		redistest.Await(t, "a waiter", func() bool { return only(t, operator, name).WaiterCount == 1 })
		redistest.Await(t, "a session that listens", func() bool { return locktest.Channels(s) > 0 })
		require.NoError(t, inspect.Break(locktest.Context(t), operator, name), name)
		redistest.Receive(t, "the loss of "+name, held.Done())
		require.ErrorIs(t, held.Err(), signalbox.ErrLost)
		unlocked(t, next)
		require.ErrorIs(t, inspect.Break(locktest.Context(t), operator, name), signalbox.ErrNotHeld)
	}
}

// A person has seen a holder, and the next one has the name when the reply comes: that one keeps it.
func TestBreakSeenEndsNoOtherHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, operator := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	redisson := signalbox.WithLayout(redisson.Layout())
	java := locktest.SteadySession(t, server, signalbox.WithDefaults(redisson))
	permits := func(s *signalbox.Session, name string) func(context.Context) (signalbox.Lease, error) {
		return func(ctx context.Context) (signalbox.Lease, error) { return semaphore.New(s, name, 3).Acquire(ctx, 1) }
	}
	for name, c := range map[string]struct {
		operator *signalbox.Session
		lock     func(context.Context) (signalbox.Lease, error)
	}{
		"reentrant": {operator, reentrant.New(s, "reentrant").Lock},
		"fair":      {operator, fair.New(s, "fair").Lock},
		"rwlock":    {operator, rwlock.New(s, "rwlock").Lock},
		"reader":    {operator, rwlock.New(s, "reader").RLock},
		"semaphore": {operator, permits(s, "semaphore")},
		"java":      {java, permits(java, "java")},
	} {
		first := locktest.Must(t, c.lock)
		seen := nameOf(t, c.operator, name)
		require.NoError(t, locktest.IgnoreUnconfirmed(first.Unlock()))
		require.ErrorIs(t, inspect.BreakSeen(locktest.Context(t), c.operator, seen), signalbox.ErrNotHeld, name)
		second := locktest.Must(t, c.lock)
		require.ErrorIs(t, inspect.BreakSeen(locktest.Context(t), c.operator, seen), signalbox.ErrHeld, name)
		require.NoError(t, second.Err(), name)
		require.NoError(t, inspect.BreakSeen(locktest.Context(t), c.operator, nameOf(t, c.operator, name)), name)
		redistest.Receive(t, "the loss of "+name, second.Done())
	}

	latch := countdown.New(s, "latch")
	_, err := latch.Start(locktest.Context(t), 2)
	require.NoError(t, err)
	seen := nameOf(t, operator, "latch")
	require.NoError(t, latch.Reset(locktest.Context(t)))
	_, err = latch.Start(locktest.Context(t), 2)
	require.NoError(t, err)
	require.ErrorIs(t, inspect.BreakSeen(locktest.Context(t), operator, seen), signalbox.ErrHeld)
	require.NoError(t, inspect.BreakSeen(locktest.Context(t), operator, nameOf(t, operator, "latch")))
	require.ErrorIs(t, inspect.BreakSeen(locktest.Context(t), operator, nameOf(t, operator, "latch")), signalbox.ErrNotHeld)
}

// nameOf returns the entry of a name with one use, or an empty one of that name.
func nameOf(t *testing.T, s *signalbox.Session, name string) inspect.Entry {
	t.Helper()
	entries, err := inspect.Name(locktest.Context(t), s, name)
	require.NoError(t, err)
	if len(entries) == 0 {
		return inspect.Entry{Name: name}
	}
	require.Len(t, entries, 1)
	return entries[0]
}

// Of several permits those that were seen end.
func TestBreakSeenLeavesOtherPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	permits := semaphore.New(s, "x", 3)
	first, err := permits.Acquire(locktest.Context(t), 1)
	require.NoError(t, err)
	seen := nameOf(t, s, "x")
	second, err := permits.Acquire(locktest.Context(t), 1)
	require.NoError(t, err)
	require.NoError(t, inspect.BreakSeen(locktest.Context(t), s, seen))
	redistest.Receive(t, "the loss", first.Done())
	require.NoError(t, second.Err())
	require.NoError(t, second.Unlock())
}

func TestBreakResetsARoundAndEndsATerm(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, operator := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	round, err := countdown.New(s, "c").Start(locktest.Context(t), 2)
	require.NoError(t, err)
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "c"))
	require.ErrorIs(t, round.Wait(locktest.Context(t)), signalbox.ErrReset)

	term, err := election.New(s, "e").Campaign(locktest.Context(t))
	require.NoError(t, err)
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "e"))
	redistest.Receive(t, "the end of the term", term.Done())
	require.Error(t, term.Resign())
}

func TestBreakAsksForTheKindOfANameWithTwo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	lock := locktest.Must(t, reentrant.New(s, "x").Lock)
	permit, err := semaphore.New(s, "x", 1).Acquire(locktest.Context(t), 1)
	require.NoError(t, err)
	err = inspect.Break(locktest.Context(t), s, "x")
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorContains(t, err, "reentrant and as semaphore")
	require.NoError(t, inspect.Break(locktest.Context(t), s, "x", inspect.Semaphore))
	redistest.Receive(t, "the loss", permit.Done())
	require.NoError(t, lock.Err())
	require.ErrorIs(t, inspect.Break(locktest.Context(t), s, "x", inspect.Semaphore), signalbox.ErrNotHeld)
	require.NoError(t, inspect.Break(locktest.Context(t), s, "x"))
	redistest.Receive(t, "the loss", lock.Done())
}
