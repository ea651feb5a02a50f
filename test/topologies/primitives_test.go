// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/test/kit"
)

// locker is what the plain suite asks of a primitive.
type locker interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
	TryLock(ctx context.Context) (signalbox.Lease, error)
	Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error
	Holder(ctx context.Context) (signalbox.Holder, error)
	IsLocked(ctx context.Context) (bool, error)
	ForceUnlock(ctx context.Context) error
}

// primitive is one kind of lock.
type primitive struct {
	name string
	make func(s *signalbox.Session, name string, options ...signalbox.LockOption) locker
}

// primitives are those that the suite runs with.
func primitives() []primitive {
	return []primitive{
		{"reentrant", of(reentrant.New)},
		{"fair", of(fair.New)},
		{"rwlock", of(kit.NewWrites)},
	}
}

// of makes one function of every primitive's New.
func of[L locker](make func(*signalbox.Session, string, ...signalbox.LockOption) L) func(
	*signalbox.Session, string, ...signalbox.LockOption) locker {
	return func(s *signalbox.Session, name string, options ...signalbox.LockOption) locker {
		return make(s, name, options...)
	}
}
