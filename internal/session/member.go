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
type Side uint8

const (
	// Whole is the lock itself, alone.
	Whole Side = iota
	// Shared is the lock beside others. Who has it whole has that, too.
	Shared
	// Counted is a part of the lock of which one can have several.
	Counted
)

// Place is where a lock stands among all locks; signalbox.Place is defined over it. The zero Place is that of no lock.
type Place struct {
	Session *Session
	Slot    uint16 // of Key, computed, where there is no cluster as well
	Key     string // that says who has the lock
	Kind    string
	Name    string // as errors call it
	Class   string // as WithClass says
	Side    Side
	// Gatherer takes the lock together with others; nil where it is taken alone.
	Gatherer Gatherer
}

// Compare orders places of one session.
func Compare(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Kind, b.Kind))
}

// Same reports whether a and b are the same lock, on whatever side.
func Same(a, b Place) bool { return a.Session == b.Session && a.Key == b.Key && a.Kind == b.Kind }

// Gatherer is a lock that can be taken together with others.
type Gatherer interface {
	// Gather takes this lock, and waits for it as long as ctx lets it, and takes of those behind, which follow it in order,
	// as many as are to be had in the same step: the first ones, and none without those before it. It waits for none of
	// these. Without an error the answer has at least one lease.
	Gather(ctx context.Context, behind []Gatherer) ([]hold.Lease, error)
	// TryGather is Gather, and does not wait for this lock either.
	TryGather(ctx context.Context, behind []Gatherer) ([]hold.Lease, error)
}

// Batch is what holds have in common that can be given back together.
type Batch struct {
	Session *Session
	Slot    uint16 // 0 where there is no cluster
	Layout  *layout.Layout
}

// Returner is a hold that can be given back together with others.
type Returner interface {
	hold.Home
	// Batch returns which others these are, of the same type.
	Batch() Batch
	// Return is Vacated for this hold and for the others, in one step.
	Return(now clock.Instant, others []Returner) []error
}
