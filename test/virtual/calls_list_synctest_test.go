// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

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

// call is one call of the library that asks a server.
type call struct {
	name  string // as "go doc" has it, and what else distinguishes it from others
	class class
	// ready prepares the call, on servers that are healthy, and returns it.
	ready ready
	// hold makes another process hold what the call asks for; nil if nothing of the kind can be
	// held.
	hold   func(e *scene)
	free   string // what it returns if the lock is free; "nil" if empty
	quorum bool   // asks three servers
	inside bool   // the fault strikes in the midst of the call, which does that itself
}

// made is a call that is ready to be made.
type made = func(ctx context.Context) error

// ready prepares a call.
type ready = func(e *scene) made

// lockable is what all locks have in common.
type lockable interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
	TryLock(ctx context.Context) (signalbox.Lease, error)
}

// doer is a lock that runs a function.
type doer interface {
	lockable
	Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error
	Locker(ctx context.Context) *signalbox.Locker
}

// told is a lock that reports its holder.
type told interface {
	IsLocked(ctx context.Context) (bool, error)
	ForceUnlock(ctx context.Context) error
}

// holderOf is a lock with one holder.
type holderOf interface {
	Holder(ctx context.Context) (signalbox.Holder, error)
}

// of is what makes a lock for a process.
type of func(e *scene, s []*signalbox.Session) any

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

func (e *scene) must(err error) {
	e.Helper()
	require.NoError(e.T, err)
}

// on makes a call of a lock of the session under test.
func on[L any](make of, do func(e *scene, lock L, ctx context.Context) error) ready {
	return func(e *scene) made {
		lock := make(e, e.s).(L)
		return func(ctx context.Context) error { return do(e, lock, ctx) }
	}
}

// leased makes a call that begins with a lease.
func leased[L lockable](make of, do func(e *scene, lock L, lease signalbox.Lease, ctx context.Context) error) ready {
	return func(e *scene) made {
		lock := make(e, e.s).(L)
		lease, err := lock.Lock(context.Background())
		e.must(err)
		time.Sleep(time.Second) // it has its whole lease
		e.lease = lease
		return func(ctx context.Context) error { return do(e, lock, lease, ctx) }
	}
}

// locks returns the calls that every kind of lock has: those of Lock and TryLock, and the Unlock of
// their leases.
func locks(kind string, make of) []call { return sides(kind, make, heldBy(make)) }

// heldBy returns what makes another process hold a lock.
func heldBy(make of) func(*scene) {
	return func(e *scene) {
		_, err := make(e, e.other).(lockable).Lock(context.Background())
		e.must(err)
	}
}

// sides is locks for a side of a lock that hold excludes.
func sides(kind string, make of, hold func(*scene)) []call {
	return []call{
		{
			name: kind + ".Lock", class: waits, hold: hold,
			ready: on(make, func(_ *scene, l lockable, ctx context.Context) error {
				return no(l.Lock(ctx))
			}),
		},
		{
			name: kind + ".TryLock", class: tries, hold: hold,
			ready: on(make, func(_ *scene, l lockable, ctx context.Context) error {
				return no(l.TryLock(ctx))
			}),
		},
		{
			name: "signalbox.Lease.Unlock of " + kind, class: unlocks,
			ready: leased(make, func(_ *scene, _ lockable, lease signalbox.Lease, _ context.Context) error { return lease.Unlock() }),
		},
	}
}

