// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"

	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// Access is a right to a lock.
type Access uint8

const (
	// ExclusiveAccess is the lock itself, alone.
	ExclusiveAccess Access = iota
	// SharedAccess is a lock that several can hold at once. Holding the exclusive lock includes it.
	SharedAccess
	// PermitAccess is a permit, of which a caller can have several.
	PermitAccess
)

// Place is the position of a lock in the order of all locks; signalbox.Place is defined over it. The zero
// Place belongs to no lock.
type Place struct {
	Session *Session
	Slot    uint16 // the slot of Key, computed even if there is no cluster
	Key     string // the key that names the holder
	Kind    string
	Name    string // the name in errors
	Class   string // the class that WithClass sets
	Access  Access
	// Acquirer acquires the lock together with others; nil if the lock is acquired alone.
	Acquirer ManyAcquirer
}

// Compare orders places of one session.
func Compare(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Kind, b.Kind))
}

// Same reports whether a and b are the same lock, with whatever access.
func Same(a, b Place) bool { return a.Session == b.Session && a.Key == b.Key && a.Kind == b.Kind }

// ManyAcquirer is a lock that can be acquired together with others.
type ManyAcquirer interface {
	// AcquireMany acquires this lock, and waits for it as long as ctx allows. In the same step it acquires,
	// without waiting, a prefix of behind, the locks that follow it in order. Without an error it returns at
	// least one lease.
	AcquireMany(ctx context.Context, behind []ManyAcquirer) ([]hold.Lease, error)
	// TryAcquireMany is AcquireMany, and does not wait for this lock either.
	TryAcquireMany(ctx context.Context, behind []ManyAcquirer) ([]hold.Lease, error)
}

// BatchKey identifies holds that can be released together: holds with equal keys go in one step.
type BatchKey struct {
	Session *Session
	Node    uint16 // the node's number; see Session.NodeID
	Layout  *proto.Layout
}

// ManyReleaser is a hold that can be released together with others.
type ManyReleaser interface {
	hold.Owner
	// BatchKey returns the key of the holds of the same type that can be released with this one.
	BatchKey() BatchKey
	// ReleaseMany is OnRelease for this hold and for the others, in one step.
	ReleaseMany(now timers.Instant, others []ManyReleaser) []error
}
