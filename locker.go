// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"sync"

	"github.com/signalbox-go/signalbox/internal/locker"
)

// Locker is a lock as a sync.Locker, for code that takes one; the locks' method Locker makes it.
// Goroutines that share a Locker exclude each other as with a sync.Mutex, and the whole excludes
// every other holder of the name. It never enters again: a sync.Locker knows no owner, and a
// goroutine that locks twice waits for itself. The zero Locker is of no use.
type Locker locker.Locker

var _ sync.Locker = (*Locker)(nil)

// Lock takes the lock. If a try fails for a reason that may pass, such as an outage of the server or too
// few replicas, Lock logs that to the session's logger (WithLogger), once, and tries again until it
// succeeds.
//
// It panics if waiting cannot help, with an error that wraps ErrBadName, ErrBadOption, ErrClosed,
// ErrWrongKind, ErrDenied, ErrOldServer or ErrCapacity, the error of the context if that has ended, or
// the server's own words if they are none of the above.
func (k *Locker) Lock() { (*locker.Locker)(k).Lock() }

// Unlock gives the lock back. It panics when the Locker is not locked. What it cannot answer, that the
// lease was lost, or that the server did not confirm its release, goes to OnLost.
func (k *Locker) Unlock() { (*locker.Locker)(k).Unlock() }

// OnLost sets what is told of a lease that was lost while it was locked, or whose release was
// not confirmed. It runs on the goroutine that unlocks. nil, and before OnLost is called,
// nobody is told.
func (k *Locker) OnLost(told func(error)) { (*locker.Locker)(k).OnLost(told) }
