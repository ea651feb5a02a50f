// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"slices"
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
	// InLayout reports whether a layout of others has the kind. If it is nil, none has.
	InLayout func(l *Layout) bool

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
