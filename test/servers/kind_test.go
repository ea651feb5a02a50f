// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// longest is the longest lease that there is, which is not renewed before any test is over.
const longest = 24 * time.Hour

// lockKind is a kind of lock, and how it differs from the others.
type lockKind struct {
	locktest.Primitive

	excludedBy func() locktest.Primitive        // the kind whose holders keep it out, itself but for readers
	known      string                           // the name of the kind in the errors of other kinds; "" if none names it
	queued     func(f *kindFixture, n int) bool // n wait at the server; nil counts the tickets of the library's own layout
	shared     bool                             // the key of the holder is the name, as other clients have it
}

// eitherMode is what errors call an exclusive lock, whichever package made its hold.
const eitherMode = "reentrant or fair"

// lockKinds returns all of them.
func lockKinds() []lockKind {
	listeners := func(before, behind string) func(f *kindFixture, n int) bool {
		return func(f *kindFixture, n int) bool {
			return locktest.Listeners(f, f.server, before+"{"+f.name+"}"+behind) >= n
		}
	}
	redissonQueue := func(f *kindFixture, n int) bool {
		return locktest.Count(f, f.server, "LLEN", "redisson_lock_queue:{"+f.name+"}") == n
	}
	writers := locktest.Writer().Name
	return []lockKind{
		{locktest.Reentrant(), locktest.Reentrant, eitherMode, nil, false},
		{locktest.Fair(), locktest.Fair, eitherMode, nil, false},
		{locktest.Writer(), locktest.Writer, writers, nil, false},
		{locktest.Reader(), locktest.Writer, writers, nil, false},
		{locktest.Permit(), locktest.Permit, "", nil, false},
		{locktest.RedissonReentrant(), locktest.RedissonReentrant, "", listeners("redisson_lock__channel:", ""), true},
		{locktest.RedissonFair(), locktest.RedissonFair, "", redissonQueue, true},
		{locktest.SetNX(), locktest.SetNX, "", listeners("sb:", ":unlocked"), true},
	}
}

// The kinds that a behaviour is asked of.
var (
	everyKind = func(lockKind) bool { return true }
	enterable = func(k lockKind) bool { return k.Name != locktest.Permit().Name }
	exclusive = func(k lockKind) bool { return k.Name != locktest.Reader().Name }
	native    = func(k lockKind) bool { return !k.shared }
)

// anyLock is what every kind has.
type anyLock interface {
	locktest.Lock
	Check() error
}

// forceUnlocker is a kind whose hold can be ended by force.
type forceUnlocker interface {
	ForceUnlock(ctx context.Context) error
}

// kindFixture is the lock of one test, of one kind: the server, and the lock's name there.
type kindFixture struct {
	*testing.T
	lockKind

	server *redistest.Server
	name   string
	view   *locktest.View
}

// Name implements testing.TB: of the two names that s embeds it is the test's.
func (f *kindFixture) Name() string { return f.T.Name() }

// made counts the sites, so that a test that is run again has a new name.
var made atomic.Int64

func newKindFixture(t *testing.T, k lockKind, server *redistest.Server) *kindFixture {
	t.Helper()
	redistest.NeedServer(t)
	return &kindFixture{t, k, server, fmt.Sprint(t.Name(), "/", made.Add(1)), locktest.NewView(t, server)}
}

// each runs a test of the chosen kinds, all of them at the same time.
func each(t *testing.T, chosen func(lockKind) bool, run func(f *kindFixture)) {
	t.Helper()
	for _, k := range lockKinds() {
		if chosen(k) {
			t.Run(k.Name, func(t *testing.T) {
				t.Parallel()
				run(newKindFixture(t, k, common))
			})
		}
	}
}

// alone runs a test of the chosen kinds, one after the other and beside no other test.
func alone(t *testing.T, chosen func(lockKind) bool, run func(f *kindFixture)) {
	t.Helper()
	for _, k := range lockKinds() {
		if chosen(k) {
			t.Run(k.Name, func(t *testing.T) { run(newKindFixture(t, k, common)) })
		}
	}
}

// session returns a session to which nothing is to happen.
func (f *kindFixture) session(options ...signalbox.SessionOption) *signalbox.Session {
	f.Helper()
	return locktest.SteadySession(f, f.server, options...)
}

