// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// locker is a lock of any kind, or several as one.
type locker interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
}

// mustLock locks what is free.
func mustLock(tb testing.TB, mu locker) signalbox.Lease {
	tb.Helper()
	return locktest.Must(tb, mu.Lock)
}

// member is a member, and one that cannot be had while anybody has it.
type member struct {
	multilock.Member

	rival multilock.Member
}

// allKinds returns a lock of each kind and side, and permits, named a to f, in the order in which they are acquired; the
// reentrant ones are a and b.
func allKinds(s *signalbox.Session) []member {
	whole, shared, pool := rwlock.New(s, "d"), rwlock.New(s, "e"), semaphore.New(s, "f", 3)
	c := fair.New(s, "c")
	return inOrder(append(named(s, "a", "b"), member{c, c}, member{whole, whole}, member{shared.Reader(), shared}, member{pool.Permits(2), pool.Permits(3)}))
}

// named returns reentrant locks of these names, in the order in which they are acquired.
func named(s *signalbox.Session, names ...string) []member {
	all := make([]member, len(names))
	for i, name := range names {
		l := reentrant.New(s, name)
		all[i] = member{l, l}
	}
	return inOrder(all)
}

// inOrder sorts locks of one session as they are taken.
func inOrder(locks []member) []member {
	slices.SortFunc(locks, func(a, b member) int {
		return session.Compare(session.PlaceHandle(a.Place()).Place(), session.PlaceHandle(b.Place()).Place())
	})
	return locks
}

// all makes one lock of them.
func all(locks []member) *multilock.Lock {
	members := make([]multilock.Member, len(locks))
	for i, l := range locks {
		members[i] = l
	}
	return multilock.New(members...)
}

// held returns which of the locks have a holder.
func held(tb testing.TB, locks []member) []int {
	tb.Helper()
	var found []int
	for i, l := range locks {
		lease, err := multilock.New(l.rival).TryLock(locktest.Context(tb))
		if errors.Is(err, signalbox.ErrHeld) || errors.Is(err, signalbox.ErrWrongKind) {
			found = append(found, i)
			continue
		}
		require.NoError(tb, errors.Join(err, lease.Unlock()))
	}
	return found
}

// awaitFree waits until the locks have no holder, and nothing is under way in the sessions.
func awaitFree(tb testing.TB, locks []member, sessions ...*signalbox.Session) {
	tb.Helper()
	redistest.Await(tb, "free locks", func() bool { return len(held(tb, locks)) == 0 })
	for _, s := range sessions {
		redistest.Await(tb, "nothing is under way", (*session.Handle)(s).Session().IsIdle)
	}
}

// scriptsRun returns how many scripts a function made the server run.
func scriptsRun(server *redistest.Server, do func()) int64 {
	count := func() int64 {
		stats := server.CommandStats()
		return stats["evalsha"].Calls + stats["eval"].Calls
	}
	before := count()
	do()
	return count() - before
}

// nameOf returns the name of a lock.
func nameOf(l member) string { return session.PlaceHandle(l.Place()).Place().Name }
