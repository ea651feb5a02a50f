// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P2, P3, P6: a slot is moved, step by step, with locks that are held, waited for, and acquired in turn.
// While keys are on both sides (ASK), and scripts with several keys are refused (TRYAGAIN), renewals continue
// and locks are released; when the move is over, waiters have their order and channels their listeners.
func TestLocksFollowTheirSlot(t *testing.T) {
	t.Parallel()
	const life = 9 * time.Second // renewed each three
	whole := []signalbox.LockOption{signalbox.WithRenewedLease(life), signalbox.WithFirstLease(life)}
	c := cluster(t, redistest.WithFailoverAfter(time.Minute))
	slot := slotOf(t, c)
	all := failoverFixtures(t, c, anyKey)
	moved := slot(all[0].key())
	inSlot := func(key string) bool { return slot(key) == moved }
	all, busy, lines := failoverFixtures(t, c, inSlot), failoverFixtures(t, c, inSlot), failoverFixtures(t, c, inSlot)
	from := c.Owner(t, moved)
	to := c.Owner(t, (moved+redistest.Slots/2)%redistest.Slots)

	var held, first []signalbox.Lease
	waiters := make([][]*lockCall, len(all))
	for i, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), whole...)))
		busy[i].rename("busy", inSlot)
		busy[i].strict = true
		lines[i].rename("line", inSlot)
		first = append(first, lines[i].mustLock(lines[i].lock(lines[i].session(), whole...)))
		for range 3 {
			l := lines[i].wait(ended(t, wait))
			l.handOff()
			waiters[i] = append(waiters[i], l)
		}
	}
	var crowds []*workload
	for i := range all {
		crowds = append(crowds, busy[i].load())
	}

	renewed := func(step string) {
		for i, results := range followAll(append(held, first...), life) {
			require.NoError(t, <-results, "%s: %s", step, all[i%len(all)].kind.Name)
		}
	}
	move := c.BeginMove(t, moved, to)
	renewed("open")
	for i := range all {
		move.Keys(t, all[i].key(), busy[i].key(), lines[i].kind.Queue(lines[i].name))
	}
	renewed("keys on both sides")
	gaveUp := time.Now()
	for i, f := range lines { // a line has to wait for the rest of its keys
		f.mustUnlock(first[i])
		first[i] = held[i]
	}
	move.Keys(t)
	renewed("all keys moved")
	for i, f := range all {
		f.mustUnlock(held[i])
	}
	move.Finish(t)
	for i, f := range lines {
		last := gaveUp
		for _, l := range waiters[i] {
			l.mustHandOn()
			if f.kind.Ordered() {
				require.True(t, l.at.After(last), "out of turn")
			}
			last = l.at
		}
		f.mustReceive()
		busy[i].awaitTurns(50)
		crowds[i].end()
	}
	for i, f := range all {
		redistest.Await(t, f.kind.Name+": no subscribers at the old node", func() bool { return len(f.listenersAt(from)) == 0 })
		for _, each := range []*failoverFixture{f, busy[i], lines[i]} {
			each.holders.mustBeTrue(t)
		}
	}
	for i := range all {
		for _, each := range []*failoverFixture{all[i], busy[i], lines[i]} {
			each.mustRest()
		}
	}
}
