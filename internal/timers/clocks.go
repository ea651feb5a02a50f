// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// compareClocks compares the clocks. If the wall clock went further than the monotonic one, the host was suspended meanwhile, or
// the wall clock was set forward. Both look alike, and both count as time that has passed: the timers come due that
// much earlier. A wall clock that was set back changes nothing.
func (t *Timers) compareClocks() {
	now := readClocks()
	ahead, before := now.Lead()-t.compared.lead, t.compared.at
	t.compared.at = now.Mono()
	switch {
	case ahead < 0:
		t.compared.lead = now.Lead()
	case ahead >= clockNoise:
		t.compared.lead = now.Lead()
		t.suspended.Add(int64(min(ahead, maxSuspension)))
		t.resumedAt.Store(int64(now.Mono()))
		if t.onSuspended != nil {
			t.onSuspended(Suspension{Lasted: ahead, Before: before})
		}
	}
}

// JustResumed reports whether the host was suspended until some seconds before now: calls may fail because its connections
// are gone, or its network is not up yet.
func (t *Timers) JustResumed(now clock.Instant) bool {
	woke := t.resumedAt.Load()
	return woke != 0 && now.Mono()-time.Duration(woke) < resumeGrace
}

// resetComparison starts a new comparison: the clocks go alike as of now.
func (t *Timers) resetComparison(now clock.Instant) {
	t.compared.lead, t.compared.at = now.Lead(), now.Mono()
}

// readClocks reads both clocks. The wall clock is read first: a goroutine that loses its processor between the two sees
// the wall clock lag, and would see a suspension the next time. So both are read twice, and the readings that lag less are returned.
func readClocks() clock.Instant {
	now := clock.Now()
	if again := clock.Now(); again.Lead() > now.Lead() {
		return again
	}
	return now
}
