// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// frees sends the short release of a hold that was granted without a mark.
func (q *queued) frees(hold, used string) any {
	q.Helper()
	return q.mustRun(scripts.LockFree, q.all[:1], hold+q.suffix+"-", used, keepMS)[0]
}

// P3, P5: the short release leaves the key as the leave does, for as long. A copy of it does nothing.
func TestFreeLeavesTheKeyAsLeaveDoes(t *testing.T) {
	t.Parallel()
	for _, used := range []string{"", digits(0), digits(noon - 1), digits(noon), digits(noon + 100), digits(noon + hour)} {
		q, left := newLock(t), newLock(t)
		q.has(ours)
		left.has(ours)
		args := left.leaveArgs(ours)
		args[5], args[6] = used, "1"
		require.Equal(t, []any{int64(1)}, left.mustRun(left.leave, left.all, args...))
		require.Equal(t, int64(1), q.frees(ours, used))
		require.Equal(t, left.value(), q.value())
		require.Equal(t, left.ttl(left.key), q.ttl(q.key))
		unchanged := q.unchanged()
		require.Equal(t, int64(0), q.frees(ours, used))
		unchanged()
	}
}

// P8: the short release does nothing to a key that has another hold, or a mark.
func TestFreeLeavesAnotherHoldAlone(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"Marked":       lockSays(ours+turnMode, noon, "q"),
		"OtherAttempt": lockSays(nth("a", 2)+turnMode, noon, "-"),
		"OtherMode":    lockSays(ours+fairMode, noon, "-"),
		"OtherKind":    "sb1q" + lockSays(ours+turnMode, noon, "-")[4:],
		"Idle":         idleSays(noon),
		"Released":     released(noon),
		"Lost":         "",
		"Foreign":      "a text",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.suffix = turnMode
			if value != "" {
				q.set(value, time.Minute)
			}
			unchanged := q.unchanged()
			require.Equal(t, int64(0), q.frees(ours, digits(noon)))
			unchanged()
		})
	}
}

// P8: no sender releases a marked lock, or a key of another program, by naming what it has.
func TestFreeRefusesWhatIsNoUnmarkedTicket(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "a text", ours + turnMode, ours + turnMode + "q", lockSays(ours+turnMode, noon, "-"), released(noon), strings.Repeat("-", 80)} {
		q := newLock(t)
		if value != "" {
			q.set(value, time.Minute)
		}
		unchanged := q.unchanged()
		_, err := q.tryKeys(scripts.LockFree, q.all[:1], value, digits(noon), keepMS)
		require.ErrorContains(t, err, "bad argument")
		unchanged()
	}
}

// P10: a refused short release does nothing and says so: the leave that follows it releases the lock, or returns the refusal.
func TestRefusedFreeDoesNothing(t *testing.T) {
	t.Parallel()
	q := queuedOf(newFixtureAt(t), lockQueue)
	q.has(ours)
	unchanged := q.unchanged()
	for _, right := range []string{"get", "set"} {
		reply, err := q.as("+@all", "-"+right).tryKeys(scripts.LockFree, q.all[:1], ours+q.suffix+"-", digits(noon), keepMS)
		require.NoError(t, err)
		require.Equal(t, int64(0), reply)
	}
	q.fill()
	require.Equal(t, int64(0), q.frees(ours, digits(noon)))
	unchanged()
}