// in returns the lock in a session.
func (f *kindFixture) in(session *signalbox.Session, options ...signalbox.LockOption) anyLock {
	return lockOf(f.Primitive, session, f.name, options...)
}

// lock returns the lock in a session of its own.
func (f *kindFixture) lock(options ...signalbox.LockOption) anyLock {
	f.Helper()
	return f.in(f.session(), options...)
}

// against returns what keeps the lock out, in a session of its own.
func (f *kindFixture) against() anyLock {
	f.Helper()
	return lockOf(f.excludedBy(), f.session(), f.name)
}

// lockOf returns the lock of a name.
func lockOf(p locktest.Primitive, session *signalbox.Session, name string, options ...signalbox.LockOption) anyLock {
	mu, _ := p.New(session, name, options...).(anyLock)
	return mu
}

// key returns the key of the holder.
func (f *kindFixture) key() string {
	if f.shared {
		return f.name
	}
	return f.Key(f.name)
}

// isHeld reports whether the lock is held, according to the server.
func (f *kindFixture) isHeld() bool {
	f.Helper()
	if !native(f.lockKind) {
		return locktest.Count(f, f.server, "EXISTS", f.key()) == 1
	}
	return f.view.MustHold(f, f.name).Holds > 0
}

// tickets returns how many tickets the queues of the lock have.
func (f *kindFixture) tickets() int {
	f.Helper()
	if !native(f.lockKind) {
		return locktest.Count(f, f.server, "EXISTS", "redisson_lock_queue:{"+f.name+"}")
	}
	return f.view.MustHold(f, f.name).Waiting
}

// awaitFree waits until the lock is neither held nor waited for.
func (f *kindFixture) awaitFree() {
	f.Helper()
	redistest.Await(f, "a free lock and empty queues", func() bool { return !f.isHeld() && f.tickets() == 0 })
}

// wait calls Lock in a session that does not hold the lock, and returns when it waits at the server, as the n-th.
func (f *kindFixture) wait(ctx context.Context, mu anyLock, n int) <-chan locktest.Result[signalbox.Lease] {
	f.Helper()
	returned := locktest.LaterWith(ctx, mu.Lock)
	redistest.Await(f, "a ticket in the queue", func() bool { return f.waits(n) })
	return returned
}

// waits reports whether n sessions wait at the server.
func (f *kindFixture) waits(n int) bool {
	f.Helper()
	if f.queued != nil {
		return f.queued(f, n)
	}
	return f.tickets() == n
}

// must takes a lock that can be had.
func (f *kindFixture) must(mu anyLock) signalbox.Lease {
	f.Helper()
	return locktest.Must(f, mu.Lock)
}

// second returns the error of a call.
func second(_ signalbox.Lease, err error) error { return err }

// P10: a try that fails says what was tried, of which name.
func TestTryLockReturnsErrHeldWithTheNameAndTheOperation(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *kindFixture) {
		holder := f.must(f.against())
		lease, err := f.lock().TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld)
		verb, named := map[string]string{locktest.Reader().Name: "read lock", locktest.Permit().Name: "acquire"}[f.Primitive.Name]
		if !named {
			verb = "lock"
		}
		require.EqualError(f, err, fmt.Sprintf("signalbox: try %s %q: the lock is held", verb, f.name))
		require.Equal(f, signalbox.Lease{}, lease)
		require.NoError(f, holder.Unlock())
	})
}

// P9: locks of different kinds keep each other out while one is held, and the tokens of a name rise over all kinds.
func TestAnotherKindsLockIsErrWrongKind(t *testing.T) {
	t.Parallel()
	locks := func(k lockKind) bool { return k.known != "" }
	each(t, locks, func(f *kindFixture) {
		for _, k := range lockKinds() {
			if !locks(k) || k.known == f.known {
				continue
			}
			other := lockOf(k.Primitive, f.session(), f.name)
			for range 2 { // the second time there is a floor
				mu := f.lock() // one that nothing is to be withdrawn for
				lease := f.must(other)
				for _, take := range []func(context.Context) (signalbox.Lease, error){mu.TryLock, mu.Lock} {
					err := second(take(f.Context()))
					require.ErrorIs(f, err, signalbox.ErrWrongKind)
					require.ErrorContains(f, err, "("+k.known+")")
				}
				forced, _ := mu.(forceUnlocker)
				require.ErrorIs(f, forced.ForceUnlock(f.Context()), signalbox.ErrWrongKind)
				require.Zero(f, f.tickets())
				require.NoError(f, lease.Err())
				require.NoError(f, lease.Unlock())
				ours := f.must(mu)
				require.Greater(f, ours.Token(), lease.Token(), "the floor is that of the name")
				require.NoError(f, ours.Unlock())
			}
		}
	})
}

