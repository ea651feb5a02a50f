// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/scripts"
)

// newKept returns a lock on a server of its own, which theirs has by a ticket of that mode, and the messages to its session.
func newKept(t *testing.T, mode string) (*queued, *listener) {
	t.Helper()
	q := queuedOf(newFixtureAt(t), lockQueue)
	q.suffix = mode
	q.has(theirs)
	q.suffix = turnMode
	return q, q.listenTo(names.Session(names.DefaultPrefix, they))
}

// recall is the message that recalls a hold.
func recall(hold string) []string { return []string{"recall:" + attempt(hold)} }

// keeps renews a hold that may be idle.
func (q *queued) keeps(hold string, ttl time.Duration) int64 {
	q.Helper()
	return q.run(scripts.LockKeep, hold+idleMode, ttl.Milliseconds()).(int64)
}

// P6: the first waiter recalls a hold that may be idle, and no later one does; other holds are not recalled.
func TestFirstTicketRecallsAHoldThatMayBeIdle(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]string{turnMode: {}, fairMode: {}, idleMode: recall(theirs)} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			q, messages := newKept(t, mode)
			q.queues(ours)
			require.Equal(t, want, messages.received())
			require.Equal(t, lockSays(theirs+mode, noon, "q"), q.value())
			q.queues(ours, holdOf("c"))
			require.Equal(t, []any{int64(0), int64(lease * 1000), int64(0), digits(noon)}, q.tries(holdOf("d")))
			require.Empty(t, messages.received(), "the mark was there")
		})
	}
}

// P6: a try recalls the hold and leaves the key as it is. So does an enter that has the holder key alone and cannot mark it.
func TestWhatMakesNoTicketRecallsAllTheSame(t *testing.T) {
	t.Parallel()
	q, messages := newKept(t, idleMode)
	unchanged := q.unchanged()
	require.Equal(t, []any{int64(0), int64(lease * 1000), int64(0), digits(noon)}, q.tries(ours))
	require.Equal(t, recall(theirs), messages.received())
	alone := q.mustRun(q.enter, q.all[:1], q.enterArgs(ours, "1", q.next())...)
	require.Equal(t, []any{int64(-3), digits(noon)}, alone)
	require.Equal(t, recall(theirs), messages.received())
	try := q.mustRun(q.enter, q.all[:1], q.enterArgs(ours, "0", "")...)
	require.Equal(t, []any{int64(0), int64(lease * 1000), int64(0), digits(noon)}, try)
	require.Equal(t, recall(theirs), messages.received())
	unchanged()

	q.suffix = idleMode
	q.tries(theirs) // of the holder itself
	require.Empty(t, messages.received())
}

// P6, R3: a poll that marks a key again recalls its hold.
func TestPollThatMarksRecallsTheHold(t *testing.T) {
	t.Parallel()
	q, messages := newKept(t, idleMode)
	q.queues(ours)
	q.server.MustDo(t, "DEL", q.key)
	q.suffix = idleMode
	q.has(nth("b", 2))
	q.suffix = turnMode
	messages.received()
	q.polls(we, ours)
	require.True(t, q.isMarked())
	require.Equal(t, recall(nth("b", 2)), messages.received())
	q.polls(we, ours)
	require.Empty(t, messages.received())
}

// P6: an attempt of another kind that has the same name recalls the hold too, and leaves the key as it is.
func TestOtherKindsRecallTheHold(t *testing.T) {
	t.Parallel()
	q, messages := newKept(t, idleMode)
	unchanged := q.unchanged()
	r, v := rwlockOf(q.fixture), voterOf(q.fixture)
	for _, enter := range []func() []any{
		func() []any { return r.tries(ours, reads) },
		func() []any { return r.joins(ours, writes) },
		func() []any { return v.elect(ours, "") },
	} {
		require.Equal(t, []any{int64(-2), "l"}, enter())
		require.Equal(t, recall(theirs), messages.received())
	}
	unchanged()
}

// P6: without the right to the message the waiter queues all the same, and the next renewal says that the key is marked.
func TestRecallWithoutTheRightIsLeftOut(t *testing.T) {
	t.Parallel()
	q, messages := newKept(t, idleMode)
	require.NoError(t, q.without("publish", q.enter, q.all, q.enterArgs(ours, "1", q.next())))
	require.Empty(t, messages.received())
	require.True(t, q.isMarked())
	require.Equal(t, []any{ours}, q.queue())
	require.Equal(t, int64(5), q.keeps(theirs, time.Minute))
}

