// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// floorLife is how long the floor of the tokens outlives a release.
const floorLife = 90 * time.Second

// keepMS is that time as the scripts take it.
const keepMS = "90000"

// release gives hold back, which was taken at noon, and used tokens until floor.
func (p *place) release(hold string, floor int64) any {
	p.Helper()
	return p.run(scripts.ReentrantRelease, heldBy(hold, noon, ""), digits(floor), "PUBLISH", p.channel, keepMS)
}

func TestAReleaseKeepsTheFloorForAnHour(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.set(heldBy(ours, noon, ""), time.Minute)
	require.Equal(t, int64(1), p.release(ours, noon+77))
	require.Equal(t, released(noon+77), p.value())
	p.requireLife(floorLife)
	p.clock = noon - 1_000_000
	require.Equal(t, []any{int64(1), digits(noon + 78), int64(0), digits(p.clock)}, p.acquire(theirs, ""),
		"a clock that was set back must not repeat a token")
}

func TestAReleaseIsToldWhereSomebodyWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mark     string
		want     int64
		messages []string
	}{
		"Nobody":         {"", 1, []string{}},
		"OwnSession":     {we, 1, []string{us}},
		"AnotherSession": {they, 2, []string{us}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.set(heldBy(ours, noon, c.mark), time.Minute)
			listener := p.listen()
			require.Equal(t, c.want, p.release(ours, noon))
			require.Equal(t, released(noon), p.value())
			require.Equal(t, c.messages, listener.heard())
		})
	}
}

func TestAReleaseKnowsItsHoldWhateverTheStamp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.set(heldBy(ours, noon+500, ""), time.Minute) // the acquire was executed twice
	require.Equal(t, int64(1), p.release(ours, noon+500))
	require.Equal(t, released(noon+500), p.value())
}

func TestAWithdrawnAcquireLeavesNoHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mark     string
		messages []string
	}{"Nobody": {"", []string{}}, "Waiter": {they, []string{us}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.set(heldBy(ours, noon, c.mark), time.Minute)
			p.clock++
			listener := p.listen()
			require.Equal(t, []any{int64(1), digits(noon + 1)}, p.withdraw(ours))
			require.Equal(t, released(noon+block), p.value(), "the whole block counts as used")
			p.requireLife(floorLife)
			require.Equal(t, c.messages, listener.heard())
			unchanged := p.untouched()
			require.Equal(t, []any{int64(0), digits(noon + 1)}, p.withdraw(ours))
			unchanged()
		})
	}
}

func (p *place) withdraw(hold string) any {
	p.Helper()
	return p.run(scripts.ReentrantWithdraw, hold, "PUBLISH", p.channel, keepMS)
}

// P5, P8: whatever a hold still sends finds nothing of its own once it is over, or another hold's: neither is touched, and
// no message is sent.
func TestCallTouchesItsOwnHoldOnly(t *testing.T) {
	t.Parallel()
	for verb, call := range map[string]func(p *place) any{
		"Release":  func(p *place) any { return p.release(ours, noon) },
		"Withdraw": func(p *place) any { return p.withdraw(ours) },
		"Yield":    func(p *place) any { return p.yield(ours, noon+block) },
		"Force":    func(p *place) any { return p.force(ours) },
		"Renew":    func(p *place) any { return p.renew(ours, time.Hour) },
	} {
		for name, value := range map[string]string{
			"Free": "", "Released": released(noon), "Theirs": heldBy(theirs, noon, ""), "TheirsMarked": heldBy(theirs, noon, we),
			"AnotherHoldOfOurs": heldBy(session("a")+"1000000000000000001", noon, they), "Foreign": "hello",
		} {
			t.Run(verb+name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				if value != "" {
					p.set(value, time.Minute)
				}
				unchanged, waiter, holder := p.untouched(), p.listen(), p.listenTo(p.told())
				require.Equal(t, int64(0), first(call(p)))
				unchanged()
				require.Empty(t, waiter.heard())
				require.Empty(t, holder.heard())
			})
		}
	}
}
