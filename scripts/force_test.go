// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// notified is the channel of the session whose hold is taken.
func (f *fixture) notified() string { return f.channel + ":told" }

// force takes the lock from hold.
func (f *fixture) force(hold string) any {
	f.Helper()
	return f.run(scripts.HolderForce, hold, "PUBLISH", f.channel, f.notified(), keepMS)
}

func TestAForcedLockIsFreeAndAllAreNotified(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]string{"NoWaiter": "", "OwnSession": we, "AnotherSession": they} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.set(votedFor(ours, noon, mark), time.Minute)
			waiter, holder := f.listen(), f.listenTo(f.notified())
			require.Equal(t, int64(1), f.force(ours))
			require.Equal(t, released(noon), f.value())
			f.requireLife(floorLife)
			require.Equal(t, []string{us}, waiter.received())
			require.Equal(t, []string{f.key}, holder.received())
		})
	}
}

// P5, P8: what a hold sends once it is over, or another holds the lock, changes nothing and sends no message.
func TestCallTouchesItsOwnHoldOnly(t *testing.T) {
	t.Parallel()
	for verb, call := range map[string]func(f *fixture) any{
		"Force": func(f *fixture) any { return f.force(ours) },
		"Renew": func(f *fixture) any { return f.renew(ours, time.Hour) },
	} {
		for name, value := range map[string]string{
			"Free": "", "Released": released(noon), "Theirs": votedFor(theirs, noon, ""), "TheirsMarked": votedFor(theirs, noon, we),
			"AnotherHoldOfOurs": votedFor(session("a")+"1000000000000000001", noon, they), "Foreign": "hello",
		} {
			t.Run(verb+name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				if value != "" {
					f.set(value, time.Minute)
				}
				unchanged, waiter, holder := f.untouched(), f.listen(), f.listenTo(f.notified())
				require.Equal(t, int64(0), first(call(f)))
				unchanged()
				require.Empty(t, waiter.received())
				require.Empty(t, holder.received())
			})
		}
	}
}
