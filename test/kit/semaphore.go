// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/semaphore"
)

// Permit is a semaphore of one permit: a lock.
func Permit() Primitive {
	return Primitive{"semaphore", func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock {
		return permit{semaphore.New(s, name, 1, options...)}
	}}
}

// permit has the methods of a lock.
type permit struct{ sem *semaphore.Semaphore }

// Lock takes the permit.
func (p permit) Lock(ctx context.Context) (signalbox.Lease, error) { return p.sem.Acquire(ctx, 1) }

// TryLock tries to.
func (p permit) TryLock(ctx context.Context) (signalbox.Lease, error) {
	return p.sem.TryAcquire(ctx, 1)
}
