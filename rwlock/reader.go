// SPDX-License-Identifier: Apache-2.0

package rwlock

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Place returns the position of the lock, for writing, in the order of all locks; see package multilock.
func (l *Lock) Place() signalbox.Place { return l.root().Place(kind, session.ExclusiveAccess, nil) }

// Reader is the reading side of a lock with the methods of a lock, for package multilock. The method
// Reader of a Lock makes one; the zero Reader is of no use.
type Reader struct{ lock *Lock }

// Reader returns the reading side of the lock.
func (l *Lock) Reader() Reader { return Reader{l} }

// Lock is RLock of the lock.
func (r Reader) Lock(ctx context.Context) (signalbox.Lease, error) { return r.lock.RLock(ctx) }

// TryLock is TryRLock of the lock.
func (r Reader) TryLock(ctx context.Context) (signalbox.Lease, error) { return r.lock.TryRLock(ctx) }

// Check is Check of the lock.
func (r Reader) Check() error { return r.lock.Check() }

// Place returns the position of the lock, for reading, in the order of all locks.
func (r Reader) Place() signalbox.Place { return r.lock.root().Place(kind, session.SharedAccess, nil) }
