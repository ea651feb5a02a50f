// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// sizes are how many servers there may be.
func sizes(t *rapid.T) int { return 2*rapid.IntRange(1, 10).Draw(t, "half") + 1 }

// serverModel is the model of one: when its key of a hold ends, by the process's monotonic clock.
type serverModel struct {
	keyEnds time.Duration
	// pace is how long a millisecond of its clock is, in microseconds.
	pace int
}

// P1, P2, issues of RedLock elsewhere: as long as a lease is good, the keys of every server that voted for it live: so no other can be granted by a quorum,
// whatever the ways took, whenever it was granted and renewed, with clocks that differ in pace by less than what is allowed for.
func TestALeaseIsGoodForNoLongerThanItsKeysLive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := sizes(t)
		life := time.Duration(rapid.IntRange(100, 86_400_000).Draw(t, "life ms")) * time.Millisecond
		servers := make([]serverModel, n)
		for i := range servers {
			servers[i].pace = rapid.IntRange(985, 1015).Draw(t, "pace")
		}
		now := time.Duration(0)
		var deadline time.Duration
		good := false
		for range rapid.IntRange(1, 4).Draw(t, "rounds") { // the acquire, and renewals
			sent := now
			votes := 0
			last := now
			for i := range rapid.Permutation(indices(n)).Draw(t, "order") {
				s := &servers[i]
				there := sent + time.Duration(rapid.Int64Range(0, int64(2*life)).Draw(t, "there"))
				if good && there > s.keyEnds || rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
					continue // gone, or lost on the way
				}
				s.keyEnds = there + life*time.Duration(s.pace)/1000
				last = max(last, there)
				if votes++; votes > n/2 {
					break
				}
			}
			if votes <= n/2 {
				break
			}
			now = last + time.Duration(rapid.Int64Range(0, int64(life)).Draw(t, "back"))
			until := at(sent + life - clock.Allowance(life))
			if until != clock.Deadline(at(sent), life) {
				t.Fatal("a deadline counts from the sending")
			}
			if until.Reached(at(now)) || good && now >= deadline {
				break // too late: no lease, or none any more
			}
			good, deadline = true, sent+life-clock.Allowance(life)
			if alive := keysLeft(servers, deadline); alive <= n/2 {
				t.Fatalf("good until %v, when %d of %d keys live", deadline, alive, n)
			}
			now += time.Duration(rapid.Int64Range(0, int64(life/3)).Draw(t, "rest"))
		}
	})
}

// keysLeft returns how many keys live at an instant.
func keysLeft(servers []serverModel, at time.Duration) int {
	n := 0
	for _, s := range servers {
		if s.keyEnds > at {
			n++
		}
	}
	return n
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func at(mono time.Duration) clock.Instant { return clock.At(mono, time.Unix(0, int64(mono))) }
