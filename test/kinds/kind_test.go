// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// longest is the longest lease that there is, which is not renewed before any test is over.
const longest = 24 * time.Hour

// lockKind is a kind of lock, and how it differs from the others.
type lockKind struct {
	locktest.Primitive

	op         string                        // the name of Lock in errors; TryLock has "try " before it
	excludedBy func() locktest.Primitive     // the kind whose holders keep it out, itself but for readers
	known      string                        // the name of the kind in the errors of other kinds
	enters     bool                          // a holder enters it again
	enter      *scripts.Script               // takes the lock, or joins its queue
	poll       *scripts.Script               // polls the server from its queue
	queues     func(keys names.Set) []string // the keys of its queues, and of the waiters' heartbeats
	queued     func(f *fixture, n int) bool  // n wait at the server; nil counts the tickets of the library's own layout
	key        func(name string) string      // the key of the holder; nil is the library's own
	layout     string                        // "redisson", "setnx", or the library's own
}

// eitherMode is what errors call an exclusive lock, whichever package made its hold.
const eitherMode = "reentrant or fair"

// kinds returns all of them.
func kinds() []lockKind {
	return []lockKind{
		{
			Primitive: locktest.Reentrant(), op: "lock", excludedBy: locktest.Reentrant, known: eitherMode, enters: true,
			enter: scripts.LockEnter, poll: scripts.LockPoll,
			queues: func(keys names.Set) []string { return []string{keys.QueueKey(), keys.HeartbeatsKey()} },
		},
		{
			Primitive: locktest.Fair(), op: "lock", excludedBy: locktest.Fair, known: eitherMode, enters: true,
			enter: scripts.LockEnter, poll: scripts.LockPoll,
			queues: func(keys names.Set) []string { return []string{keys.QueueKey(), keys.HeartbeatsKey()} },
		},
		{
			Primitive: locktest.Writer(), op: "lock", excludedBy: locktest.Writer, known: locktest.Writer().Name, enters: true, enter: scripts.RWLockEnter, poll: scripts.RWLockPoll,
			queues: func(keys names.Set) []string { return []string{keys.Writers(), keys.Readers(), keys.RWHeartbeats()} },
		},
		{
			Primitive: locktest.Reader(), op: "read lock", excludedBy: locktest.Writer, known: locktest.Writer().Name, enters: true, enter: scripts.RWLockEnter, poll: scripts.RWLockPoll,
			queues: func(keys names.Set) []string { return []string{keys.Writers(), keys.Readers(), keys.RWHeartbeats()} },
		},
		{
			Primitive: locktest.Permit(), op: "acquire", excludedBy: locktest.Permit, enter: scripts.SemaphoreEnter, poll: scripts.SemaphorePoll,
			queues: func(keys names.Set) []string { return []string{keys.PermitsQueue(), keys.PermitsHeartbeats()} },
		},
		{
			Primitive: locktest.RedissonReentrant(), op: "lock", excludedBy: locktest.RedissonReentrant, enters: true, layout: "redisson", key: itself,
			queued: func(f *fixture, n int) bool {
				return locktest.Listeners(f, f.server, "redisson_lock__channel:{"+f.name+"}") >= n
			},
		},
		{
			Primitive: locktest.RedissonFair(), op: "lock", excludedBy: locktest.RedissonFair, enters: true, layout: "redisson", key: itself,
			queued: func(f *fixture, n int) bool {
				return locktest.Count(f, f.server, "LLEN", "redisson_lock_queue:{"+f.name+"}") == n
			},
		},
		{
			Primitive: locktest.SetNX(), op: "lock", excludedBy: locktest.SetNX, enters: true, layout: "setnx", key: itself,
			queued: func(f *fixture, n int) bool {
				return locktest.Listeners(f, f.server, "sb:{"+f.name+"}:unlocked") >= n
			},
		},
	}
}

func itself(name string) string { return name }

// hasLocker reports whether the kind has a sync.Locker.
func (k lockKind) hasLocker() bool {
	_, has := k.New(nil, "").(hasLocker)
	return has
}

// canBeForced reports whether the kind has ForceUnlock.
func (k lockKind) canBeForced() bool {
	_, has := k.New(nil, "").(forceUnlocker)
	return has
}

