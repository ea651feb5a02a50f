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

// forcibleLock is a member that can be asked whether anybody has it, and taken away.
type forcibleLock interface {
	multilock.Member
	IsLocked(ctx context.Context) (bool, error)
	ForceUnlock(ctx context.Context) error
}

// readerLock is the reading side of a lock as a lock.
type readerLock struct {
	rwlock.Reader

	whole *rwlock.Lock
}

func (r readerLock) IsLocked(ctx context.Context) (bool, error) {
	return writerLock{r.whole}.IsLocked(ctx)
}
func (r readerLock) ForceUnlock(ctx context.Context) error { return r.whole.ForceUnlock(ctx) }

type rwLock = rwlock.Lock // a name that no method has

// writerLock is a read-write lock that finds out by trying.
type writerLock struct{ *rwLock }

func (w writerLock) IsLocked(ctx context.Context) (bool, error) {
	lease, err := w.TryLock(ctx)
	if errors.Is(err, signalbox.ErrHeld) {
		return true, nil
	}
	return false, errors.Join(err, lease.Unlock())
}

// allKinds returns a lock of each kind and side, and permits, named a to f, in the order in which they are acquired; the
// reentrant ones are a and b.
func allKinds(s *signalbox.Session) []forcibleLock {
	shared := rwlock.New(s, "e")
	pool := semaphore.New(s, "f", pooled)
	return inOrder([]forcibleLock{
		reentrant.New(s, "a"), reentrant.New(s, "b"), fair.New(s, "c"),
		writerLock{rwlock.New(s, "d")},
		readerLock{shared.Reader(), shared},
		permitsLock{pool.Permits(wanted), pool},
	})
}

// named returns reentrant locks of these names, in the order in which they are acquired.
func named(s *signalbox.Session, names ...string) []forcibleLock {
	all := make([]forcibleLock, len(names))
	for i, name := range names {
		all[i] = reentrant.New(s, name)
	}
	return inOrder(all)
}

// inOrder sorts locks of one session as they are taken.
func inOrder(locks []forcibleLock) []forcibleLock {
	slices.SortFunc(locks, func(a, b forcibleLock) int {
		return session.Compare(session.PlaceHandle(a.Place()).Place(), session.PlaceHandle(b.Place()).Place())
	})
	return locks
}

// all makes one lock of them.
func all(locks []forcibleLock) *multilock.Lock {
	members := make([]multilock.Member, len(locks))
	for i, l := range locks {
		members[i] = l
	}
	return multilock.New(members...)
}

// held returns which of the locks have a holder.
func held(tb testing.TB, locks []forcibleLock) []int {
	tb.Helper()
	var found []int
	for i, l := range locks {
		is, err := l.IsLocked(locktest.Context(tb))
		require.NoError(tb, err)
		if is {
			found = append(found, i)
		}
	}
	return found
}

// awaitFree waits until the locks have no holder, and nothing is under way in the sessions.
func awaitFree(tb testing.TB, locks []forcibleLock, sessions ...*signalbox.Session) {
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
func nameOf(l forcibleLock) string { return session.PlaceHandle(l.Place()).Place().Name }

// pooled is how many permits there are of a semaphore, and wanted how many a member takes: two do not get theirs at the same time.
const pooled, wanted = 3, 2

// permitsLock is some permits as a lock that has a holder while they are held.
type permitsLock struct {
	semaphore.Permits

	pool *semaphore.Semaphore
}

func (p permitsLock) IsLocked(ctx context.Context) (bool, error) {
	free, err := p.pool.Available(ctx)
	return free < pooled, err
}

// ForceUnlock implements lock: permits cannot be taken away.
func (p permitsLock) ForceUnlock(context.Context) error { return errors.ErrUnsupported }
