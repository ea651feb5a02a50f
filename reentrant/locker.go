// SPDX-License-Identifier: Apache-2.0

package reentrant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// Locker is a lock as a sync.Locker, for code that takes one. Goroutines that share a Locker
// exclude each other as with a sync.Mutex, and the whole excludes every other holder of the
// name. It never enters again: a sync.Locker knows no owner, and a goroutine that locks twice
// waits for itself.
//
// Lock waits through an outage of the server. It panics where waiting cannot help: a bad name
// or option, a closed session, a context that has ended, a right that is missing, a name of
// another kind. Unlock panics when the Locker is not locked. What Unlock cannot answer, that
// the lease was lost, or that the server did not confirm its release, goes to OnLost.
type Locker struct {
	lock *Lock
	ctx  context.Context //nolint:containedctx // sync.Locker's methods take none

	// local is locked from Lock to Unlock, so that the Locker's goroutines exclude each other
	// even where a lease is lost in between. It comes before everything else.
	local sync.Mutex

	mu struct {
		sync.Mutex
		lease  signalbox.Lease // of whoever has local
		locked bool
		onLost func(error)
	}
}

// Locker answers the lock as a sync.Locker. ctx bounds every wait of its Lock; leases that it
// carries are left aside.
func (l *Lock) Locker(ctx context.Context) *Locker {
	if ctx != nil {
		ctx = hold.Stranger(ctx)
	}
	return &Locker{lock: l, ctx: ctx}
}

var _ sync.Locker = (*Locker)(nil)

// OnLost sets what is told of a lease that was lost while it was locked, or whose release was
// not confirmed. It runs on the goroutine that unlocks. nil, and before OnLost is called,
// nobody is told.
func (k *Locker) OnLost(told func(error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.onLost = told
}

// Lock implements sync.Locker.
func (k *Locker) Lock() {
	k.local.Lock()
	lease, err := k.lock.Lock(k.ctx)
	for err != nil && k.mayPass(err) {
		time.Sleep(outagePause) //nolint:forbidigo // sync.Locker has nothing that could end the wait
		lease, err = k.lock.Lock(k.ctx)
	}
	if err != nil {
		k.local.Unlock()
		panic(fmt.Errorf("signalbox: a Locker cannot lock: %w", err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.lease, k.mu.locked = lease, true
}

// outagePause is how long a Locker waits before it tries again where the server refuses for a
// reason that may pass: out of memory, a disk that is full.
const outagePause = 250 * time.Millisecond

// mayPass reports whether waiting can mend err.
func (k *Locker) mayPass(err error) bool {
	if k.ctx == nil || k.ctx.Err() != nil {
		return false
	}
	for _, misuse := range []error{
		errs.ErrClosed, errs.ErrBadName, errs.ErrBadOption, errs.ErrWrongKind, errs.ErrDenied, errs.ErrOldServer,
	} {
		if errors.Is(err, misuse) {
			return false
		}
	}
	return true
}

// Unlock implements sync.Locker.
func (k *Locker) Unlock() {
	k.mu.Lock()
	lease, locked, told := k.mu.lease, k.mu.locked, k.mu.onLost
	k.mu.locked = false
	k.mu.Unlock()
	if !locked {
		panic(fmt.Errorf("signalbox: unlock of a Locker that is not locked: %w", errs.ErrNotHeld))
	}
	err := lease.Unlock()
	k.local.Unlock()
	if err != nil && told != nil {
		told(err)
	}
}
