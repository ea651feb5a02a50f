// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"testing"
	"time"

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
	"github.com/signalbox-go/signalbox/setnx"
)

// running returns a list that runs until the test ends.
func running(t *testing.T, s *signalbox.Session, prefix string) *inspect.List {
	t.Helper()
	l := inspect.NewList(s, prefix, 100*time.Millisecond)
	ctx, cancel := context.WithCancel(locktest.Context(t))
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }() // ends with the test
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, redistest.Receive(t, "the end of Run", ended), context.Canceled)
	})
	redistest.Await(t, "Run", func() bool { return l.Snapshot(locktest.Context(t)).Complete })
	return l
}

func TestListFollowsTheNamesInUse(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "SET", "other", "x")
	s := locktest.SteadySession(t, server)
	l := running(t, s, "order/")
	require.Empty(t, l.Snapshot(locktest.Context(t)).Entries)

	first := locktest.Must(t, reentrant.New(s, "order/2").Lock)
	second := locktest.Must(t, reentrant.New(s, "order/1").Lock)
	defer locktest.Must(t, reentrant.New(s, "other").Lock).Unlock()
	l.Invalidate()
	redistest.Await(t, "both names", func() bool { return len(l.Snapshot(locktest.Context(t)).Entries) == 2 })
	snapshot := l.Snapshot(locktest.Context(t))
	require.NoError(t, snapshot.Err)
	require.Equal(t, []string{"order/1 reentrant", "order/2 reentrant"}, kinds(snapshot.Entries))
	require.Less(t, snapshot.Age, redistest.Patience)
	require.Positive(t, snapshot.Keys)
	require.Equal(t, snapshot.Keys, snapshot.Examined)

	// After a release Expire alone is enough: the known names are read anew.
	require.NoError(t, locktest.IgnoreUnconfirmed(first.Unlock()))
	l.Invalidate()
	require.Equal(t, []string{"order/1 reentrant"}, kinds(l.Snapshot(locktest.Context(t)).Entries))
	require.NoError(t, locktest.IgnoreUnconfirmed(second.Unlock()))
	redistest.Await(t, "no name", func() bool { return len(l.Snapshot(locktest.Context(t)).Entries) == 0 })
}

// P10: a server that is away is an error, and its names are not shown; they are back when it is.
func TestListOfAServerThatIsAway(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a server that is frozen counts as away after two seconds")
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	defer locktest.Must(t, reentrant.New(s, "a", signalbox.WithFixedLease(redistest.Patience)).Lock).Unlock()
	reader := locktest.SteadySession(t, server)
	l := running(t, reader, "")
	server.Freeze()
	redistest.Await(t, "the error", func() bool {
		now := l.Snapshot(locktest.Context(t))
		return now.Err != nil && len(now.Entries) == 0
	})
	require.ErrorIs(t, l.Snapshot(locktest.Context(t)).Err, signalbox.ErrNoReply)
	server.Thaw()
	redistest.Await(t, "the name", func() bool {
		now := l.Snapshot(locktest.Context(t))
		return now.Err == nil && len(now.Entries) == 1
	})
}

func TestListThatIsNotUsedAsItMustBe(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx := locktest.Context(t)
	for name, l := range map[string]*inspect.List{
		"nil": nil, "zero": new(inspect.List), "session": inspect.NewList(nil, "", time.Second),
		"every":  inspect.NewList(locktest.SteadySession(t, server), "", time.Millisecond),
		"hashed": inspect.NewList(locktest.SteadySession(t, server, signalbox.WithHashedNames()), "x", time.Second),
	} {
		require.ErrorIs(t, l.Run(ctx), signalbox.ErrBadOption, name)
		require.ErrorIs(t, l.Snapshot(ctx).Err, signalbox.ErrBadOption, name)
		l.Invalidate()
	}
	l := inspect.NewList(locktest.SteadySession(t, server), "", time.Second)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorContains(t, l.Snapshot(ended).Err, "Run is not running")
	require.ErrorIs(t, l.Run(ended), context.Canceled)
	require.ErrorContains(t, l.Snapshot(ctx).Err, "Run is not running", "it has ended")
	require.ErrorIs(t, l.Run(nil), signalbox.ErrBadOption)          //nolint:staticcheck // nil is tested
	require.ErrorIs(t, l.Snapshot(nil).Err, signalbox.ErrBadOption) //nolint:staticcheck // nil is tested
	s := locktest.SteadySession(t, server)
	used := running(t, s, "")
	require.ErrorContains(t, used.Run(ctx), "running already")
}

