// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/rwlock"
)

// rw is what the sides embed: a field that is called Lock would hide the method.
type rw = rwlock.Lock

// ReadLocker is a read-write lock whose Lock, TryLock and Do are those of readers.
type ReadLocker struct{ *rw }

// Lock is RLock.
func (r ReadLocker) Lock(ctx context.Context) (signalbox.Lease, error) { return r.RLock(ctx) }

// TryLock is TryRLock.
func (r ReadLocker) TryLock(ctx context.Context) (signalbox.Lease, error) { return r.TryRLock(ctx) }

// Do is RDo.
func (r ReadLocker) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return r.RDo(ctx, fn)
}

// Locker is RLocker.
func (r ReadLocker) Locker(ctx context.Context) *signalbox.Locker { return r.RLocker(ctx) }

// WriteLocker is a read-write lock with a Holder method, as locks with one holder at a time have it.
type WriteLocker struct{ *rw }

// NewWriteLocker returns the lock of that name.
func NewWriteLocker(s *signalbox.Session, name string, options ...signalbox.LockOption) WriteLocker {
	return WriteLocker{rwlock.New(s, name, options...)}
}

// Holder returns the first of Holders, or ErrNotHeld.
func (w WriteLocker) Holder(ctx context.Context) (signalbox.Holder, error) {
	for h, err := range w.Holders(ctx) {
		return h, err
	}
	return signalbox.Holder{}, signalbox.ErrNotHeld
}
