// SPDX-License-Identifier: Apache-2.0

package proto

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
	ReadKey func(i *Inspection, keyType string)
	// ReadName is ReadKey for a key that the caller calls a lock, and whose type is not known.
	ReadName func(i *Inspection)
}

// The types of keys, as SCAN calls them.
const (
	HashKey   = "hash"
	StringKey = "string"
)

// Inspection finds out what one key is used for. A reader adds queries, whose replies may lead to further queries. They are sent in
// rounds: all inspections of a page send the queries of a round together. One goroutine uses it.
type Inspection struct {
	Key string
	// Names are the keys of the name; not set in a layout of others.
	Names Set
	// WaiterLimit is how many waiters are to be read at most.
	WaiterLimit int

	// Use is what is known of the use so far. Its Kind is that of the reader unless the reader says otherwise.
	Use Use
	// InUse reports that the key is in use, so that Use is valid.
	InUse bool
	// Err is the first error, or nil.
	Err error
	// Queries are those of the next round.
	Queries []Query
}

// Query is a call, and the function that handles the reply.
type Query struct {
	Call    wire.Call
	OnReply func(reply wire.Reply)
}

// Query adds a query to the next round. onReply is not called after an error: a key of another type is then another program's.
func (i *Inspection) Query(call wire.Call, onReply func(reply wire.Reply)) {
	i.Queries = append(i.Queries, Query{call, onReply})
}

// Report says what the key is used for, in place of what was known. Without a report the key is not in use.
func (i *Inspection) Report(use Use) {
	use.HolderCount, use.WaiterCount = len(use.Holders), len(use.Waiters)
	i.Use, i.InUse = use, true
}

// SetForeign makes the key that of another program.
func (i *Inspection) SetForeign() { i.Use.Kind, i.InUse = ForeignUse, true }

// AddHolder adds a holder.
func (i *Inspection) AddHolder(h Holder) {
	i.Use.Holders, i.InUse = append(i.Use.Holders, h), true
	i.Use.HolderCount++
}

// Use is what a key is used for; see the fields of inspect.Entry.
type Use struct {
	// Kind is the name of a kind, or one of the uses below.
	Kind           string
	Since, Until   time.Time
	Token          uint64
	Holders        []Holder
	HolderCount    int
	Waiters        []Waiter
	WaiterCount    int
	Capacity, Held int
	Total, Left    int
	Value          string
	// The state of a group of shards.
	Shards, Unowned, Draining   int
	UnownedSince, DrainingSince time.Time
}

// The uses that are no kinds.
const (
	// ExclusiveUse is a reentrant or a fair lock, if the server does not know which.
	ExclusiveUse = "reentrant or fair"
	// ForeignUse is a key of another program.
	ForeignUse = "foreign"
	// NumberUse is a number that may be a lock, or a counter of another program.
	NumberUse = "number"
)

// MaxHolders is how many holders of a key are read at most, and how many waiters.
const MaxHolders = 1000

// Holder is the holder of a key; see the fields of inspect.Holder, which are the same.
type Holder struct {
	Label, Session, Hold string
	Shared, MayBeIdle    bool
	Permits, Shards      int
	Value                string
	Leaving              bool
	Since, Until         time.Time
	Token                uint64
}

// Waiter is a ticket in the queue of a key; see the fields of inspect.Waiter, which are the same.
type Waiter struct {
	Label, Session string
	Since          time.Time
	Alive, Shared  bool
	Permits        int
}
