// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// startedBefore begins a term just before the wall clock is set by step.
func (f *termFixture) startedBefore(step time.Duration, terms Config) *ownedTerm {
	now := timers.Now()
	before := timers.At(now.Mono(), now.Time().Add(-step))
	if !terms.Until.IsZero() {
		terms.Until = before.Add(terms.Until.Mono() - now.Mono())
	}
	o := f.makeWith(terms, terms.Life)
	o.Init(o, o.Config(), terms.Life, before)
	o.Start(before)
	return o
}

// P2: a term that has an end keeps it, whatever the wall clock says.
func TestAnEndIsKeptWhenTheWallClockIsSetBack(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{life / 2, 10 * life} {
		bubble(t, func(f *termFixture) {
			terms := renewed(life)
			terms.Until = timers.Now().Add(3 * life)
			o := f.startedBefore(-back, terms)
			time.Sleep(3*life - 2*timers.Allowance(life))
			require.NoError(f, o.Alive(timers.Now()))
			time.Sleep(2 * timers.Allowance(life))
			require.ErrorIs(f, o.Alive(timers.Now()), errs.ErrMaxHold)
		})
	}
}

// P2: a term ends early by a wall clock that was set forward, and is renewed if it was not set by a
// life.
func TestATermEndsByAWallClockSetForward(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.startedBefore(life, renewed(life))
		require.ErrorIs(f, o.Alive(timers.Now()), errs.ErrLost)
		o = f.startedBefore(life/2, renewed(life))
		time.Sleep(10 * life)
		require.NoError(f, o.Alive(timers.Now()))
	})
}
