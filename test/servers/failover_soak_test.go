// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"math/rand/v2"
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P3, P4, P6: for a long time, one node of a cluster after the other dies, stops, hands over or loses a
// slot, while clients acquire locks in turn. Tokens rise, clients make progress, and nothing is left in the
// end.
func TestSoakAClusterThatFailsAgainAndAgain(t *testing.T) {
	t.Parallel()
	more := locktest.Soak(t)
	c := cluster(t)
	slot := slotOf(t, c)
	all := failoverFixtures(t, c, anyKey)
	crowds := loadAll(all)
	for more() {
		moved := slot(all[rand.IntN(len(all))].key())
		owner, replica := c.Owner(t, moved), c.Replica(t, moved)
		switch rand.IntN(4) {
		case 0:
			owner.Kill()
			c.AwaitFailover(t, moved, owner)
			owner.Restart()
		case 1:
			owner.Freeze()
			c.AwaitFailover(t, moved, owner)
			owner.Thaw()
		case 2:
			takeOver(t, replica)
			c.AwaitFailover(t, moved, owner)
		case 3:
			to := owner
			for other := moved; to == owner; other = (other + redistest.Slots/3) % redistest.Slots {
				to = c.Owner(t, other)
			}
			c.MoveSlot(t, moved, to)
		}
		c.AwaitReady(t)
		mustContinue(all)
	}
	mustEndWell(all, crowds)
}

// P1, P3, P4, P6: for a long time, primaries die, stop or hand over under sentinels, while clients acquire
// locks in turn. Tokens rise, clients make progress, and nothing is left in the end.
func TestSoakSentinelsThatSwitchAgainAndAgain(t *testing.T) {
	t.Parallel()
	more := locktest.Soak(t)
	s := sentinels(t)
	all := failoverFixtures(t, s, anyKey)
	crowds := loadAll(all)
	for more() {
		primary := s.Primary(t)
		switch rand.IntN(3) {
		case 0:
			primary.Kill()
			s.AwaitFailover(t, primary)
			primary.Restart()
		case 1:
			primary.Freeze()
			s.AwaitFailover(t, primary)
			primary.Thaw()
		case 2:
			switchOver(t, s, primary)
		}
		s.AwaitReady(t)
		mustContinue(all)
	}
	mustEndWell(all, crowds)
}

func loadAll(all []*failoverFixture) (crowds []*workload) {
	for _, f := range all {
		crowds = append(crowds, f.load())
	}
	return crowds
}

// mustContinue requires that clients make progress, and that no token was too small.
func mustContinue(all []*failoverFixture) {
	for _, f := range all {
		f.awaitTurns(50)
		f.holders.mustShowLater(f.T)
	}
}

// mustEndWell ends the crowds, and requires that all is well and nothing is left.
func mustEndWell(all []*failoverFixture, crowds []*workload) {
	for i, f := range all {
		crowds[i].end()
		f.mustReceive()
	}
	for _, f := range all {
		f.mustRest()
	}
}
