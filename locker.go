// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"sync"

	"github.com/signalbox-go/signalbox/internal/hold"
)

// Locker is a lock as a sync.Locker, for code that takes one; the locks' method Locker makes it.
// Goroutines that share a Locker exclude each other as with a sync.Mutex, and the whole excludes
// every other holder of the name. It never enters again: a sync.Locker knows no owner, and a
// goroutine that locks twice waits for itself. The zero Locker is of no use.
type Locker opaqueLocker

var _ sync.Locker = (*Locker)(nil)

// Lock takes the lock. If a try fails for a reason that may pass, such as an outage of the server
// or too few replicas, Lock tries again until it succeeds. It logs the first such failure to the
// session's logger (WithLogger).
//
// If waiting cannot help, Lock panics. The error wraps ErrBadName, ErrBadOption, ErrClosed,
// ErrWrongKind, ErrDenied, ErrOldServer, ErrUnsupported or ErrCapacity, or the error of the context if that has
// ended.
func (l *Locker) Lock() { (*hold.SyncLocker)(l).Lock() }

// Unlock releases the lock. It panics if the Locker is not locked. It has no result: OnLost is
// called if the lease was lost, or if the server did not confirm the release.
func (l *Locker) Unlock() { (*hold.SyncLocker)(l).Unlock() }

// OnLost sets the function that Unlock calls if the lease was lost while the Locker was locked, or
// if its release was not confirmed. It runs on the goroutine that unlocks. By default, and after
// OnLost(nil), no function is called.
func (l *Locker) OnLost(lost func(error)) { (*hold.SyncLocker)(l).OnLost(lost) }
