// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// worthTrying is what look says of a lock that is not held.
const worthTrying int64 = -2

func (p *place) look(mark string) int64 {
	p.Helper()
	return p.run(scripts.ReentrantLook, mark).(int64)
}

func TestALookTellsHowLongALockIsHeld(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.set(heldBy(theirs, noon, they), time.Minute)
	require.InDelta(t, time.Minute.Milliseconds(), p.look(we), float64(patience.Milliseconds()))
}

func TestALookLeavesAMarkWhereNoneStands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after string }{
		"None": {"", we}, "TheHolders": {they, we}, "AnotherWaiters": {session("c"), session("c")}, "Ours": {we, we},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.set(heldBy(theirs, noon, c.before), time.Hour)
			p.look(we)
			require.Equal(t, heldBy(theirs, noon, c.after), p.value())
			p.requireLife(time.Hour)
			unchanged := p.untouched()
			p.look(we)
			unchanged()
		})
	}
}

func TestALockThatIsNotHeldIsWorthTrying(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"Free": "", "Released": released(noon), "AnotherKind": "sb1f" + digits(noon) + theirs, "Foreign": "hello",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			if value != "" {
				p.set(value, time.Minute)
			}
			unchanged := p.untouched()
			require.Equal(t, worthTrying, p.look(we))
			unchanged()
		})
	}
}

func TestOneBadKeySpoilsNoLook(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	bad, free := p.key+"bad", p.key+"free"
	p.server.MustDo(t, "RPUSH", bad, "x")
	p.set(heldBy(theirs, noon, ""), time.Minute)
	reply, err := p.tryKeys(scripts.ReentrantLook, []string{bad, p.key, free}, we)
	require.NoError(t, err)
	left := reply.([]any)
	require.Len(t, left, 3)
	require.Equal(t, worthTrying, left[0])
	require.Positive(t, left[1])
	require.Equal(t, worthTrying, left[2])
	require.Equal(t, heldBy(theirs, noon, we), p.value())
}
