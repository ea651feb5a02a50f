// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// SyncLocker makes a sync.Locker of a lock of any kind. signalbox.Locker is defined over it and says what is promised.
type SyncLocker struct {
	acquire func(context.Context) (Lease, error)
	ctx     context.Context //nolint:containedctx // sync.Locker's methods have no context
	warn    func(error)

	// local is locked from Lock to Unlock, so that the Locker's goroutines exclude each other
	// even if a lease is lost in between. It comes before everything else.
	local sync.Mutex

	acquiredBefore bool // the Locker has acquired the lock before; guarded by local

	mu struct {
		sync.Mutex
		lease  Lease // the lease of the goroutine that has local
		locked bool
		onLost func(error)
	}
}

// NewSyncLocker returns a SyncLocker that acquires the lock with acquire, and calls warn with why it tries again. It
// ignores leases that ctx carries.
func NewSyncLocker(ctx context.Context, warn func(error), acquire func(context.Context) (Lease, error)) *SyncLocker {
	if ctx != nil {
		ctx = WithoutLeases(ctx)
	}
	return &SyncLocker{acquire: acquire, ctx: ctx, warn: warn}
}

// OnLost sets the function that Unlock calls if the lease was lost while the Locker was locked, or
// if its release was not confirmed. It runs on the goroutine that unlocks. By default, and after
// OnLost(nil), no function is called.
func (l *SyncLocker) OnLost(lost func(error)) {
	if l == nil {
		return // its Lock panics
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.onLost = lost
}

// Lock implements sync.Locker.
func (l *SyncLocker) Lock() {
	if l == nil || l.acquire == nil {
		panic(fmt.Errorf("signalbox: a Locker cannot lock: %w: no lock has made it", errs.ErrBadOption))
	}
	l.local.Lock()
	locked := false
	defer func() {
		if !locked { // Lock panics, or a hook or the context has ended the goroutine: other goroutines may lock
			l.local.Unlock()
		}
	}()
	lease, err := l.acquire(l.ctx)
	if err != nil && l.mayRetry(err) {
		l.warn(err)
	}
	for err != nil && l.mayRetry(err) {
		time.Sleep(retryPause) //nolint:forbidigo // sync.Locker has nothing that could end the wait
		lease, err = l.acquire(l.ctx)
	}
	if err != nil {
		panic(fmt.Errorf("signalbox: a Locker cannot lock: %w", err))
	}
	l.acquiredBefore = true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.lease, l.mu.locked, locked = lease, true, true
}

// retryPause is how long a Locker waits before it tries again.
const retryPause = 250 * time.Millisecond

// mayRetry reports whether another try can succeed after err. If not, Lock panics: a sync.Locker has
// no other way to report an error, and would wait for ever.
func (l *SyncLocker) mayRetry(err error) bool {
	is := func(sentinel error) bool { return errors.Is(err, sentinel) }
	switch {
	case l.ctx == nil || l.ctx.Err() != nil:
		return false
	case slices.ContainsFunc(final, is):
		return false
	case slices.ContainsFunc(retryable, is):
		return true
	}
	// All other errors of the server or the network. A right that was there before may come back.
	return wire.Judge(err) != wire.Final || l.acquiredBefore && is(errs.ErrDenied)
}

//nolint:gochecknoglobals // constant tables
var (
	// final are the errors after which no other try can succeed: misuse, an old server, and errors that no
	// Lock returns. Whether a missing right is one of them, Judge says.
	final = []error{
		errs.ErrClosed, errs.ErrBadName, errs.ErrBadOption, errs.ErrWrongKind, errs.ErrOldServer,
		errs.ErrCapacity, errs.ErrUpgrade, errs.ErrNotHeld, errs.ErrReleased, errs.ErrMaxHold,
		errs.ErrRunning, errs.ErrNoRound, errs.ErrRoundOver, errs.ErrReset, errs.ErrRoundLost,
		errs.ErrStale, errs.ErrTooLarge,
	}
	// retryable are the errors after which another try may succeed.
	retryable = []error{
		errs.ErrRefused, errs.ErrHeld, errs.ErrLost, errs.ErrNotReplicated, errs.ErrUnconfirmed, errs.ErrNoReply, errs.ErrBusy,
	}
)

// Unlock implements sync.Locker.
func (l *SyncLocker) Unlock() {
	lease, locked, onLost := l.takeLease()
	if !locked {
		panic(fmt.Errorf("signalbox: unlock of a Locker that is not locked: %w", errs.ErrNotHeld))
	}
	err := lease.Unlock()
	l.local.Unlock()
	if err != nil && onLost != nil {
		onLost(err)
	}
}

// takeLease returns the lease that Unlock is to end, and the function of OnLost. locked reports whether there is
// such a lease.
func (l *SyncLocker) takeLease() (lease Lease, locked bool, onLost func(error)) {
	if l == nil {
		return Lease{}, false, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lease, locked, onLost = l.mu.lease, l.mu.locked, l.mu.onLost
	l.mu.locked = false
	return lease, locked, onLost
}
