// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"slices"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

func newReentrant(_ *callFixture, s []*signalbox.Session) any { return reentrant.New(s[0], "a") }
func newFair(_ *callFixture, s []*signalbox.Session) any      { return fair.New(s[0], "a") }
func newRWLock(_ *callFixture, s []*signalbox.Session) any    { return rwlock.New(s[0], "a") }
func newReader(_ *callFixture, s []*signalbox.Session) any    { return rwlock.New(s[0], "a").Reader() }

func newPermits(_ *callFixture, s []*signalbox.Session) any {
	return semaphore.New(s[0], "a", 2).Permits(2)
}
func newRedlock(_ *callFixture, s []*signalbox.Session) any { return redlock.New(s, "a") }

func newMultilock(_ *callFixture, s []*signalbox.Session) any {
	locktest.LearnSlots(s[0])
	return multilock.New(reentrant.New(s[0], "a"), fair.New(s[0], "b"))
}

// calls returns all of them.
func calls() []testedCall {
	all := slices.Concat(
		doLocks("reentrant.Lock", newReentrant), doLocks("fair.Lock", newFair), doLocks("rwlock.Lock", newRWLock), doLocks("multilock.Lock", newMultilock),
		sides("rwlock.Reader", newReader, heldBy(newRWLock)), locks("semaphore.Permits", newPermits),
	)
	all = append(all, holders("reentrant.Lock", newReentrant, heldBy(newReentrant))...)
	all = append(all, holders("fair.Lock", newFair, heldBy(newFair))...)
	all = append(all, holderReporters("rwlock.Lock", newRWLock, heldBy(newRWLock))...)
	all = append(all, testedCall{name: "fair.Lock.Waiters", class: requests, holds: heldBy(newFair), ready: on(newFair, func(
		_ *callFixture, l *fair.Lock, ctx context.Context,
	) error {
		return drain(l.Waiters(ctx))
	})})
	all = append(all, testedCall{name: "reentrant.Lock.Waiters", class: requests, holds: heldBy(newReentrant), ready: on(newReentrant, func(
		_ *callFixture, l *reentrant.Lock, ctx context.Context,
	) error {
		return drain(l.Waiters(ctx))
	})})
	all = append(all, rwlocks()...)
	all = append(all, semaphores()...)
	all = append(all, latches()...)
	all = append(all, elections()...)
	all = append(all, groups()...)
	all = append(all, shardMembers()...)
	all = append(all, inspections()...)
	all = append(all, onces()...)
	for _, c := range slices.Concat(doLocks("redlock.Lock", newRedlock), holders("redlock.Lock", newRedlock, heldBy(newRedlock))) {
		c.quorum = true
		all = append(all, c)
	}
	all = append(all, testedCall{name: "signalbox.Session.Close", class: leaves, ready: leased(newReentrant, func(
		c *callFixture, _ anyLock, _ signalbox.Lease, ctx context.Context,
	) error {
		return c.session().Close(ctx)
	})})
	for i := range all {
		if all[i].free == "" {
			all[i].free = "nil"
		}
	}
	return all
}

func rwlocks() []testedCall {
	hold := heldBy(newRWLock)
	return []testedCall{
		{
			name: "rwlock.Lock.RLock", class: waits, holds: hold,
			ready: on(newRWLock, func(_ *callFixture, l *rwlock.Lock, ctx context.Context) error {
				return no(l.RLock(ctx))
			}),
		},
		{
			name: "rwlock.Lock.TryRLock", class: tries, holds: hold,
			ready: on(newRWLock, func(_ *callFixture, l *rwlock.Lock, ctx context.Context) error {
				return no(l.TryRLock(ctx))
			}),
		},
		{
			name: "rwlock.Lock.RDo", class: waits, holds: hold,
			ready: on(newRWLock, func(_ *callFixture, l *rwlock.Lock, ctx context.Context) error {
				return l.RDo(ctx, idle)
			}),
		},
		{
			name: "rwlock.Lock.RDo while fn runs", class: unlocks, inside: true,
			ready: on(newRWLock, func(c *callFixture, l *rwlock.Lock, ctx context.Context) error {
				return l.RDo(ctx, func(context.Context, signalbox.Lease) error {
					c.causeFault()
					return nil
				})
			}),
		},
		{
			name: "signalbox.Locker.Lock by rwlock.Lock.RLocker", class: waits, holds: hold,
			ready: on(newRWLock, func(_ *callFixture, l *rwlock.Lock, ctx context.Context) error {
				return panics(l.RLocker(ctx).Lock)
			}),
		},
		{
			name: "rwlock.Lock.Downgrade", class: requests,
			ready: leased(newRWLock, func(
				_ *callFixture, l *rwlock.Lock, lease signalbox.Lease, ctx context.Context,
			) error {
				return l.Downgrade(ctx, lease)
			}),
		},
		{
			name: "rwlock.Lock.Holders", class: requests, holds: hold,
			ready: on(newRWLock, func(_ *callFixture, l *rwlock.Lock, ctx context.Context) error {
				return drain(l.Holders(ctx))
			}),
		},
	}
}

