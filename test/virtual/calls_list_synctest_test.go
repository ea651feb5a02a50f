// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/shards"
)

// testedCall is one call of the library that asks a server.
type testedCall struct {
	name   string // the name as "go doc" has it, and what else distinguishes the call from others
	class  callClass
	ready  prepareCall          // prepares the call, on servers that are healthy, and returns it
	holds  func(c *callFixture) // makes another process hold what the call asks for; nil if nothing of the kind can be held
	free   string               // the result if the lock is free; "nil" if empty
	quorum bool                 // asks three servers
	inside bool                 // the fault happens in the midst of the call, which does that itself

	connected bool // ready needs a connection of the session under test
}

// preparedCall is a call that is ready to be made, and prepareCall prepares it.
type (
	preparedCall = func(ctx context.Context) error
	prepareCall  = func(c *callFixture) preparedCall
)

// workFunc is what a call runs with a lease.
type workFunc = func(context.Context, signalbox.Lease) error

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

// makeLock makes what has the name "a" for a process.
type makeLock func(s []*signalbox.Session) any

func newReentrant(s []*signalbox.Session) any { return reentrant.New(s[0], "a") }
func newFair(s []*signalbox.Session) any      { return fair.New(s[0], "a") }
func newRWLock(s []*signalbox.Session) any    { return rwlock.New(s[0], "a") }
func newReader(s []*signalbox.Session) any    { return rwlock.New(s[0], "a").Reader() }
func newPermits(s []*signalbox.Session) any   { return semaphore.New(s[0], "a", 2).Permits(2) }
func newSemaphore(s []*signalbox.Session) any { return semaphore.New(s[0], "a", 2) }
func newRedlock(s []*signalbox.Session) any   { return redlock.New(s, "a") }
func newLatch(s []*signalbox.Session) any     { return countdown.New(s[0], "a") }
func newElection(s []*signalbox.Session) any  { return election.New(s[0], "a") }
func newOnce(s []*signalbox.Session) any      { return once.New(s[0], "a") }
func newGroup(s []*signalbox.Session) any     { return shards.New(s[0], "a", shards.Count(2)) }

func newMultilock(s []*signalbox.Session) any {
	locktest.LearnSlots(s[0])
	return multilock.New(reentrant.New(s[0], "a"), fair.New(s[0], "b"))
}

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

// lastOf returns the last error of a sequence.
func lastOf[T any](all iter.Seq2[T, error]) (last error) {
	for _, last = range all {
	}
	return last
}

func (c *callFixture) must(err error) {
	c.Helper()
	require.NoError(c.T, err)
}

// on makes a call of a lock of the session under test.
func on[L any](make makeLock, do func(l L, ctx context.Context) error) prepareCall {
	return func(c *callFixture) preparedCall {
		l := make(c.s).(L)
		return func(ctx context.Context) error { return do(l, ctx) }
	}
}

// during makes a call that runs a function, in which the fault happens.
func during[L any](make makeLock, do func(l L, ctx context.Context, fn workFunc) error) prepareCall {
	return func(c *callFixture) preparedCall {
		l := make(c.s).(L)
		return func(ctx context.Context) error {
			return do(l, ctx, func(context.Context, signalbox.Lease) error {
				c.causeFault()
				return nil
			})
		}
	}
}

// leased makes a call that begins with a lease.
func leased[L anyLock](make makeLock, do func(c *callFixture, l L, lease signalbox.Lease, ctx context.Context) error) prepareCall {
	return func(c *callFixture) preparedCall {
		l := make(c.s).(L)
		lease, err := l.Lock(context.Background())
		c.must(err)
		time.Sleep(time.Second) // it has its whole lease
		c.lease = lease
		return func(ctx context.Context) error { return do(c, l, lease, ctx) }
	}
}

// heldBy returns what makes another process hold a lock.
func heldBy(make makeLock) func(*callFixture) {
	return func(c *callFixture) { c.must(no(make(c.other).(anyLock).Lock(context.Background()))) }
}

// locks returns the calls that every kind of lock has, and the Unlock of their leases. hold makes another process hold what excludes it.
func locks(kind string, make makeLock, hold func(*callFixture)) []testedCall {
	return []testedCall{
		{name: kind + ".Lock", class: waits, holds: hold, ready: on(make, func(l anyLock, ctx context.Context) error { return no(l.Lock(ctx)) })},
		{name: kind + ".TryLock", class: tries, holds: hold, ready: on(make, func(l anyLock, ctx context.Context) error { return no(l.TryLock(ctx)) })},
		{
			name: "signalbox.Lease.Unlock of " + kind, class: unlocks,
			ready: leased(make, func(_ *callFixture, _ anyLock, lease signalbox.Lease, _ context.Context) error { return lease.Unlock() }),
		},
	}
}

