// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

func TestTheGreatestHoldEndsTermAndKey(t *testing.T) {
	t.Parallel()
	for _, hold := range []time.Duration{
		100 * time.Millisecond, time.Second, life - time.Millisecond, life, life + time.Millisecond, 31 * time.Second,
		40 * time.Second, 100 * time.Second, 10 * time.Minute, 24 * time.Hour,
	} {
		t.Run(hold.String(), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *termFixture) {
				terms := renewed(life)
				terms.Until = timers.Now().Add(hold)
				until := time.Now().Add(hold)
				o := f.start(terms)
				time.Sleep(hold + time.Second)
				synctest.Wait()
				require.Equal(f, []error{errs.ErrMaxHold}, o.causes())
				require.Equal(f, errs.ErrMaxHold, o.Alive(timers.Now()))
				require.False(f, o.ended.at.After(until), "held for longer")
				require.WithinDuration(f, until, o.ended.at, timers.Allowance(life)+2*time.Millisecond)
				if !o.ended.gone {
					ends := f.server.ends(o)
					require.False(f, ends.Before(o.ended.at))
					require.WithinDuration(f, until, ends, timers.Allowance(life)+2*time.Millisecond, "the key ends just after")
				}
				require.LessOrEqual(f, f.server.requests(), int(hold/(life/3))+4)
			})
		})
	}
}

func TestCloseEndsTheBatchesInFlight(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		f.server.set(never)
		o := f.start(renewed(life))
		o.untilRenewing()
		require.Equal(f, 1, f.server.requests())
		before := time.Now()
		f.Keeper.Close()
		require.Equal(f, before, time.Now(), "it waits for no reply")
		time.Sleep(2 * life)
		synctest.Wait()
		require.Equal(f, 1, f.server.requests(), "nothing is renewed after Close")
		require.Equal(f, []error{errs.ErrLost}, o.causes(), "a term ends at its deadline all the same")
	})
}

// A term is fresh for the first half of what the server gave it last, which may be less than a renewal gives.
func TestATermIsFreshForHalfOfWhatItWasGiven(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.start(renewed(life))
		require.True(f, o.IsFresh(timers.Now()))
		require.True(f, o.IsFresh(timers.Now().Add(life/2-timers.Allowance(life))))
		require.False(f, o.IsFresh(timers.Now().Add(life/2+time.Millisecond)))
		require.True(f, o.Extended(life/10, timers.Now().Add(life)))
		require.True(f, o.IsFresh(timers.Now().Add(life)))
		require.False(f, o.IsFresh(timers.Now().Add(life+life/20+time.Millisecond)))
	})
}
