// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// life is that of the leases in these tests. They are not renewed.
const life = 30 * time.Second

// firstToken and lastToken are what a hold begins with.
const firstToken, lastToken uint64 = 1000, 1003

// ownerRecorder is a primitive from the view of a hold.
type ownerRecorder struct {
	// released is the result of OnRelease.
	released error
	key      string

	mu struct {
		sync.Mutex
		// onEnd is called at the end of each tenure, before it is counted.
		onEnd    func()
		released int
		lost     []error
		gone     bool
		leased   bool
	}
}

func (r *ownerRecorder) Key() string { return r.key }

// ID implements Owner.
func (*ownerRecorder) ID() string { return "hold" }

func (r *ownerRecorder) OnRelease(timers.Instant) error {
	r.ending()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.released++
	return r.released
}

func (r *ownerRecorder) OnLost(end End) {
	r.ending()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.lost, r.mu.gone, r.mu.leased = append(r.mu.lost, end.Cause), end.Gone, end.Leased
}

func (r *ownerRecorder) onEnd(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.onEnd = do
}

func (r *ownerRecorder) ending() {
	r.mu.Lock()
	do := r.mu.onEnd
	r.mu.Unlock()
	if do != nil {
		do()
	}
}

// counts returns how many tenures ended in which way.
func (r *ownerRecorder) counts() (released, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.released, len(r.mu.lost)
}

// noServer gets no calls: the leases are not renewed.
type noServer struct{ testing.TB }

func (s noServer) RunByKey(context.Context, wire.KeyedCall) []wire.KeyedReply {
	s.Error("a lease was renewed")
	return nil
}

// fixture is a hold and all that it needs.
type fixture struct {
	Hold

	owner  ownerRecorder
	timers *timers.Timers
	keeper *Keeper
}

// testScope is the scope of the fixtures.
var testScope = Scope{Kind: "test"}

// begin returns a hold of key with its first lease.
func begin(tb testing.TB, key string) (*fixture, Lease) {
	tb.Helper()
	b := &fixture{timers: timers.New()}
	b.owner.key = key
	b.keeper = NewKeeper(noServer{tb}, b.timers, nil)
	tb.Cleanup(func() {
		b.keeper.Close()
		b.timers.Close()
	})
	lease := b.Begin(&b.owner, &testScope, firstToken, lastToken)
	b.Term.Init(&b.Hold, &Config{Keeper: b.keeper, Life: life}, life, timers.Now())
	b.Term.Start(timers.Now())
	return b, lease
}

// watchers returns how many things end with an entry of the hold.
func (h *Hold) watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	places := h.mu.slots[:]
	if h.mu.rare != nil {
		places = append(slices.Clone(places), h.mu.rare.slots...)
	}
	n := 0
	for _, s := range places {
		if s.dependents == nil {
			continue
		}
		n += len(s.dependents.callbacks) + len(s.dependents.otherBonds)
		if s.dependents.firstBond != nil {
			n++
		}
		if s.dependents.done != nil {
			n++
		}
	}
	return n
}