// doLocks returns the calls of a lock that runs functions and makes Lockers.
func doLocks(kind string, make makeLock) []testedCall {
	hold := heldBy(make)
	return append(locks(kind, make, hold),
		testedCall{name: kind + ".Do", class: waits, holds: hold, ready: on(make, func(l doLock, ctx context.Context) error { return l.Do(ctx, idle) })},
		testedCall{
			name: kind + ".Do while fn runs", class: unlocks, inside: true,
			ready: during(make, func(l doLock, ctx context.Context, fn workFunc) error { return l.Do(ctx, fn) }),
		},
		testedCall{name: "signalbox.Lease.Unlock beside another of " + kind, class: inner, ready: func(c *callFixture) preparedCall {
			l := make(c.s).(doLock)
			first, err := l.Lock(context.Background())
			c.must(err)
			second, err := l.Lock(first.Enter(context.Background()))
			c.must(err)
			return func(context.Context) error { return second.Unlock() }
		}},
		testedCall{
			name: kind + ".Do beside another lease, while fn runs", class: inner, inside: true,
			ready: leased(make, func(c *callFixture, l doLock, lease signalbox.Lease, _ context.Context) error {
				return l.Do(lease.Enter(context.Background()), func(context.Context, signalbox.Lease) error {
					c.causeFault()
					return nil
				})
			}),
		},
		testedCall{
			name: "signalbox.Locker.Lock by " + kind + ".Locker", class: waits, holds: hold,
			ready: on(make, func(l doLock, ctx context.Context) error { return locktest.PanicOf(l.Locker(ctx).Lock) }),
		},
		testedCall{name: "signalbox.Locker.Unlock by " + kind + ".Locker", class: unlocks, ready: func(c *callFixture) preparedCall {
			k := make(c.s).(doLock).Locker(context.Background())
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
func holderReporters(kind string, make makeLock) []testedCall {
	hold := heldBy(make)
	return []testedCall{
		{name: kind + ".IsLocked", class: requests, holds: hold, ready: on(make, func(l holderReporter, ctx context.Context) error { return no(l.IsLocked(ctx)) })},
		{name: kind + ".ForceUnlock", class: requests, holds: hold, free: "ErrNotHeld", ready: on(make, holderReporter.ForceUnlock)},
	}
}

func holders(kind string, make makeLock) []testedCall {
	type reporter interface {
		Holder(ctx context.Context) (signalbox.Holder, error)
	}
	return append(holderReporters(kind, make), testedCall{
		name: kind + ".Holder", class: requests, holds: heldBy(make), free: "ErrNotHeld",
		ready: on(make, func(l reporter, ctx context.Context) error { return no(l.Holder(ctx)) }),
	})
}

// calls returns all of them.
func calls() []testedCall {
	all := slices.Concat(
		doLocks("reentrant.Lock", newReentrant), doLocks("fair.Lock", newFair), doLocks("rwlock.Lock", newRWLock), doLocks("multilock.Lock", newMultilock),
		locks("rwlock.Reader", newReader, heldBy(newRWLock)), locks("semaphore.Permits", newPermits, heldBy(newPermits)),
		holders("reentrant.Lock", newReentrant), holders("fair.Lock", newFair), holderReporters("rwlock.Lock", newRWLock),
		rwlocks(), semaphores(), latches(), elections(), groups(), inspections(), onces(),
	)
	for _, c := range slices.Concat(doLocks("redlock.Lock", newRedlock), holders("redlock.Lock", newRedlock)) {
		c.quorum = true
		all = append(all, c)
	}
	all = append(all,
		testedCall{name: "fair.Lock.Waiters", class: requests, holds: heldBy(newFair), ready: on(newFair, func(l *fair.Lock, ctx context.Context) error {
			return drain(l.Waiters(ctx))
		})},
		testedCall{name: "reentrant.Lock.Waiters", class: requests, holds: heldBy(newReentrant), ready: on(newReentrant, func(l *reentrant.Lock, ctx context.Context) error {
			return drain(l.Waiters(ctx))
		})},
		testedCall{name: "signalbox.Session.Ping", class: requests, ready: func(c *callFixture) preparedCall { return c.s[0].Ping }},
		testedCall{name: "signalbox.Session.Close", class: leaves, ready: leased(newReentrant, func(c *callFixture, _ anyLock, _ signalbox.Lease, ctx context.Context) error {
			return c.s[0].Close(ctx)
		})},
	)
	for i := range all {
		if all[i].free == "" {
			all[i].free = "nil"
		}
	}
	return all
}

func rwlocks() []testedCall {
	type lock = *rwlock.Lock
	hold := heldBy(newRWLock)
	return []testedCall{
		{name: "rwlock.Lock.RLock", class: waits, holds: hold, ready: on(newRWLock, func(l lock, ctx context.Context) error { return no(l.RLock(ctx)) })},
		{name: "rwlock.Lock.TryRLock", class: tries, holds: hold, ready: on(newRWLock, func(l lock, ctx context.Context) error { return no(l.TryRLock(ctx)) })},
		{name: "rwlock.Lock.RDo", class: waits, holds: hold, ready: on(newRWLock, func(l lock, ctx context.Context) error { return l.RDo(ctx, idle) })},
		{name: "rwlock.Lock.RDo while fn runs", class: unlocks, inside: true, ready: during(newRWLock, lock.RDo)},
		{
			name: "signalbox.Locker.Lock by rwlock.Lock.RLocker", class: waits, holds: hold,
			ready: on(newRWLock, func(l lock, ctx context.Context) error { return locktest.PanicOf(l.RLocker(ctx).Lock) }),
		},
		{name: "rwlock.Lock.Downgrade", class: requests, connected: true, ready: leased(newRWLock, func(_ *callFixture, l lock, lease signalbox.Lease, ctx context.Context) error {
			return l.Downgrade(ctx, lease)
		})},
		{name: "rwlock.Lock.Holders", class: requests, holds: hold, ready: on(newRWLock, func(l lock, ctx context.Context) error { return drain(l.Holders(ctx)) })},
	}
}

var errFalse = errors.New("it returned false")

func semaphores() []testedCall {
	type permits = *semaphore.Semaphore
	hold := heldBy(newPermits)
	call := func(name string, class callClass, do func(m permits, ctx context.Context) error) testedCall {
		return testedCall{name: "semaphore." + name, class: class, holds: hold, ready: on(newSemaphore, do)}
	}
	return []testedCall{
		call("Semaphore.Acquire", waits, func(m permits, ctx context.Context) error { return no(m.Acquire(ctx, 1)) }),
		call("Semaphore.TryAcquire", tries, func(m permits, ctx context.Context) error { return no(m.TryAcquire(ctx, 1)) }),
		call("Semaphore.Do", waits, func(m permits, ctx context.Context) error { return m.Do(ctx, 1, idle) }),
		call("Semaphore.Available", requests, func(m permits, ctx context.Context) error { return no(m.Available(ctx)) }),
		call("Semaphore.SetCapacity", requests, func(m permits, ctx context.Context) error { return m.SetCapacity(ctx, 3) }),
		call("Semaphore.Holders", requests, func(m permits, ctx context.Context) error { return drain(m.Holders(ctx)) }),
		call("Weighted.Acquire", waits, func(m permits, ctx context.Context) error { return m.Weighted(ctx).Acquire(ctx, 1) }),
		call("Weighted.TryAcquire", guesses, func(m permits, ctx context.Context) error {
			if !m.Weighted(ctx).TryAcquire(1) {
				return errFalse
			}
			return nil
		}),
		{
			name: "semaphore.Semaphore.Do while fn runs", class: unlocks, inside: true,
			ready: during(newSemaphore, func(m permits, ctx context.Context, fn workFunc) error { return m.Do(ctx, 1, fn) }),
		},
		{name: "semaphore.Weighted.Release", class: unlocks, ready: func(c *callFixture) preparedCall {
			w := semaphore.New(c.s[0], "a", 2).Weighted(context.Background())
			var lost error
			w.OnLost(func(err error) { lost = err })
			c.must(w.Acquire(context.Background(), 1))
			return func(context.Context) error {
				w.Release(1)
				return lost
			}
		}},
	}
}

func latches() []testedCall {
	// started makes a call of a round of which two ids are missing.
	started := func(do func(l *countdown.Latch, r countdown.Round, ctx context.Context) error) prepareCall {
		return func(c *callFixture) preparedCall {
			first, err := countdown.New(c.other[0], "a").Start(context.Background(), 2)
			c.must(err)
			l := countdown.New(c.s[0], "a")
			return func(ctx context.Context) error { return do(l, l.RoundOf(first.ID()), ctx) }
		}
	}
	return []testedCall{
		{name: "countdown.Latch.Start", class: insists, ready: on(newLatch, func(l *countdown.Latch, ctx context.Context) error { return no(l.Start(ctx, 2)) })},
		{name: "countdown.Latch.Reset", class: insists, ready: started(func(l *countdown.Latch, _ countdown.Round, ctx context.Context) error { return l.Reset(ctx) })},
		{name: "countdown.Latch.Round", class: requests, ready: started(func(l *countdown.Latch, _ countdown.Round, ctx context.Context) error { return no(l.Round(ctx)) })},
		{name: "countdown.Round.Count", class: requests, ready: started(func(_ *countdown.Latch, r countdown.Round, ctx context.Context) error { return no(r.Count(ctx)) })},
		{name: "countdown.Round.CountDown", class: insists, ready: started(func(_ *countdown.Latch, r countdown.Round, ctx context.Context) error {
			return no(r.CountDown(ctx, "id"))
		})},
		{name: "countdown.Round.Wait", class: listens, ready: started(func(_ *countdown.Latch, r countdown.Round, ctx context.Context) error { return r.Wait(ctx) })},
	}
}

// elections returns the calls of an election and its terms.
func elections() []testedCall {
	type candidate = *election.Election
	hold := func(c *callFixture) { c.must(no(election.New(c.other[0], "a").Campaign(context.Background()))) }
	leading := func(do func(term election.Term, ctx context.Context) error) prepareCall {
		return func(c *callFixture) preparedCall {
			term, err := election.New(c.s[0], "a").Campaign(context.Background())
			c.must(err)
			return func(ctx context.Context) error { return do(term, ctx) }
		}
	}
	call := func(name string, class callClass, do func(e candidate, ctx context.Context) error) testedCall {
		return testedCall{name: "election.Election." + name, class: class, holds: hold, ready: on(newElection, do)}
	}
	callbacks := call("RunCallbacks", listens, func(e candidate, ctx context.Context) error {
		return e.RunCallbacks(ctx, election.Callbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}})
	})
	callbacks.holds = nil
	leader := call("Leader", requests, func(e candidate, ctx context.Context) error { return no(e.Leader(ctx)) })
	leader.free = "ErrNotHeld"
	handover := call("Handover", requests, func(e candidate, ctx context.Context) error {
		return no(e.Handover(ctx, ""))
	})
	handover.free = "ErrNotHeld"
	handover.holds = nil
	return []testedCall{
		handover,
		call("Campaign", waits, func(e candidate, ctx context.Context) error { return no(e.Campaign(ctx)) }),
		call("Run", waits, func(e candidate, ctx context.Context) error {
			return e.Run(ctx, func(context.Context, election.Term) error { return nil })
		}),
		callbacks, leader, call("Health", requests, candidate.Health),
		call("Observe", listens, func(e candidate, ctx context.Context) error { return lastOf(e.Observe(ctx)) }),
		{name: "election.Term.Resign", class: unlocks, ready: leading(func(term election.Term, _ context.Context) error { return term.Resign() })},
		{name: "election.Term.SetValue", class: writes, ready: leading(func(term election.Term, ctx context.Context) error { return term.SetValue(ctx, "x") })},
	}
}

// inspections returns the calls of package inspect.
func inspections() []testedCall {
	var seen sync.Map // the entry that was seen, by its scene
	hold := heldBy(newReentrant)
	return []testedCall{
		{name: "inspect.Name", class: requests, holds: hold, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return no(inspect.Name(ctx, c.s[0], "a")) }
		}},
		{name: "inspect.Break", class: requests, holds: hold, free: "ErrNotHeld", ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return inspect.Break(ctx, c.s[0], "a") }
		}},
		{name: "inspect.BreakSeen", class: requests, free: "ErrNotHeld", holds: func(c *callFixture) {
			hold(c)
			entries, err := inspect.Name(context.Background(), c.other[0], "a")
			c.must(err)
			seen.Store(c, entries[0])
		}, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error {
				entry, held := seen.Load(c)
				if !held {
					entry = inspect.Entry{Name: "a", Kind: inspect.Reentrant}
				}
				return inspect.BreakSeen(ctx, c.s[0], entry.(inspect.Entry))
			}
		}},
	}
}