// The kinds that a behaviour is asked of.
var (
	everyKind = func(lockKind) bool { return true }
	reentrant = func(k lockKind) bool { return k.enters }
	exclusive = func(k lockKind) bool { return k.Name != locktest.Reader().Name }
	native    = func(k lockKind) bool { return k.layout == "" }
	lockered  = lockKind.hasLocker
	forcible  = lockKind.canBeForced
)

// anyLock is what every kind has.
type anyLock interface {
	locktest.Lock
	Check() error
}

// What some kinds have.
type (
	hasLocker interface {
		Locker(ctx context.Context) *signalbox.Locker
	}
	forceUnlocker interface {
		ForceUnlock(ctx context.Context) error
		IsLocked(ctx context.Context) (bool, error)
	}
	reportsHolder interface {
		Holder(ctx context.Context) (signalbox.Holder, error)
	}
	listsHolders interface {
		Holders(ctx context.Context) iter.Seq2[signalbox.Holder, error]
	}
	hasPermits interface {
		Available(ctx context.Context) (int, error)
		SetCapacity(ctx context.Context, n int) error
		Holders(ctx context.Context) iter.Seq2[semaphore.Holder, error]
	}
	countsWaiters interface {
		Waiters(ctx context.Context) iter.Seq2[signalbox.Waiter, error]
	}
	downgrader interface {
		Downgrade(ctx context.Context, lease signalbox.Lease) error
	}
)

// refusals returns the errors of the calls of mu that have a context, by name. None of them may do anything.
func refusals(t *testing.T, mu anyLock, ctx context.Context, held signalbox.Lease) map[string]error { //nolint:revive // the test comes first
	t.Helper()
	errs := make(map[string]error)
	lease, err := mu.Lock(ctx)
	require.Equal(t, signalbox.Lease{}, lease)
	errs["Lock"] = err
	lease, err = mu.TryLock(ctx)
	require.Equal(t, signalbox.Lease{}, lease)
	errs["TryLock"] = err
	errs["Do"] = mu.Do(ctx, func(context.Context, signalbox.Lease) error {
		t.Error("it is held")
		return nil
	})
	if mu, has := mu.(hasLocker); has {
		errs["Locker"] = locktest.PanicOf(mu.Locker(ctx).Lock)
	}
	if mu, has := mu.(downgrader); has {
		errs["Downgrade"] = mu.Downgrade(ctx, held)
	}
	if mu, has := mu.(countsWaiters); has {
		for w, err := range mu.Waiters(ctx) {
			require.Zero(t, w)
			errs["Waiters"] = err
		}
	}
	maps.Copy(errs, questions(t, mu, ctx))
	return errs
}

// questions returns the errors of the calls of mu that neither take it nor need a lease, by name.
func questions(t *testing.T, mu anyLock, ctx context.Context) map[string]error { //nolint:revive // the test comes first
	t.Helper()
	errs := make(map[string]error)
	if mu, has := mu.(forceUnlocker); has {
		errs["ForceUnlock"] = mu.ForceUnlock(ctx)
		locked, err := mu.IsLocked(ctx)
		require.False(t, locked)
		errs["IsLocked"] = err
	}
	if mu, has := mu.(reportsHolder); has {
		h, err := mu.Holder(ctx)
		require.Zero(t, h)
		errs["Holder"] = err
	}
	if mu, has := mu.(listsHolders); has {
		for h, err := range mu.Holders(ctx) {
			require.Zero(t, h)
			errs["Holders"] = err
		}
	}
	if mu, has := mu.(hasPermits); has {
		_, errs["Available"] = mu.Available(ctx)
		errs["SetCapacity"] = mu.SetCapacity(ctx, 1)
		for h, err := range mu.Holders(ctx) {
			require.Zero(t, h)
			errs["Holders"] = err
		}
	}
	return errs
}

// fixture is the lock of one test, of one kind: the server, and the lock's name there.
type fixture struct {
	*testing.T
	lockKind

	server *redistest.Server
	name   string
	view   *locktest.View
}

// Name implements testing.TB: of the two names that s embeds it is the test's.
func (f *fixture) Name() string { return f.T.Name() }

// made counts the sites, so that a test that is run again has a new name.
var made atomic.Int64

