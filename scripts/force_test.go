// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// notified is the channel of the session whose hold is taken.
func (p *fixture) notified() string { return p.channel + ":told" }

// force takes the lock from hold.
func (p *fixture) force(hold string) any {
	p.Helper()
	return p.run(scripts.HolderForce, hold, "PUBLISH", p.channel, p.notified(), keepMS)
}

func TestAForcedLockIsFreeAndAllAreNotified(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]string{"Nobody": "", "OwnSession": we, "AnotherSession": they} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFixture(t)
			p.set(votedFor(ours, noon, mark), time.Minute)
			waiter, holder := p.listen(), p.listenTo(p.notified())
			require.Equal(t, int64(1), p.force(ours))
			require.Equal(t, released(noon), p.value())
			p.requireLife(floorLife)
			require.Equal(t, []string{us}, waiter.received())
			require.Equal(t, []string{p.key}, holder.received())
		})
	}
}

// P5, P8: what a hold sends once it is over, or another holds the lock, changes nothing and sends no message.
func TestCallTouchesItsOwnHoldOnly(t *testing.T) {
	t.Parallel()
	for verb, call := range map[string]func(p *fixture) any{
		"Force": func(p *fixture) any { return p.force(ours) },
		"Renew": func(p *fixture) any { return p.renew(ours, time.Hour) },
	} {
		for name, value := range map[string]string{
			"Free": "", "Released": released(noon), "Theirs": votedFor(theirs, noon, ""), "TheirsMarked": votedFor(theirs, noon, we),
			"AnotherHoldOfOurs": votedFor(session("a")+"1000000000000000001", noon, they), "Foreign": "hello",
		} {
			t.Run(verb+name, func(t *testing.T) {
				t.Parallel()
				p := newFixture(t)
				if value != "" {
					p.set(value, time.Minute)
				}
				unchanged, waiter, holder := p.untouched(), p.listen(), p.listenTo(p.notified())
				require.Equal(t, int64(0), first(call(p)))
				unchanged()
				require.Empty(t, waiter.received())
				require.Empty(t, holder.received())
			})
		}
	}
}
