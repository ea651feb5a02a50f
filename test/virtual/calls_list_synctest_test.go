// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"iter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// testedCall is one call of the library that asks a server.
type testedCall struct {
	name  string // the name as "go doc" has it, and what else distinguishes the call from others
	class callClass
	// ready prepares the call, on servers that are healthy, and returns it.
	ready prepareCall
	// holds makes another process hold what the call asks for; nil if nothing of the kind can be
	// held.
	holds  func(c *callFixture)
	free   string // the result if the lock is free; "nil" if empty
	quorum bool   // asks three servers
	inside bool   // the fault happens in the midst of the call, which does that itself
}

// preparedCall is a call that is ready to be made.
type preparedCall = func(ctx context.Context) error

// prepareCall prepares a call.
type prepareCall = func(c *callFixture) preparedCall

// anyLock is what all locks have in common.
type anyLock interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
	TryLock(ctx context.Context) (signalbox.Lease, error)
}

// doLock is a lock that runs a function.
type doLock interface {
	anyLock
	Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error
	Locker(ctx context.Context) *signalbox.Locker
}

// holderReporter is a lock that reports its holder.
type holderReporter interface {
	IsLocked(ctx context.Context) (bool, error)
	ForceUnlock(ctx context.Context) error
}

// singleHolderLock is a lock with one holder.
type singleHolderLock interface {
	Holder(ctx context.Context) (signalbox.Holder, error)
}

// makeLock is what makes a lock for a process.
type makeLock func(c *callFixture, s []*signalbox.Session) any

func idle(context.Context, signalbox.Lease) error { return nil }

func no[T any](_ T, err error) error { return err }

// drain returns the first error of a sequence.
func drain[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// panics returns the error that do panics with.
func panics(do func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err, _ = v.(error)
		}
	}()
	do()
	return nil
}

func (c *callFixture) must(err error) {
	c.Helper()
	require.NoError(c.T, err)
}

// on makes a call of a lock of the session under test.
func on[L any](make makeLock, do func(c *callFixture, lock L, ctx context.Context) error) prepareCall {
	return func(c *callFixture) preparedCall {
		lock := make(c, c.s).(L)
		return func(ctx context.Context) error { return do(c, lock, ctx) }
	}
}

// leased makes a call that begins with a lease.
func leased[L anyLock](make makeLock, do func(c *callFixture, lock L, lease signalbox.Lease, ctx context.Context) error) prepareCall {
	return func(c *callFixture) preparedCall {
		lock := make(c, c.s).(L)
		lease, err := lock.Lock(context.Background())
		c.must(err)
		time.Sleep(time.Second) // it has its whole lease
		c.lease = lease
		return func(ctx context.Context) error { return do(c, lock, lease, ctx) }
	}
}

// locks returns the calls that every kind of lock has: those of Lock and TryLock, and the Unlock of
// their leases.
func locks(kind string, make makeLock) []testedCall { return sides(kind, make, heldBy(make)) }

// heldBy returns what makes another process hold a lock.
func heldBy(make makeLock) func(*callFixture) {
	return func(c *callFixture) {
		_, err := make(c, c.other).(anyLock).Lock(context.Background())
		c.must(err)
	}
}

// sides is locks for a side of a lock that hold excludes.
func sides(kind string, make makeLock, hold func(*callFixture)) []testedCall {
	return []testedCall{
		{
			name: kind + ".Lock", class: waits, holds: hold,
			ready: on(make, func(_ *callFixture, l anyLock, ctx context.Context) error {
				return no(l.Lock(ctx))
			}),
		},
		{
			name: kind + ".TryLock", class: tries, holds: hold,
			ready: on(make, func(_ *callFixture, l anyLock, ctx context.Context) error {
				return no(l.TryLock(ctx))
			}),
		},
		{
			name: "signalbox.Lease.Unlock of " + kind, class: unlocks,
			ready: leased(make, func(_ *callFixture, _ anyLock, lease signalbox.Lease, _ context.Context) error { return lease.Unlock() }),
		},
	}
}

// doLocks returns the calls of a lock that runs functions and makes Lockers.
func doLocks(kind string, make makeLock) []testedCall {
	all := locks(kind, make)
	return append(all,
		testedCall{
			name: kind + ".Do", class: waits, holds: all[0].holds,
			ready: on(make, func(_ *callFixture, l doLock, ctx context.Context) error {
				return l.Do(ctx, idle)
			}),
		},
		testedCall{
			name: kind + ".Do while fn runs", class: unlocks, inside: true,
			ready: on(make, func(c *callFixture, l doLock, ctx context.Context) error {
				return l.Do(ctx, func(context.Context, signalbox.Lease) error {
					c.causeFault()
					return nil
				})
			}),
		},
		testedCall{name: "signalbox.Lease.Unlock beside another of " + kind, class: inner, ready: func(c *callFixture) preparedCall {
			l := make(c, c.s).(doLock)
			first, err := l.Lock(context.Background())
			c.must(err)
			second, err := l.Lock(first.Enter(context.Background()))
			c.must(err)
			return func(context.Context) error { return second.Unlock() }
		}},
		testedCall{
			name: kind + ".Do beside another lease, while fn runs", class: inner, inside: true,
			ready: leased(make, func(
				c *callFixture, l doLock, lease signalbox.Lease, _ context.Context,
			) error {
				return l.Do(lease.Enter(context.Background()), func(
					context.Context, signalbox.Lease,
				) error {
					c.causeFault()
					return nil
				})
			}),
		},
		testedCall{
			name: "signalbox.Locker.Lock by " + kind + ".Locker", class: waits, holds: all[0].holds,
			ready: on(make, func(_ *callFixture, l doLock, ctx context.Context) error {
				return panics(l.Locker(ctx).Lock)
			}),
		},
		testedCall{name: "signalbox.Locker.Unlock by " + kind + ".Locker", class: unlocks, ready: func(c *callFixture) preparedCall {
			k := make(c, c.s).(doLock).Locker(context.Background())
			var lost error
			k.OnLost(func(err error) { lost = err })
			k.Lock()
			return func(context.Context) error {
				k.Unlock()
				return lost
			}
		}},
	)
}

// holderReporters returns the calls that ask for the holder of a lock.
func holderReporters(kind string, make makeLock, hold func(*callFixture)) []testedCall {
	all := []testedCall{
		{
			name: kind + ".IsLocked", class: requests, holds: hold,
			ready: on(make, func(_ *callFixture, l holderReporter, ctx context.Context) error {
				return no(l.IsLocked(ctx))
			}),
		},
		{
			name: kind + ".ForceUnlock", class: requests, holds: hold, free: "ErrNotHeld",
			ready: on(make, func(_ *callFixture, l holderReporter, ctx context.Context) error {
				return l.ForceUnlock(ctx)
			}),
		},
	}
	return all
}

func holders(kind string, make makeLock, hold func(*callFixture)) []testedCall {
	return append(holderReporters(kind, make, hold), testedCall{
		name: kind + ".Holder", class: requests, holds: hold, free: "ErrNotHeld",
		ready: on(make, func(_ *callFixture, l singleHolderLock, ctx context.Context) error { return no(l.Holder(ctx)) }),
	})
}
