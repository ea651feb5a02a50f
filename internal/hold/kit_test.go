// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/renewal"
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

func (m *ownerRecorder) OnRelease(clock.Instant) error {
	m.ending()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.released++
	return m.released
}

func (m *ownerRecorder) OnLost(end renewal.End) {
	m.ending()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.lost, m.mu.gone, m.mu.leased = append(m.mu.lost, end.Cause), end.Gone, end.Leased
}

func (m *ownerRecorder) onEnd(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.onEnd = do
}

func (m *ownerRecorder) ending() {
	m.mu.Lock()
	do := m.mu.onEnd
	m.mu.Unlock()
	if do != nil {
		do()
	}
}

// counts returns how many tenures ended in which way.
func (m *ownerRecorder) counts() (released, lost int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.released, len(m.mu.lost)
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
	keeper *renewal.Keeper
}

// testScope is the scope of the fixtures.
var testScope = Scope{Kind: "test"}

// begin returns a hold of key with its first lease.
func begin(tb testing.TB, key string) (*fixture, Lease) {
	tb.Helper()
	b := &fixture{timers: timers.New()}
	b.keeper = renewal.NewKeeper(noServer{tb}, b.timers, nil)
	tb.Cleanup(func() {
		b.keeper.Close()
		b.timers.Close()
	})
	lease := b.Begin(&b.owner, &testScope, firstToken, lastToken)
	b.Term.Init(b.keeper, &b.Hold, renewal.Config{Key: key, Hold: "hold", Life: life}, life, clock.Now())
	b.Term.Start(clock.Now(), b.Term.Config().Life)
	return b, lease
}

// watchers returns how many things end with an entry of the hold.
func (h *Hold) watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	places := h.mu.slots[:]
	if h.mu.overflow != nil {
		places = append(slices.Clone(places), h.mu.overflow.slots...)
	}
	n := 0
	for _, p := range places {
		if p.dependents == nil {
			continue
		}
		n += len(p.dependents.callbacks) + len(p.dependents.otherBonds)
		if p.dependents.firstBond != nil {
			n++
		}
		if p.dependents.done != nil {
			n++
		}
	}
	return n
}
