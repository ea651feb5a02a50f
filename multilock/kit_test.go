// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/member"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

// patience is how long a test waits for what must happen. It is reached by failing tests only.
const patience = 20 * time.Second

// shortest is the shortest lease that there is.
const shortest = 100 * time.Millisecond

// wire is a server, or a proxy before one.
type wire interface {
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
}

// newSession answers a session on a connection of its own, as another process would have it, whose Unlock waits for a busy
// machine as well. It is closed when the test ends, whatever is still held.
func newSession(tb testing.TB, at wire, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	s := signalbox.NewSession(at.Client(tb, signalbox.Tune), options...)
	(*session.Session)(s).UnlockPatience = patience
	tb.Cleanup(func() { _ = s.Close(endedContext()) })
	return s
}

// impatient is newSession for a wire that goes silent, which it gives up after a second.
func impatient(tb testing.TB, at wire) *signalbox.Session {
	tb.Helper()
	s := signalbox.NewSession(at.Client(tb, func(o *rueidis.ClientOption) {
		o.ConnWriteTimeout = time.Second
		signalbox.Tune(o)
	}))
	tb.Cleanup(func() { _ = s.Close(endedContext()) })
	return s
}

// endedContext answers a context that has ended.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// soon answers a context that ends with the test, or when something has gone wrong.
func soon(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// await polls until done, which asks for something that must come true.
func await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	redistest.Await(tb, what, done)
}

// within receives what must come.
func within[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	return redistest.Receive(tb, what, c)
}

// outcome is what a call of Lock answered.
type outcome struct {
	lease signalbox.Lease
	err   error
}

// lockLater locks on another goroutine.
func lockLater(ctx context.Context, mu multilock.Member) <-chan outcome {
	return later(func() (signalbox.Lease, error) { return mu.Lock(ctx) })
}

// allLater locks all on another goroutine.
func allLater(ctx context.Context, all *multilock.Lock) <-chan outcome {
	return later(func() (signalbox.Lease, error) { return all.Lock(ctx) })
}

func later(lock func() (signalbox.Lease, error)) <-chan outcome {
	answered := make(chan outcome, 1)
	go func() {
		lease, err := lock()
		answered <- outcome{lease, err}
	}()
	return answered
}

// locker is a lock of any kind, or several as one.
type locker interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
}

// mustLock locks what is free.
func mustLock(tb testing.TB, mu locker) signalbox.Lease {
	tb.Helper()
	lease, err := mu.Lock(soon(tb))
	require.NoError(tb, err)
	return lease
}

// lock is a member that can be asked whether anybody has it, and taken away.
type lock interface {
	multilock.Member
	IsLocked(ctx context.Context) (bool, error)
	ForceUnlock(ctx context.Context) error
}

// reader is the reading side of a lock as a lock.
type reader struct {
	rwlock.Reader

	whole *rwlock.Lock
}

func (r reader) IsLocked(ctx context.Context) (bool, error) { return writer{r.whole}.IsLocked(ctx) }
func (r reader) ForceUnlock(ctx context.Context) error      { return r.whole.ForceUnlock(ctx) }

type rw = rwlock.Lock // a name that no method has

// writer is a read-write lock that finds out by trying.
type writer struct{ *rw }

func (w writer) IsLocked(ctx context.Context) (bool, error) {
	lease, err := w.TryLock(ctx)
	if errors.Is(err, signalbox.ErrHeld) {
		return true, nil
	}
	return false, errors.Join(err, lease.Unlock())
}

// oneOfEach answers a lock of each kind and side, named a to e, in the order in which they are taken; the reentrant
// ones are a and b.
func oneOfEach(s *signalbox.Session, options ...signalbox.LockOption) []lock {
	shared := rwlock.New(s, "e", options...)
	return inOrder([]lock{
		reentrant.New(s, "a", options...), reentrant.New(s, "b", options...), fair.New(s, "c", options...),
		writer{rwlock.New(s, "d", options...)},
		reader{shared.Reader(), shared},
	})
}

// named answers reentrant locks of these names, in the order in which they are taken.
func named(s *signalbox.Session, names ...string) []lock {
	all := make([]lock, len(names))
	for i, name := range names {
		all[i] = reentrant.New(s, name)
	}
	return inOrder(all)
}

// inOrder sorts locks of one session as they are taken.
func inOrder(locks []lock) []lock {
	slices.SortFunc(locks, func(a, b lock) int { return member.Compare(member.Place(a.Place()), member.Place(b.Place())) })
	return locks
}

// all makes one lock of them.
func all(locks []lock) *multilock.Lock {
	members := make([]multilock.Member, len(locks))
	for i, l := range locks {
		members[i] = l
	}
	return multilock.New(members...)
}

// held answers which of the locks somebody has.
func held(tb testing.TB, locks []lock) []int {
	tb.Helper()
	var answer []int
	for i, l := range locks {
		is, err := l.IsLocked(soon(tb))
		require.NoError(tb, err)
		if is {
			answer = append(answer, i)
		}
	}
	return answer
}

// awaitFree waits until nobody has any of the locks, and nothing is under way in the sessions.
func awaitFree(tb testing.TB, locks []lock, sessions ...*signalbox.Session) {
	tb.Helper()
	await(tb, "free locks", func() bool { return len(held(tb, locks)) == 0 })
	for _, s := range sessions {
		await(tb, "nothing is under way", (*session.Session)(s).IsIdle)
	}
}

// scriptsRun answers how many scripts a function made the server run.
func scriptsRun(server *redistest.Server, do func()) int64 {
	count := func() int64 {
		stats := server.CommandStats()
		return stats["evalsha"].Calls + stats["eval"].Calls
	}
	before := count()
	do()
	return count() - before
}

// nameOf answers the name of a lock.
func nameOf(l lock) string { return member.Place(l.Place()).Name }

// stacks answers the stacks of all goroutines.
func stacks() string {
	text := make([]byte, 1<<22)
	return string(text[:runtime.Stack(text, true)])
}
