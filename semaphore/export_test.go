// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
)

// Waits reports whether a goroutine of the session waits for one permit, with a ticket or behind another goroutine's.
func (s *Semaphore) Waits() bool {
	queues := s.registry.LocalQueues
	q := queues.Use(s.single.Names.Holder)
	defer q.Done(s.single.Names.Holder)
	return q.HandOver(timers.Now(), s.shareKey(1), refusingUnlockedHold{}) == waitroom.Refused
}

// refusingGiver is a hold that cannot be handed over.
type refusingUnlockedHold struct{}

func (refusingUnlockedHold) NextLease(timers.Instant) (hold.Lease, bool) { return hold.Lease{}, false }