func newFixture(t *testing.T, k lockKind, server *redistest.Server) *fixture {
	t.Helper()
	return &fixture{t, k, server, fmt.Sprint(t.Name(), "/", made.Add(1)), locktest.NewView(t, server)}
}

// each runs a test of the chosen kinds, all of them at the same time.
func each(t *testing.T, chosen func(lockKind) bool, run func(f *fixture)) {
	t.Helper()
	for _, k := range kinds() {
		if chosen(k) {
			t.Run(k.Name, func(t *testing.T) {
				t.Parallel()
				run(newFixture(t, k, common))
			})
		}
	}
}

// alone runs a test of the chosen kinds, one after the other and beside no other test.
func alone(t *testing.T, chosen func(lockKind) bool, run func(f *fixture)) {
	t.Helper()
	for _, k := range kinds() {
		if chosen(k) {
			t.Run(k.Name, func(t *testing.T) { run(newFixture(t, k, common)) })
		}
	}
}

// session returns a session to which nothing is to happen.
func (f *fixture) session(options ...signalbox.SessionOption) *signalbox.Session {
	f.Helper()
	return locktest.SteadySession(f, f.server, options...)
}

// in returns the lock in a session.
func (f *fixture) in(session *signalbox.Session, options ...signalbox.LockOption) anyLock {
	return of(f.Primitive, session, f.name, options...)
}

// lock returns the lock in a session of its own.
func (f *fixture) lock(options ...signalbox.LockOption) anyLock {
	f.Helper()
	return f.in(f.session(), options...)
}

// against returns what keeps the lock out, in a session of its own.
func (f *fixture) against() anyLock {
	f.Helper()
	return of(f.excludedBy(), f.session(), f.name)
}

// of returns the lock of a name.
func of(p locktest.Primitive, session *signalbox.Session, name string, options ...signalbox.LockOption) anyLock {
	mu, _ := p.New(session, name, options...).(anyLock)
	return mu
}

// key returns the key of the holder.
func (f *fixture) key() string {
	if f.lockKind.key != nil {
		return f.lockKind.key(f.name)
	}
	return f.Key(f.name)
}

// isHeld reports whether the lock is held, according to the server.
func (f *fixture) isHeld() bool {
	f.Helper()
	if !native(f.lockKind) {
		return locktest.Count(f, f.server, "EXISTS", f.key()) == 1
	}
	return f.view.MustHold(f, f.name).Holds > 0
}

// tickets returns how many tickets the queues of the lock have.
func (f *fixture) tickets() int {
	f.Helper()
	if !native(f.lockKind) {
		return locktest.Count(f, f.server, "EXISTS", "redisson_lock_queue:{"+f.name+"}")
	}
	return f.view.MustHold(f, f.name).Waiting
}

// awaitFree waits until the lock is neither held nor waited for.
func (f *fixture) awaitFree() {
	f.Helper()
	redistest.Await(f, "a free lock and empty queues", func() bool { return !f.isHeld() && f.tickets() == 0 })
}

type pendingLock = <-chan locktest.Result[signalbox.Lease]

// wait calls Lock in a session that does not hold the lock, and returns when it waits at the server, as the n-th.
func (f *fixture) wait(ctx context.Context, mu anyLock, n int) pendingLock {
	f.Helper()
	returned := locktest.LaterWith(ctx, mu.Lock)
	redistest.Await(f, "a ticket in the queue", func() bool { return f.waits(n) })
	return returned
}

// waits reports whether n sessions wait at the server.
func (f *fixture) waits(n int) bool {
	f.Helper()
	if f.queued != nil {
		return f.queued(f, n)
	}
	return f.tickets() == n
}

// must takes a lock that can be had.
func (f *fixture) must(mu anyLock) signalbox.Lease {
	f.Helper()
	return locktest.Must(f, mu.Lock)
}

// again enters a lock that lease holds.
func (f *fixture) again(mu anyLock, lease signalbox.Lease) signalbox.Lease {
	f.Helper()
	lease, err := mu.Lock(lease.Enter(f.Context()))
	require.NoError(f, err)
	return lease
}

// second returns the error of a call.
func second(_ signalbox.Lease, err error) error { return err }
