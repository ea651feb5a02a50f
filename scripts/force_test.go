// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// told is the channel of the session whose hold is taken.
func (p *place) told() string { return p.channel + ":told" }

// force takes the lock from hold.
func (p *place) force(hold string) any {
	p.Helper()
	return p.run(scripts.HolderForce, hold, "PUBLISH", p.channel, p.told(), keepMS)
}

func TestAForcedLockIsFreeAndEverybodyIsTold(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]string{"Nobody": "", "OwnSession": we, "AnotherSession": they} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.set(heldBy(ours, noon, mark), time.Minute)
			waiter, holder := p.listen(), p.listenTo(p.told())
			require.Equal(t, int64(1), p.force(ours))
			require.Equal(t, released(noon+block), p.value(), "the whole block counts as used")
			p.requireLife(floorLife)
			require.Equal(t, []string{us}, waiter.heard())
			require.Equal(t, []string{p.key}, holder.heard())
		})
	}
}

// P3: the process that lost the lock may be in the midst of its block of tokens.
func TestTokensGrowBeyondTheBlockOfAForcedHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.Equal(t, digits(noon), p.acquire(ours, ""))
	p.clock++
	p.force(ours)
	reply := p.acquire(theirs, "").([]any)
	require.Greater(t, reply[1], digits(noon+block))
}

// P3: a server's part of a quorum's lock has one stamp, and no block behind it.
func TestAForcedVoteKeepsItsStampAsTheFloor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.set(votedFor(ours, noon, ""), time.Minute)
	require.Equal(t, int64(1), p.force(ours))
	require.Equal(t, released(noon), p.value())
}

// P3: tokens never run more than 100 ms ahead of the clock, however often a hold is taken away, so
// that a floor that is lost with its key is behind the clock when the shortest lease is over.
func TestHoldsTakenAwayPushNoTokenFarAhead(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(p *place, hold string){
		"Force":    func(p *place, hold string) { p.force(hold) },
		"Withdraw": func(p *place, hold string) { p.withdraw(hold) },
		"Yield": func(p *place, hold string) {
			p.yield(hold, p.clock)
			p.force(hold)
		},
		"Gather": func(p *place, hold string) {
			p.withdraw(hold)
			p.gather([]string{p.key}, hold)
			p.withdraw(hold)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			last := ""
			for range redistest.Rounds(200, 1000) {
				p.clock += 5 // faster than any server
				reply := p.acquire(ours, "")
				if list, ok := reply.([]any); ok {
					reply = list[1]
				}
				require.Greater(t, reply, last)
				take(p, ours)
				last = p.value()[4:]
			}
			require.LessOrEqual(t, parseStamp(t, last), p.clock+headroom)
		})
	}
}