// onces returns the calls of a once.
func onces() []testedCall {
	do := func(o *once.Once, ctx context.Context, fn workFunc) error {
		_, _, err := o.Do(ctx, func(ctx context.Context, lease signalbox.Lease) ([]byte, error) { return []byte("x"), fn(ctx, lease) })
		return err
	}
	stored := func(call func(o *once.Once, ctx context.Context) error) prepareCall {
		return func(c *callFixture) preparedCall {
			c.must(doOnce(context.Background(), once.New(c.other[0], "a"), "x", 0).err)
			return on(newOnce, call)(c)
		}
	}
	run := func(o *once.Once, ctx context.Context) error { return do(o, ctx, idle) }
	return []testedCall{
		{name: "once.Once.Do", class: waits, holds: heldBy(newFair), ready: on(newOnce, run)},
		{name: "once.Once.TryDo", class: tries, holds: heldBy(newFair), ready: on(newOnce, func(o *once.Once, ctx context.Context) error {
			_, _, err := o.TryDo(ctx, func(context.Context, signalbox.Lease) ([]byte, error) { return nil, nil })
			return err
		})},
		{name: "once.Once.Holder", class: requests, holds: heldBy(newFair), free: "ErrNotHeld", ready: on(newOnce, func(o *once.Once, ctx context.Context) error {
			return no(o.Holder(ctx))
		})},
		{name: "once.Once.Do while fn runs", class: stores, inside: true, ready: during(newOnce, do)},
		{name: "once.Once.Do of a stored outcome", class: insists, ready: stored(run)},
		{name: "once.Once.Get", class: insists, ready: stored(func(o *once.Once, ctx context.Context) error {
			_, _, err := o.Get(ctx)
			return err
		})},
		{name: "once.Once.Forget", class: insists, ready: stored((*once.Once).Forget)},
	}
}

