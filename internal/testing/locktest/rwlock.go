// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/rwlock"
)

// rw is what the sides embed: a field that is called Lock would hide the method.
type rw = rwlock.Lock

// Reads is a read-write lock whose Lock, TryLock and Do are those of readers.
type Reads struct{ *rw }

// Lock is RLock.
func (r Reads) Lock(ctx context.Context) (signalbox.Lease, error) { return r.RLock(ctx) }

// TryLock is TryRLock.
func (r Reads) TryLock(ctx context.Context) (signalbox.Lease, error) { return r.TryRLock(ctx) }

// Do is RDo.
func (r Reads) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return r.RDo(ctx, fn)
}

// Locker is RLocker.
func (r Reads) Locker(ctx context.Context) *signalbox.Locker { return r.RLocker(ctx) }

// Writes is a read-write lock with a Holder method, as locks with one holder at a time have it.
type Writes struct{ *rw }

// NewWrites returns the lock of that name.
func NewWrites(s *signalbox.Session, name string, options ...signalbox.LockOption) Writes {
	return Writes{rwlock.New(s, name, options...)}
}

// Holder returns the first of Holders, or ErrNotHeld.
func (w Writes) Holder(ctx context.Context) (signalbox.Holder, error) {
	for h, err := range w.Holders(ctx) {
		return h, err
	}
	return signalbox.Holder{}, signalbox.ErrNotHeld
}