func TestTheKindsOfRedisson(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	java := signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()))
	s, other := locktest.SteadySession(t, server, java), locktest.SteadySession(t, server, java)

	held := locktest.Must(t, reentrant.New(s, "lock").Lock)
	e := only(t, s, "lock")
	require.Equal(t, []any{inspect.Exclusive, 1, s.ID()}, []any{e.Kind, e.HolderCount, e.Holders[0].Session})
	require.Zero(t, e.Since)
	require.NoError(t, held.Unlock())

	held = locktest.Must(t, fair.New(s, "fair").Lock)
	waits := waiting(t, s, "fair", 1, fair.New(other, "fair").Lock)
	e = only(t, s, "fair")
	require.Equal(t, []any{inspect.Fair, 1, other.ID(), true}, []any{e.Kind, e.WaiterCount, e.Waiters[0].Session, e.Waiters[0].Alive})
	require.NoError(t, inspect.Break(locktest.Context(t), other, "fair"))
	unlocked(t, waits)
	require.ErrorIs(t, held.Unlock(), signalbox.ErrLost)

	for _, read := range []bool{true, false} {
		lock := rwlock.New(s, "rw").Lock
		if read {
			lock = rwlock.New(s, "rw").RLock
		}
		held = locktest.Must(t, lock)
		e = only(t, other, "rw")
		require.Equal(t, []any{inspect.RWLock, 1, read, s.ID()}, []any{e.Kind, e.HolderCount, e.Holders[0].Shared, e.Holders[0].Session})
		require.NoError(t, held.Unlock())
	}

	for name, options := range map[string][]signalbox.LockOption{"permits": nil, "plain": {semaphore.Plain()}} {
		permits, err := semaphore.New(s, name, 5, options...).Acquire(locktest.Context(t), 2)
		require.NoError(t, err)
		e = only(t, s, name)
		require.Equal(t, []any{inspect.Semaphore, 2, 2}, []any{e.Kind, e.HolderCount, e.Held})
		if name == "permits" {
			require.Equal(t, 5, e.Capacity)
		}
		require.NoError(t, permits.Unlock())
	}

	_, err := countdown.New(s, "latch").Start(locktest.Context(t), 2)
	require.NoError(t, err)
	require.Equal(t, inspect.Number, only(t, s, "latch").Kind)
	require.ErrorIs(t, inspect.Break(locktest.Context(t), s, "latch"), signalbox.ErrWrongKind)
}

func TestOtherKeysBesideRedissonsAreNoLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	server.MustDo(t, "HSET", "user:1", "name", "Erika", "mode", "read")
	server.MustDo(t, "HSET", "user:2", "name", "Erika")
	server.MustDo(t, "SET", "page", "<html>")
	server.MustDo(t, "SET", "long", "123456789012345678901234567890")
	server.MustDo(t, "RPUSH", "list", "1")
	server.MustDo(t, "ZADD", "set", "1", "1")
	server.MustDo(t, "SET", "redisson_lock_token:{x}", "7")
	native := locktest.SteadySession(t, server)
	lease := locktest.Must(t, reentrant.New(native, "native").Lock)
	defer lease.Unlock()
	require.Empty(t, all(t, s, ""))
	for _, name := range []string{"user:1", "page", "list", "set"} {
		_, err := inspect.Name(context.Background(), s, name)
		require.NoError(t, err)
	}
	server.MustDo(t, "SET", "counter", "12")
	require.Equal(t, []string{"counter number"}, kinds(all(t, s, "")))
}

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
	plain := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(setnx.Layout())))
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
		"javalock":  {java, reentrant.New(java, "javalock").Lock},
		"plain":     {plain, reentrant.New(plain, "plain").Lock},
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
	s := locktest.SteadySession(t, redistest.Start(t))
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
	s := locktest.SteadySession(t, redistest.Start(t))
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
