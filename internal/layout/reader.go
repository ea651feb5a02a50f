// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Reader reads which keys of a server are locks of a layout of others, and what they are used for. The names are the keys
// there. Package inspect calls it.
type Reader struct {
	// Types are the types of the keys of locks, HashKey or StringKey.
	Types []string
	// ReadKey finds out what a key of one of these types is used for.
	ReadKey func(e Entry, keyType string)
	// ReadName is ReadKey for a key that the caller calls a lock, and whose type is not known.
	ReadName func(e Entry)
}

// The types of keys, as SCAN calls them.
const (
	HashKey   = "hash"
	StringKey = "string"
)

// Entry is one key, of which a Reader reports what it is used for.
type Entry interface {
	// Key returns the key.
	Key() string
	// Query sends a call, and calls onReply with the reply, which may send and report further. It is not called after an
	// error: a key of another type is then reported as another program's.
	Query(call wire.Call, onReply func(reply wire.Reply))
	// Report says what the key is used for, in place of an earlier report. Without a report the key is not in use.
	Report(use Use)
}

// Use is what a key is used for.
type Use struct {
	// Kind is the name of a kind, ExclusiveUse or NumberUse.
	Kind    string
	Holders []Holder
	Waiters []Waiter
	// Capacity and Held are the permits of a semaphore: all, or 0 if the server does not know it, and those that are held.
	Capacity, Held int
}

// The uses that are no kinds.
const (
	// ExclusiveUse is a reentrant or a fair lock, if the server does not know which.
	ExclusiveUse = "reentrant or fair"
	// NumberUse is a number that may be a lock, or a counter of another program.
	NumberUse = "number"
)

// MaxHolders is how many holders of a key are read at most, and how many waiters.
const MaxHolders = 1000

// Holder is the holder of a key; see the fields of inspect.Holder.
type Holder struct {
	Label, Session, Hold string
	Shared               bool
	Permits              int
	Until                time.Time
}

// Waiter is a ticket in the queue of a key; see the fields of inspect.Waiter.
type Waiter struct {
	Label, Session string
	Alive          bool
}