// dos returns the calls of a lock that runs functions and makes Lockers.
func dos(kind string, make of) []call {
	all := locks(kind, make)
	return append(all,
		call{
			name: kind + ".Do", class: waits, hold: all[0].hold,
			ready: on(make, func(_ *scene, l doer, ctx context.Context) error {
				return l.Do(ctx, idle)
			}),
		},
		call{
			name: kind + ".Do while fn runs", class: unlocks, inside: true,
			ready: on(make, func(e *scene, l doer, ctx context.Context) error {
				return l.Do(ctx, func(context.Context, signalbox.Lease) error {
					e.strike()
					return nil
				})
			}),
		},
		call{name: "signalbox.Lease.Unlock beside another of " + kind, class: inner, ready: func(e *scene) made {
			l := make(e, e.s).(doer)
			first, err := l.Lock(context.Background())
			e.must(err)
			second, err := l.Lock(first.Enter(context.Background()))
			e.must(err)
			return func(context.Context) error { return second.Unlock() }
		}},
		call{
			name: kind + ".Do beside another lease, while fn runs", class: inner, inside: true,
			ready: leased(make, func(
				e *scene, l doer, lease signalbox.Lease, _ context.Context,
			) error {
				return l.Do(lease.Enter(context.Background()), func(
					context.Context, signalbox.Lease,
				) error {
					e.strike()
					return nil
				})
			}),
		},
		call{
			name: "signalbox.Locker.Lock by " + kind + ".Locker", class: waits, hold: all[0].hold,
			ready: on(make, func(_ *scene, l doer, ctx context.Context) error {
				return panics(l.Locker(ctx).Lock)
			}),
		},
		call{name: "signalbox.Locker.Unlock by " + kind + ".Locker", class: unlocks, ready: func(e *scene) made {
			k := make(e, e.s).(doer).Locker(context.Background())
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

// tolds returns the calls that ask for the holder of a lock.
func tolds(kind string, make of, hold func(*scene)) []call {
	all := []call{
		{
			name: kind + ".IsLocked", class: asks, hold: hold,
			ready: on(make, func(_ *scene, l told, ctx context.Context) error {
				return no(l.IsLocked(ctx))
			}),
		},
		{
			name: kind + ".ForceUnlock", class: asks, hold: hold, free: "ErrNotHeld",
			ready: on(make, func(_ *scene, l told, ctx context.Context) error {
				return l.ForceUnlock(ctx)
			}),
		},
	}
	return all
}

func holders(kind string, make of, hold func(*scene)) []call {
	return append(tolds(kind, make, hold), call{
		name: kind + ".Holder", class: asks, hold: hold, free: "ErrNotHeld",
		ready: on(make, func(_ *scene, l holderOf, ctx context.Context) error { return no(l.Holder(ctx)) }),
	})
}

func newReentrant(_ *scene, s []*signalbox.Session) any { return reentrant.New(s[0], "a") }
func newFair(_ *scene, s []*signalbox.Session) any      { return fair.New(s[0], "a") }
func newRWLock(_ *scene, s []*signalbox.Session) any    { return rwlock.New(s[0], "a") }
func newReader(_ *scene, s []*signalbox.Session) any    { return rwlock.New(s[0], "a").Reader() }
func newPermits(_ *scene, s []*signalbox.Session) any   { return semaphore.New(s[0], "a", 2).Permits(2) }
func newRedlock(_ *scene, s []*signalbox.Session) any   { return redlock.New(s, "a") }

func newMultilock(_ *scene, s []*signalbox.Session) any {
	locktest.LearnSlots(s[0])
	return multilock.New(reentrant.New(s[0], "a"), fair.New(s[0], "b"))
}

// calls returns all of them.
func calls() []call {
	all := slices.Concat(
		dos("reentrant.Lock", newReentrant), dos("fair.Lock", newFair), dos("rwlock.Lock", newRWLock), dos("multilock.Lock", newMultilock),
		sides("rwlock.Reader", newReader, heldBy(newRWLock)), locks("semaphore.Permits", newPermits),
	)
	all = append(all, holders("reentrant.Lock", newReentrant, heldBy(newReentrant))...)
	all = append(all, holders("fair.Lock", newFair, heldBy(newFair))...)
	all = append(all, tolds("rwlock.Lock", newRWLock, heldBy(newRWLock))...)
	all = append(all, call{name: "fair.Lock.Waiters", class: asks, hold: heldBy(newFair), ready: on(newFair, func(
		_ *scene, l *fair.Lock, ctx context.Context,
	) error {
		return drain(l.Waiters(ctx))
	})})
	all = append(all, call{name: "reentrant.Lock.Waiters", class: asks, hold: heldBy(newReentrant), ready: on(newReentrant, func(
		_ *scene, l *reentrant.Lock, ctx context.Context,
	) error {
		return drain(l.Waiters(ctx))
	})})
	all = append(all, rwlocks()...)
	all = append(all, semaphores()...)
	all = append(all, latches()...)
	all = append(all, elections()...)
	all = append(all, inspections()...)
	all = append(all, onces()...)
	for _, c := range slices.Concat(dos("redlock.Lock", newRedlock), holders("redlock.Lock", newRedlock, heldBy(newRedlock))) {
		c.quorum = true
		all = append(all, c)
	}
	all = append(all, call{name: "signalbox.Session.Close", class: leaves, ready: leased(newReentrant, func(
		e *scene, _ lockable, _ signalbox.Lease, ctx context.Context,
	) error {
		return e.session().Close(ctx)
	})})
	for i := range all {
		if all[i].free == "" {
			all[i].free = "nil"
		}
	}
	return all
}

func rwlocks() []call {
	hold := heldBy(newRWLock)
	return []call{
		{
			name: "rwlock.Lock.RLock", class: waits, hold: hold,
			ready: on(newRWLock, func(_ *scene, l *rwlock.Lock, ctx context.Context) error {
				return no(l.RLock(ctx))
			}),
		},
		{
			name: "rwlock.Lock.TryRLock", class: tries, hold: hold,
			ready: on(newRWLock, func(_ *scene, l *rwlock.Lock, ctx context.Context) error {
				return no(l.TryRLock(ctx))
			}),
		},
		{
			name: "rwlock.Lock.RDo", class: waits, hold: hold,
			ready: on(newRWLock, func(_ *scene, l *rwlock.Lock, ctx context.Context) error {
				return l.RDo(ctx, idle)
			}),
		},
		{
			name: "rwlock.Lock.RDo while fn runs", class: unlocks, inside: true,
			ready: on(newRWLock, func(e *scene, l *rwlock.Lock, ctx context.Context) error {
				return l.RDo(ctx, func(context.Context, signalbox.Lease) error {
					e.strike()
					return nil
				})
			}),
		},
		{
			name: "signalbox.Locker.Lock by rwlock.Lock.RLocker", class: waits, hold: hold,
			ready: on(newRWLock, func(_ *scene, l *rwlock.Lock, ctx context.Context) error {
				return panics(l.RLocker(ctx).Lock)
			}),
		},
		{
			name: "rwlock.Lock.Downgrade", class: asks,
			ready: leased(newRWLock, func(
				_ *scene, l *rwlock.Lock, lease signalbox.Lease, ctx context.Context,
			) error {
				return l.Downgrade(ctx, lease)
			}),
		},
		{
			name: "rwlock.Lock.Holders", class: asks, hold: hold,
			ready: on(newRWLock, func(_ *scene, l *rwlock.Lock, ctx context.Context) error {
				return drain(l.Holders(ctx))
			}),
		},
	}
}

func newSemaphore(_ *scene, s []*signalbox.Session) any { return semaphore.New(s[0], "a", 2) }

var errFalse = errors.New("it returned false")

func semaphores() []call {
	hold := heldBy(newPermits)
	return []call{
		{
			name: "semaphore.Semaphore.Acquire", class: waits, hold: hold,
			ready: on(newSemaphore, func(
				_ *scene, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return no(m.Acquire(ctx, 1))
			}),
		},
		{
			name: "semaphore.Semaphore.TryAcquire", class: tries, hold: hold,
			ready: on(newSemaphore, func(
				_ *scene, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return no(m.TryAcquire(ctx, 1))
			}),
		},
		{
			name: "semaphore.Semaphore.Do", class: waits, hold: hold,
			ready: on(newSemaphore, func(
				_ *scene, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return m.Do(ctx, 1, idle)
			}),
		},
		{
			name: "semaphore.Semaphore.Do while fn runs", class: unlocks, inside: true,
			ready: on(newSemaphore, func(
				e *scene, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return m.Do(ctx, 1, func(context.Context, signalbox.Lease) error {
					e.strike()
					return nil
				})
			}),
		},
		{
			name: "semaphore.Semaphore.Available", class: asks, hold: hold,
			ready: on(newSemaphore, func(
				_ *scene, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return no(m.Available(ctx))
			}),
		},
		{
			name: "semaphore.Semaphore.SetCapacity", class: asks, hold: hold,
			ready: on(newSemaphore, func(
				_ *scene, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return m.SetCapacity(ctx, 3)
			}),
		},
		{
			name: "semaphore.Semaphore.Holders", class: asks, hold: hold,
			ready: on(newSemaphore, func(
				_ *scene, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return drain(m.Holders(ctx))
			}),
		},
		{
			name: "semaphore.Weighted.Acquire", class: waits, hold: hold,
			ready: on(newSemaphore, func(
				_ *scene, m *semaphore.Semaphore, ctx context.Context,
			) error {
				return m.Weighted(ctx).Acquire(ctx, 1)
			}),
		},
		{
			name: "semaphore.Weighted.TryAcquire", class: guesses, hold: hold,
			ready: on(newSemaphore, func(
				_ *scene, m *semaphore.Semaphore, ctx context.Context,
			) error {
				if !m.Weighted(ctx).TryAcquire(1) {
					return errFalse
				}
				return nil
			}),
		},
		{name: "semaphore.Weighted.Release", class: unlocks, ready: func(e *scene) made {
			w := semaphore.New(e.session(), "a", 2).Weighted(context.Background())
			var lost error
			w.OnLost(func(err error) { lost = err })
			e.must(w.Acquire(context.Background(), 1))
			return func(context.Context) error {
				w.Release(1)
				return lost
			}
		}},
	}
}

// started returns a round of the latch of the call, of which n ids are missing.
func started(e *scene, n int) countdown.Round {
	r, err := countdown.New(e.session(), "a").Start(context.Background(), n)
	e.must(err)
	return r
}

func latches() []call {
	round := func(do func(r countdown.Round, ctx context.Context) error) ready {
		return func(e *scene) made {
			r := started(e, 2)
			return func(ctx context.Context) error { return do(r, ctx) }
		}
	}
	return []call{
		{name: "countdown.Latch.Start", class: insists, ready: func(e *scene) made {
			l := countdown.New(e.session(), "a")
			return func(ctx context.Context) error { return no(l.Start(ctx, 2)) }
		}},
		{name: "countdown.Latch.Reset", class: insists, ready: func(e *scene) made {
			started(e, 2)
			l := countdown.New(e.session(), "a")
			return l.Reset
		}},
		{name: "countdown.Latch.Round", class: asks, ready: func(e *scene) made {
			started(e, 2)
			l := countdown.New(e.session(), "a")
			return func(ctx context.Context) error { return no(l.Round(ctx)) }
		}},
		{
			name: "countdown.Round.Count", class: asks,
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
