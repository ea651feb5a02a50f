// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

// locker is what the scenarios ask of a primitive.
type locker interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
	TryLock(ctx context.Context) (signalbox.Lease, error)
}

// primitive is one kind of lock.
type primitive struct {
	name    string
	ordered bool // it is given in the order in which it was asked for
	make    func(s *signalbox.Session, name string, options ...signalbox.LockOption) locker
}

// primitives are those that the scenarios strike.
func primitives() []primitive {
	return []primitive{
		{"reentrant", false, of(reentrant.New)},
		{"fair", true, of(fair.New)},
		{"rwlock", true, of(rwlock.New)},
	}
}

// of makes one function of every primitive's New.
func of[L locker](make func(*signalbox.Session, string, ...signalbox.LockOption) L) func(
	*signalbox.Session, string, ...signalbox.LockOption) locker {
	return func(s *signalbox.Session, name string, options ...signalbox.LockOption) locker {
		return make(s, name, options...)
	}
}