// groups returns the calls of a group and of its members.
func groups() []testedCall {
	type group = *shards.Group
	joins := func(set shards.Set) func(*callFixture) { // makes another process the only member
		return func(c *callFixture) {
			m, err := shards.New(c.other[0], "a", set).Join(context.Background())
			c.must(err)
			go locktest.TakeUp(m)
			time.Sleep(5 * time.Second) // its first polls; a new group grants nothing for two seconds
		}
	}
	hold := joins(shards.Count(2))
	asks := func(name string, do func(g group, ctx context.Context) error) testedCall {
		return testedCall{name: "shards.Group." + name, class: requests, holds: hold, free: "ErrNotHeld", ready: on(newGroup, do)}
	}
	beside := func(set shards.Set, do func(g group, ctx context.Context) error) prepareCall {
		return func(c *callFixture) preparedCall {
			joins(set)(c)
			return on(newGroup, do)(c)
		}
	}
	member := func(name string, class callClass, do func(m *shards.Member, ctx context.Context) error) testedCall {
		return testedCall{name: "shards.Member." + name, class: class, ready: func(c *callFixture) preparedCall {
			m, err := newGroup(c.s).(group).Join(context.Background())
			c.must(err)
			go locktest.TakeUp(m)
			time.Sleep(20 * time.Second) // it has its whole lease, and both shards
			return func(ctx context.Context) error { return do(m, ctx) }
		}}
	}
	return []testedCall{
		{name: "shards.Group.Join", class: insists, ready: on(newGroup, func(g group, ctx context.Context) error { return no(g.Join(ctx)) })},
		{name: "shards.Group.Run", class: listens, ready: on(newGroup, func(g group, ctx context.Context) error {
			return g.Run(ctx, func(ctx context.Context, _ shards.Shard) error { return ctx.Err() })
		})},
		asks("View", func(g group, ctx context.Context) error { return no(g.View(ctx)) }),
		asks("Owner", func(g group, ctx context.Context) error { return no(g.Owner(ctx, "0")) }),
		asks("Health", group.Health),
		{name: "shards.Group.Move", class: requests, holds: hold, free: "ErrNotHeld", ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return newGroup(c.s).(group).Move(ctx, "0", c.other[0].ID()) }
		}},
		{name: "shards.Group.Watch", class: listens, ready: on(newGroup, func(g group, ctx context.Context) error { return lastOf(g.Watch(ctx)) })},
		{name: "shards.Group.Resize", class: insists, ready: beside(shards.Count(2), func(g group, ctx context.Context) error { return g.Resize(ctx, 2) })},
		{name: "shards.Group.Sync", class: insists, ready: beside(shards.Names(), func(g group, ctx context.Context) error { return g.Sync(ctx, []string{"x"}) })},
		member("SetWeight", sets, func(m *shards.Member, ctx context.Context) error { return m.SetWeight(ctx, 2) }),
		member("SetValue", sets, func(m *shards.Member, ctx context.Context) error { return m.SetValue(ctx, "b") }),
		member("Leave", parts, (*shards.Member).Leave),
	}
}
