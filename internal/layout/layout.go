// SPDX-License-Identifier: Apache-2.0

// Package layout is what locks look like on the server: how their names become keys and channels, what a hold is
// called, and the scripts that know it. Primitives take all of it from here, so that one code speaks several layouts.
//
// # Guarantees
//
//  1. The scripts of a primitive take the same arguments and give the same replies in every layout.
//     A layout without floors ignores the last argument, keep_ms.
//  2. A hold of a layout is never used twice, and tells the session that it is of.
//
// # Not guaranteed
//
// A layout has the primitives that it has: the scripts of the others are nil, and their New refuses it.
package layout

import (
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/scripts"
)

// MaxHold is the length of the longest hold.
const MaxHold = redissonHold

// Layout is one of the layouts. It is never written to.
type Layout struct {
	// Name is what errors call it.
	Name string
	// Names makes keys and channels.
	Names func(in names.Setting, name string) (names.Set, error)
	// Hold makes a fresh hold of a session, the serial-th.
	Hold func(session string, serial uint64) string
	// Session returns the session that a hold is of, as far as that can be told.
	Session func(hold string) string
	// Mark is what waiters say of themselves, where it is the same for all of them; "" is their session. Messages that
	// begin like the mark of a waiter come from its own session, as far as that can be told.
	Mark string
	// Channels says on which channels releases are reported in a cluster: Plain, Plain|Sharded, or, if 0, Sharded alone.
	Channels Variant
	// Describe tells who has a lock.
	Describe *scripts.Script
	// The kinds of locks that the layout has; nil are those that it has not.
	Lock      *Exclusive // reentrant
	Fair      *Exclusive
	RWLock    *RWLock
	Semaphore *Semaphore
	Plain     *Semaphore // without owners, and leases but for those of this library
	Latch     *Latch
}
