// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// lease is long enough for any test.
const lease = 60_000 // ms

// A hold, its session, and one of another session.
var (
	ours, theirs = holdOf("a"), holdOf("b")
	we, they     = session("a"), session("b")
)

// us is what a message of ours says: who released.
var us = we[:8]

// acquire takes the lock for hold, in time, as a waiter that wants a message where mark is set.
func (p *place) acquire(hold, mark string) any {
	p.Helper()
	return p.run(scripts.ReentrantAcquire, claimOf(hold), lease, digits(p.clock+1), mark)
}

func TestAFreeLockIsTakenAtTheServersTime(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.Equal(t, digits(noon), p.acquire(ours, we))
	require.Equal(t, heldBy(ours, noon, ""), p.value())
	p.requireLife(lease * time.Millisecond)
}

func TestTheServersOwnTimeIsAStamp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.clock = 0
	stamp := p.run(scripts.ReentrantAcquire, claimOf(ours), lease, "9999999999999999", "")
	require.Len(t, stamp, 16)
	require.Greater(t, stamp, digits(noon-365*24*3600*1_000_000))
}

func TestAHeldLockTellsHowLong(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.acquire(theirs, "")
	p.clock += 5
	unchanged := p.untouched()
	reply := p.acquire(ours, "").([]any)
	require.Len(t, reply, 3)
	require.Equal(t, int64(0), reply[0])
	require.InDelta(t, lease, reply[1], float64(patience.Milliseconds()))
	require.Equal(t, digits(noon+5), reply[2])
	unchanged()
}

// P5.
func TestAnAcquireSentTwiceTakesTheLockOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.Equal(t, digits(noon), p.acquire(ours, ""))
	p.clock++
	require.Equal(t, []any{int64(1), digits(noon + block), int64(0), digits(noon + 1)}, p.acquire(ours, ""), "its last token, and no block")
	require.Equal(t, heldBy(ours, noon, ""), p.value())
	p.requireLife(lease * time.Millisecond)
	require.Equal(t, int64(1), p.release(ours, noon))
	require.Equal(t, released(noon), p.value(), "one release is enough")
}

func TestAnAcquireSentTwiceKeepsTheWaitersMark(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.acquire(ours, "")
	p.acquire(theirs, they)
	p.clock++
	p.acquire(ours, "")
	require.Equal(t, heldBy(ours, noon, they), p.value())
}

// P4.
func TestALateAcquireWritesNothing(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"Free": "", "Released": released(noon - 10), "Held": heldBy(theirs, noon-10, ""), "Ours": heldBy(ours, noon-10, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			if value != "" {
				p.set(value, time.Hour)
			}
			unchanged := p.untouched()
			reply := p.run(scripts.ReentrantAcquire, claimOf(ours), lease, digits(noon-1), we)
			require.Equal(t, []any{int64(-1), digits(noon)}, reply)
			unchanged()
		})
	}
}

func TestNotAfterIsStillInTime(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.Equal(t, digits(noon), p.run(scripts.ReentrantAcquire, claimOf(ours), lease, digits(noon), ""))
}

func TestTheFirstWaitersMarkStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.set(heldBy(theirs, noon-10, ""), time.Minute)
	p.acquire(ours, we)
	require.Equal(t, heldBy(theirs, noon-10, we), p.value())
	p.requireLife(time.Minute)
	p.acquire(holdOf("c"), session("c"))
	require.Equal(t, heldBy(theirs, noon-10, we), p.value(), "the first waiter's mark was overwritten")
}

func TestAMarkOfTheHoldersOwnSessionIsReplaced(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.set(heldBy(theirs, noon-10, they), time.Minute)
	p.acquire(ours, we)
	require.Equal(t, heldBy(theirs, noon-10, we), p.value())
}

func TestAWaiterWithoutAMarkLeavesTheKeyAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.set(heldBy(theirs, noon-10, they), time.Minute)
	unchanged := p.untouched()
	p.acquire(ours, "")
	unchanged()
}

// P3: the clock stands where the test wants it, so the boundaries are exact.
func TestTokensGrowWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		floor int64
		want  any
	}{
		"Before":      {noon - 1, digits(noon)},
		"Now":         {noon, []any{int64(1), digits(noon + 1), block, digits(noon)}},
		"Ahead":       {noon + 50_000, []any{int64(1), digits(noon + 50_001), block, digits(noon)}},
		"LastBlock":   {noon + headroom - block - 1, []any{int64(1), digits(noon + headroom - block), block, digits(noon)}},
		"NoMoreBlock": {noon + headroom - block, []any{int64(1), digits(noon + headroom - block + 1), int64(0), digits(noon)}},
		"FarAhead":    {noon + 3_600_000_000, []any{int64(1), digits(noon + 3_600_000_001), int64(0), digits(noon)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.set(released(c.floor), time.Hour)
			require.Equal(t, c.want, p.acquire(ours, ""))
			require.Greater(t, parseStamp(t, p.value()[4:20])+block, c.floor, "a script that takes the hold away continues behind it")
			p.requireLife(lease * time.Millisecond)
		})
	}
}

// Stamps are compared as texts and calculated as numbers: neither may lose a digit.
func TestNoDigitOfAStampIsLost(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, floor := range []int64{1_799_999_999_999_999, 4_102_444_800_123_457, 9_007_199_254_740_989} {
		p.clock = floor - 1
		p.set(released(floor), time.Hour)
		require.Equal(t, []any{int64(1), digits(floor + 1), block, digits(floor - 1)}, p.acquire(ours, ""))
	}
}

func TestMicrosecondsAreFilledWithZeros(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.clock = noon + 42
	require.Equal(t, digits(noon+42), p.acquire(ours, ""))
}
