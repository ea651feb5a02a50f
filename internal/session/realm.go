// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/gate"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/wheel"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Realm is the reentrant locks of one layout in the session. It is a Part.
type Realm struct {
	hold.Realm

	Gates *gate.Table
	// Acquire and Release run their scripts, for many callers at once.
	Acquire, Release *wire.Combiner
}

// Reentrant answers the realm of the reentrant locks in a layout that has them.
func (s *Session) Reentrant(l *layout.Layout) *Realm {
	return PartOf(s, l.Reentrant.Realm, func() *Realm {
		return &Realm{
			Realm:   hold.Realm{Kind: "reentrant"},
			Gates:   gate.NewTable(),
			Acquire: wire.NewCombiner(s.Runner, l.Reentrant.Acquire),
			Release: wire.NewCombiner(s.Runner, l.Reentrant.Release),
		}
	})
}

// Refuse implements Part.
func (r *Realm) Refuse(err error) { r.Gates.Refuse(err) }

// Evict implements Part.
func (r *Realm) Evict(cause error) { r.Gates.Evict(cause) }

// Recheck implements Part.
func (r *Realm) Recheck(key string) { r.Gates.Recheck(key) }

// RecheckAll implements Part.
func (r *Realm) RecheckAll() { r.Gates.RecheckAll() }

// Close implements Part.
func (r *Realm) Close() {
	r.Acquire.Close()
	r.Release.Close()
}

// SweepGate takes an unused gate out of its table once its lock need not be left alone.
func (s *Session) SweepGate(realm *Realm, g *gate.Gate, in time.Duration) {
	w := &sweep{realm: realm, gate: g}
	w.entry.Init(w)
	s.Timers.Schedule(&w.entry, in)
}

// sweep is one gate to be taken out.
type sweep struct {
	entry wheel.Entry
	realm *Realm
	gate  *gate.Gate
}

// Fire implements wheel.Event.
func (w *sweep) Fire() { w.realm.Gates.Sweep(w.gate, clock.Now()) }