type depthKey int

// deeper returns ctx with values around it, as requests add them.
func deeper(ctx context.Context, depth int) context.Context {
	for i := range depth {
		ctx = context.WithValue(ctx, depthKey(i), i)
	}
	return ctx
}

// P7: entering again makes no round trip and allocates nothing, ten contexts deep. A writer may also read.
func TestEnteringAgainSendsNoCommandAndAllocatesNothing(t *testing.T) {
	alone(t, enterable, func(f *kindFixture) {
		session := f.session(signalbox.WithPolling())
		mu := f.in(session, signalbox.WithRenewedLease(longest))
		for _, outer := range []locktest.Primitive{f.Primitive, f.excludedBy()} {
			lease := f.must(lockOf(outer, session, f.name, signalbox.WithRenewedLease(longest)))
			ctx := deeper(lease.Enter(f.Context()), 10)
			for n, enter := range takers {
				var allocated float64
				require.Empty(f, f.server.SentBy(func() {
					allocated = testing.AllocsPerRun(100, func() {
						again, err := enter(mu, ctx)
						if err != nil || again.Token() != lease.Token() || again.Err() != nil {
							f.Error("not entered again", n, err)
						}
						if err := again.Unlock(); err != nil {
							f.Error(err)
						}
					})
				}))
				require.Zero(f, allocated, n)
			}
			require.NoError(f, lease.Unlock())
		}
	})
}

// P9: the databases of a server share channels, and locks of one name in two of them are two locks: no message from the other one
// grants a lock, ends a hold or a wait.
func TestLocksOfOneNameInTwoDatabasesAreTwo(t *testing.T) {
	t.Parallel()
	each(t, exclusive, func(f *kindFixture) {
		ctx := locktest.Context(f)
		elsewhere := func() anyLock {
			session, err := signalbox.Dial(ctx, f.server.URL()+"/1")
			require.NoError(f, err)
			f.Cleanup(func() { _ = session.Close(ctx) })
			return f.in(session)
		}
		here, there := f.lock(), elsewhere()
		mine, err := here.TryLock(ctx)
		require.NoError(f, err)
		theirs, err := there.TryLock(ctx)
		require.NoError(f, err)
		waiting := f.wait(ctx, f.lock(), 1)

		// There: a waiter is granted the lock, and what it holds then is ended by force.
		next := locktest.LaterWith(ctx, elsewhere().Lock)
		require.NoError(f, locktest.IgnoreUnconfirmed(theirs.Unlock()))
		granted := locktest.MustHave(f, next)
		if mu, has := there.(forceUnlocker); has {
			require.NoError(f, mu.ForceUnlock(ctx))
			redistest.Receive(f, "the loss there", granted.Done())
		} else {
			require.NoError(f, locktest.IgnoreUnconfirmed(granted.Unlock()))
		}

		require.NoError(f, mine.Err())
		require.Empty(f, waiting)
		require.NoError(f, locktest.IgnoreUnconfirmed(mine.Unlock()))
		last := locktest.MustHave(f, waiting)
		require.NoError(f, locktest.IgnoreUnconfirmed(last.Unlock()))
	})
}

// common is the server of all tests that do nothing to it. Tests that count its commands do not run in parallel.
var common *redistest.Server

func TestMain(m *testing.M) {
	redistest.RegisterChild("member", runMember)
	redistest.RegisterChild("writer", runWriter)
	redistest.RegisterChild("walker", runWalker)
	if redistest.RunChild() {
		return
	}
	redistest.VerifyTestMain(redistest.WithParallelism(12, redistest.WithServer(m, func(s *redistest.Server) { common = s })))
}
