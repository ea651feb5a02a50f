// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/semaphore"
)

// semaphoreName is the name of the kind whose keys belong to no lock.
const semaphoreName = "semaphore"

// Permit is a semaphore of one permit: a lock that cannot be entered again.
func Permit() Primitive {
	return Primitive{semaphoreName, func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock {
		return permit{semaphore.New(s, name, 1, options...)}
	}}
}

// sem is what permit embeds, so that it has all methods of a semaphore beside those of a lock.
type sem = semaphore.Semaphore

// permit has the methods of a lock.
type permit struct{ *sem }

// Lock acquires the permit.
func (p permit) Lock(ctx context.Context) (signalbox.Lease, error) { return p.Acquire(ctx, 1) }

// TryLock tries to.
func (p permit) TryLock(ctx context.Context) (signalbox.Lease, error) {
	return p.TryAcquire(ctx, 1)
}

// Do runs fn with the permit.
func (p permit) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return p.sem.Do(ctx, 1, fn)
}
