// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
)

// Side is which right to a lock is meant.
type Access uint8

const (
	// Whole is the lock itself, alone.
	ExclusiveAccess Access = iota
	// Shared is a lock that several can hold at once. Holding the exclusive lock includes it.
	SharedAccess
	// Counted is a part of the lock of which one can have several.
	PermitAccess
)

// Place is the position of a lock in the order of all locks; signalbox.Place is defined over it. The zero
// Place belongs to no lock.
type Place struct {
	Session *Session
	Slot    uint16 // of Key, computed even if there is no cluster
	Key     string // that names the holder
	Kind    string
	Name    string // as errors call it
	Class   string // as WithClass says
	Access  Access
	// acquires the lock together with others; nil if it is acquired alone
	Acquirer ManyAcquirer
}

// Compare orders places of one session.
func Compare(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Kind, b.Kind))
}

// Same reports whether a and b are the same lock, on whatever side.
func Same(a, b Place) bool { return a.Session == b.Session && a.Key == b.Key && a.Kind == b.Kind }

// Gatherer is a lock that can be acquired together with others.
type ManyAcquirer interface {
	// Gather acquires this lock, and waits for it as long as ctx allows. In the same step it acquires,
	// without waiting, a prefix of behind, the locks that follow it in order. Without an error it returns at
	// least one lease.
	AcquireMany(ctx context.Context, behind []ManyAcquirer) ([]hold.Lease, error)
	// TryGather is Gather, and does not wait for this lock either.
	TryAcquireMany(ctx context.Context, behind []ManyAcquirer) ([]hold.Lease, error)
}

// Batch identifies holds that can be released together: equal batches go in one step.
type BatchKey struct {
	Session *Session
	Node    uint16 // see Session.NodeOf
	Layout  *layout.Layout
}

// Returner is a hold that can be released together with others.
type ManyReleaser interface {
	hold.Owner
	// Batch returns which others these are, of the same type.
	BatchKey() BatchKey
	// Return is Vacated for this hold and for the others, in one step.
	ReleaseMany(now clock.Instant, others []ManyReleaser) []error
}