// P2, P8: the renewal of a hold that may be idle is that of every hold, and says of a key that is there whether it is marked.
func TestKeepLengthensAsRenewDoes(t *testing.T) {
	t.Parallel()
	hold, other := ours+idleMode, theirs+idleMode
	for name, c := range map[string]struct {
		value string
		want  int64
	}{
		"Unmarked":     {lockSays(hold, noon, "-"), 1},
		"Marked":       {lockSays(hold, noon, "q"), 5},
		"Other":        {lockSays(other, noon, "-"), 0},
		"OtherMarked":  {lockSays(other, noon, "q"), 0},
		"OtherMode":    {lockSays(ours+turnMode, noon, "-"), 0},
		"OtherAttempt": {lockSays(nth("a", 7)+idleMode, noon, "-"), 0},
		"Free":         {idleSays(noon), 0},
		"Released":     {released(noon), 0},
		"Lost":         {"", 0},
		"OtherKind":    {votedFor(ours, noon, ""), 0},
		"Foreign":      {"a text", 0},
	} {
		for _, ttl := range []time.Duration{0, time.Second, time.Hour} {
			kept, renewed := newFixture(t), newFixture(t)
			for _, f := range []*fixture{kept, renewed} {
				if c.value != "" {
					f.set(c.value, 2*time.Minute)
				}
			}
			require.Equal(t, c.want, kept.run(scripts.LockKeep, hold, ttl.Milliseconds()), name)
			require.Equal(t, min(c.want, 1), renewed.run(scripts.HolderRenew, hold, ttl.Milliseconds()), name)
			require.Equal(t, renewed.value(), kept.value(), name)
			require.InDelta(t, renewed.ttl(renewed.key), kept.ttl(kept.key), float64(patience.Milliseconds()), name)
		}
	}
}

// P2: a hold that is over is not there for a question; a renewal that comes before the hand-off brings it back.
func TestKeepOfAHoldThatIsOver(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.suffix = idleMode
	q.has(ours)
	q.queues(theirs)
	q.clock += lease*1000 + 1
	require.Equal(t, int64(0), q.keeps(ours, 0))
	require.Equal(t, int64(5), q.keeps(ours, time.Minute))
	require.Equal(t, ours, q.lockHas())
}

// P2: one bad key spoils no other, and a bad lease deletes no key.
func TestOneBadKeySpoilsNoKeep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hold := ours + idleMode
	f.set(lockSays(hold, noon, "-"), time.Minute)
	list, foreign, lost := f.key+"list", f.key+"foreign", f.key+"lost"
	f.server.MustDo(t, "RPUSH", list, "x")
	f.server.MustDo(t, "SET", foreign, "x")
	replies, err := f.tryKeys(scripts.LockKeep, []string{list, f.key, foreign, lost, f.key, f.key, f.key},
		hold, lease, hold, lease, hold, lease, hold, lease, hold, -1, hold, "x", hold, strings.Repeat("9", 16))
	require.NoError(t, err)
	require.Equal(t, []any{int64(0), int64(1), int64(0), int64(0), int64(-8), int64(-8), int64(-8)}, replies)
	require.Equal(t, lockSays(hold, noon, "-"), f.value())
	require.Equal(t, int64(-8), f.as("+@all", "-pexpire").run(scripts.LockKeep, hold, 60_000))
}

// P1, P6: tickets and holds that may be idle go through all steps of a lock as turns do.
func TestTicketThatMayBeIdleIsAMatterOfItsSession(t *testing.T) {
	t.Parallel()
	trace := func(mode string) (seen []any) {
		q := newLock(t)
		q.suffix = mode
		note := func(what any) { seen = append(seen, what, strings.Replace(q.value(), mode, "", 1), q.ttl(q.key)) }
		note(q.tries(ours))
		note(q.joins(theirs))
		note(q.joins(holdOf("c")))
		note(q.polls(they, theirs))
		note(q.requeues(ours, nth("a", 9)))
		note(q.leaves(theirs))
		note(q.forces(holdOf("c")))
		note(q.leaves(nth("a", 9)))
		note(q.mustRun(scripts.LockAcquireMany, q.all[:1], ours+mode, lease, digits(q.clock), label))
		note(q.mustRun(scripts.LockReleaseMany, q.all[:1], ours+mode, digits(q.clock), keepMS))
		note(q.joins(ours))
		note(q.frees(ours, digits(noon+260)))
		return seen
	}
	require.Equal(t, trace(turnMode), trace(idleMode))
}