func newSemaphore(_ *callFixture, s []*signalbox.Session) any { return semaphore.New(s[0], "a", 2) }

var errFalse = errors.New("it returned false")

func semaphores() []testedCall {
	hold := heldBy(newPermits)
	return []testedCall{
		{
			name: "semaphore.Semaphore.Acquire", class: waits, holds: hold,
			ready: on(newSemaphore, func(
				_ *callFixture, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return no(m.Acquire(ctx, 1))
			}),
		},
		{
			name: "semaphore.Semaphore.TryAcquire", class: tries, holds: hold,
			ready: on(newSemaphore, func(
				_ *callFixture, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return no(m.TryAcquire(ctx, 1))
			}),
		},
		{
			name: "semaphore.Semaphore.Do", class: waits, holds: hold,
			ready: on(newSemaphore, func(
				_ *callFixture, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return m.Do(ctx, 1, idle)
			}),
		},
		{
			name: "semaphore.Semaphore.Do while fn runs", class: unlocks, inside: true,
			ready: on(newSemaphore, func(
				c *callFixture, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return m.Do(ctx, 1, func(context.Context, signalbox.Lease) error {
					c.causeFault()
					return nil
				})
			}),
		},
		{
			name: "semaphore.Semaphore.Available", class: requests, holds: hold,
			ready: on(newSemaphore, func(
				_ *callFixture, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return no(m.Available(ctx))
			}),
		},
		{
			name: "semaphore.Semaphore.SetCapacity", class: requests, holds: hold,
			ready: on(newSemaphore, func(
				_ *callFixture, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return m.SetCapacity(ctx, 3)
			}),
		},
		{
			name: "semaphore.Semaphore.Holders", class: requests, holds: hold,
			ready: on(newSemaphore, func(
				_ *callFixture, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return drain(m.Holders(ctx))
			}),
		},
		{
			name: "semaphore.Weighted.Acquire", class: waits, holds: hold,
			ready: on(newSemaphore, func(
				_ *callFixture, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return m.Weighted(ctx).Acquire(ctx, 1)
			}),
		},
		{
			name: "semaphore.Weighted.TryAcquire", class: guesses, holds: hold,
			ready: on(newSemaphore, func(
				_ *callFixture, m *semaphore.Semaphore, ctx context.Context,
			) error {
				if !m.Weighted(ctx).TryAcquire(1) {
					return errFalse
				}
				return nil
			}),
		},
		{name: "semaphore.Weighted.Release", class: unlocks, ready: func(c *callFixture) preparedCall {
			w := semaphore.New(c.session(), "a", 2).Weighted(context.Background())
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

// started returns a round of the latch of the call, of which n ids are missing.
func started(c *callFixture, n int) countdown.Round {
	r, err := countdown.New(c.session(), "a").Start(context.Background(), n)
	c.must(err)
	return r
}

func latches() []testedCall {
	round := func(do func(r countdown.Round, ctx context.Context) error) prepareCall {
		return func(c *callFixture) preparedCall {
			r := started(c, 2)
			return func(ctx context.Context) error { return do(r, ctx) }
		}
	}
	return []testedCall{
		{name: "countdown.Latch.Start", class: insists, ready: func(c *callFixture) preparedCall {
			l := countdown.New(c.session(), "a")
			return func(ctx context.Context) error { return no(l.Start(ctx, 2)) }
		}},
		{name: "countdown.Latch.Reset", class: insists, ready: func(c *callFixture) preparedCall {
			started(c, 2)
			l := countdown.New(c.session(), "a")
			return l.Reset
		}},
		{name: "countdown.Latch.Round", class: requests, ready: func(c *callFixture) preparedCall {
			started(c, 2)
			l := countdown.New(c.session(), "a")
			return func(ctx context.Context) error { return no(l.Round(ctx)) }
		}},
		{
			name: "countdown.Round.Count", class: requests,
			ready: round(func(r countdown.Round, ctx context.Context) error {
				return no(r.Count(ctx))
			}),
		},
		{
			name: "countdown.Round.CountDown", class: insists,
			ready: round(func(r countdown.Round, ctx context.Context) error {
				return no(r.CountDown(ctx, "id"))
			}),
		},
		{
			name: "countdown.Round.Wait", class: listens,
			ready: round(func(r countdown.Round, ctx context.Context) error {
				return r.Wait(ctx)
			}),
		},
	}
}
