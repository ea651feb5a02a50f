// SPDX-License-Identifier: Apache-2.0

package signalboxtest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/testkit"
)

// Fake is a lock without a server, for unit tests. It has the methods Lock, TryLock and Do of packages reentrant and
// fair. Its leases have tokens that rise, and end by Unlock and by Lose. The contexts of a lease end with it, and that of
// Enter enters the lock again. NewFake makes one. It is safe for concurrent use.
type Fake struct {
	tb   testing.TB
	name string
	lock *testkit.FakeLock
	free *semaphore.Weighted // the holder has its only unit; waiters are served first in, first out

	mu    sync.Mutex
	held  bool           // a caller or another process holds the lock; guarded by mu
	grant *testkit.Grant // the grant of the caller that holds the lock, or nil; guarded by mu
	token uint64         // the last one; guarded by mu
	err   error          // guarded by mu
}

// NewFake returns a free lock. Errors call it name.
func NewFake(tb testing.TB, name string) *Fake {
	tb.Helper()
	return &Fake{tb: tb, name: name, lock: testkit.NewFakeLock(name), free: semaphore.NewWeighted(1)}
}

// Lock acquires the lock. It blocks until the lock is acquired or ctx ends. If ctx carries a lease of this lock
// (Lease.Enter), Lock enters it again.
func (f *Fake) Lock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := f.acquire(ctx)
	return lease, f.explain("lock", err)
}

// TryLock acquires the lock if it is free. Otherwise it returns ErrHeld.
func (f *Fake) TryLock(ctx context.Context) (signalbox.Lease, error) {
	lease, carried, err := f.enter(ctx)
	switch {
	case carried || err != nil:
	case !f.free.TryAcquire(1):
		err = signalbox.ErrHeld
	default:
		lease = f.begin()
	}
	return lease, f.explain("try lock", err)
}

// Do acquires the lock, runs fn and releases the lock. fn's context ends with the lease and carries it. The error is
// fn's, joined with Unlock's.
func (f *Fake) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return f.lock.Do(ctx, f.acquire, fn)
}

// Hold lets another process acquire the lock, and hold it until Release. If it is held already, the test fails.
func (f *Fake) Hold() *Holding {
	f.tb.Helper()
	if !f.free.TryAcquire(1) {
		f.tb.Fatalf("signalboxtest: Hold of %q: it is held already", f.name)
	}
	return f.otherHolder()
}

// Lose takes the lock from its holder, whose lease ends with ErrLost, and gives it to another process, which holds it
// until Release. If the lock is not held, the test fails.
func (f *Fake) Lose() *Holding {
	f.tb.Helper()
	f.mu.Lock()
	grant := f.grant
	f.mu.Unlock()
	if grant == nil || !grant.Lose() {
		f.tb.Fatalf("signalboxtest: Lose of %q: no caller holds it", f.name)
	}
	return f.otherHolder() // a lost grant is not released, so its unit is the other process's now
}

// Fail makes Lock, TryLock and Do return err from now on, such as signalbox.ErrDenied. Fail(nil) ends that. It does not
// concern waiters, leases, and entering again.
func (f *Fake) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// IsHeld reports whether a caller, or the other process of Hold and Lose, has the lock.
func (f *Fake) IsHeld() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// acquire is Lock. Its errors do not name the operation.
func (f *Fake) acquire(ctx context.Context) (signalbox.Lease, error) {
	lease, carried, err := f.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	if err := f.free.Acquire(ctx, 1); err != nil {
		return signalbox.Lease{}, testkit.WhileHeld(ctx)
	}
	return f.begin(), nil
}

// enter enters the lock again if ctx carries a lease of it. Its error is that, or what the call fails with before it
// asks for the lock.
func (f *Fake) enter(ctx context.Context) (lease signalbox.Lease, carried bool, err error) {
	if ctx == nil {
		return signalbox.Lease{}, false, fmt.Errorf("%w: the context is nil", signalbox.ErrBadOption)
	}
	if lease, carried, err = f.lock.Enter(ctx); carried {
		return lease, true, err
	}
	if ctx.Err() != nil {
		return signalbox.Lease{}, false, testkit.Ended(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return signalbox.Lease{}, false, f.err
}

// begin makes the lease of the caller that has acquired the unit.
func (f *Fake) begin() signalbox.Lease {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token++
	grant, lease := f.lock.Grant(f.token, f.release)
	f.held, f.grant = true, grant
	return lease
}

// otherHolder makes the other process that has acquired the unit.
func (f *Fake) otherHolder() *Holding {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token++
	f.held, f.grant = true, nil
	release := sync.OnceFunc(f.release)
	return &Holding{token: f.token, release: func() error {
		release()
		return nil
	}}
}

// release frees the unit, for the next waiter. What the holder left is cleared before, so that nothing of the next
// holder is.
func (f *Fake) release() {
	f.mu.Lock()
	f.held, f.grant = false, nil
	f.mu.Unlock()
	f.free.Release(1)
}

func (f *Fake) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	if of, is := err.(*signalbox.OpError); is { //nolint:errorlint // the outermost one: it names the lock already
		err = of.Err
	}
	return &signalbox.OpError{Op: op, Name: f.name, Err: err}
}
