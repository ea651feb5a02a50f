// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Kind is all that others must know of a kind of lock. Each kind has a value, in a file of its own, and it is a row of All. It is never
// written to. What reads a kind must not name its own value, which would depend on itself.
type Kind struct {
	// Name is the name of its package.
	Name string
	// Options are the options that it takes, beside those that every kind takes. A default of the session that it does not take is not
	// applied.
	Options Option
	// Lease is how long a lease lasts without a renewal unless an option says otherwise; 0 is DefaultLease.
	Lease time.Duration
	// WholeLease says that a hold has its whole lease before the first renewal, unless an option says otherwise: the work is long, and a
	// short outage at its beginning would end it, or let it run twice.
	WholeLease bool
	// Lost is what an error says that has ended, when a hold has: if it is "", the name of the kind. Release is what errors call the end
	// of a hold by its caller: if it is "", "unlock".
	Lost, Release string
	// InLayout reports whether a layout of others has the kind. If it is nil, none has.
	InLayout func(l *Layout) bool

	// Table describes the holds and the queue in the library's own layout, if the kind has keys for them that no other kind has.
	Table *Table
	// Key returns the key, in the library's own layout, by which a list finds the kind, and Read queries what the key says. Both are
	// nil for a kind whose holds are in the holder key: Reentrant reads that key for all of them.
	Key  func(n Set) string
	Read func(i *Inspection)
	// IsHeld says that a use counts as held though it has no holders.
	IsHeld bool
	// Summary says in a few words what the fields of the kind say. If it is nil, the holders say all.
	Summary func(u *Use) string
}

// DefaultTerm is how long the term of an election lasts without a renewal, and a member of a group of shards.
const DefaultTerm = 15 * time.Second

// All is every kind.
//
//nolint:gochecknoglobals // a constant table
var All = []*Kind{&Reentrant, &Fair, &RWLock, &Semaphore, &Countdown, &Redlock, &Election, &Once, &Shards}

// keptMode is the letter of a reentrant lock that its session may keep while no goroutine uses it, and lettersOfLocks are all letters of
// the reentrant and the fair lock, which are one kind at the server.
const keptMode, lettersOfLocks = "k", "rfkRF"

// kindsByLetter are the kinds of locks by their letters in the holder key. They belong to the key, which several kinds share.
//
//nolint:gochecknoglobals // a constant table
var kindsByLetter = map[string]string{"r": "reentrant", keptMode: "reentrant", "R": "reentrant", "f": "fair", "F": "fair", "w": "rwlock", "q": "redlock", "l": ExclusiveUse}

// KindOf returns the kind with that name, or nil.
func KindOf(name string) *Kind {
	if i := slices.IndexFunc(All, func(k *Kind) bool { return k.Name == name }); i >= 0 {
		return All[i]
	}
	return nil
}

// Takes returns every option that the kind takes, but for a layout.
func (k *Kind) Takes() Option { return k.Options | optionsOfAll }

// Has reports whether a layout has the kind.
func (k *Kind) Has(l *Layout) bool {
	return l == Native() || k.InLayout != nil && k.InLayout(l)
}

// Option names an option of locks, so that a lock knows which it was given. Or joins several.
type Option uint32

// The options. Each has its name in the table below, in the same order.
const (
	OptionRenewedLease Option = 1 << iota
	OptionFixedLease
	OptionMaxHold
	OptionReplicas
	OptionLayout // of others: the layout says which kinds have it
	OptionNative
	OptionExactCapacity
	OptionPlain
	OptionKeep
	OptionFenced
	OptionGreatestLease
	OptionTokenFloor
	OptionStepDown
	OptionValue
	OptionFirstLease
	OptionKeepOutcome
	OptionMaxWaiters
	OptionClass
	OptionLinger
	OptionShardWeight
	OptionShardLimit
	OptionShardValue
	OptionRebalanceDelay
	OptionMoves
	OptionDrainLimit
	OptionRetry
	OptionKeepWarm
	OptionWanted
)

//nolint:gochecknoglobals // a constant table
var optionNames = [...]string{
	"WithRenewedLease", "WithFixedLease", "WithMaxHold", "WithReplicas", "WithLayout", "WithLayout(Native)", "ExactCapacity", "Plain", "Keep",
	"Fenced", "GreatestLease", "WithTokenFloor", "StepDown", "Value", "WithFirstLease", "once.Keep", "WithMaxWaiters", "WithClass", "once.Linger",
	"shards.Weight", "shards.Limit", "shards.Value", "RebalanceDelay", "Moves", "DrainLimit", "Retry", "WithKeepWarm", "WithWanted",
}

const (
	// optionsOfAll are the options that every kind takes.
	optionsOfAll = OptionNative | OptionClass
	// optionsOfLeases are those of kinds whose holds are leases with a token.
	optionsOfLeases = OptionRenewedLease | OptionFirstLease | OptionTokenFloor
	// optionsOfLocks are those of the locks of one server.
	optionsOfLocks = optionsOfLeases | OptionFixedLease | OptionMaxHold | OptionReplicas | OptionMaxWaiters
)

// First returns the first of the options, or 0.
func (o Option) First() Option { return o & -o }

// String returns what errors call the options.
func (o Option) String() string {
	var names []string
	for ; o != 0; o &= o - 1 {
		names = append(names, optionNames[bits.TrailingZeros32(uint32(o))])
	}
	return strings.Join(names, ", ")
}
