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
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
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
