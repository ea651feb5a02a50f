// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// acquiresMany asks for several keys, each for an attempt of its own.
func (q *queued) acquiresMany(keys ...string) []any {
	q.Helper()
	args := make([]any, 0, 4*len(keys))
	for n := range keys {
		args = append(args, nth("a", n)+turnMode, lease, digits(q.clock), label)
	}
	return q.mustRun(scripts.LockAcquireMany, keys, args...)
}

// releasesMany releases them.
func (q *queued) releasesMany(keys ...string) []any {
	q.Helper()
	args := make([]any, 0, 3*len(keys))
	for n := range keys {
		args = append(args, nth("a", n)+turnMode, digits(0), keepMS)
	}
	return q.mustRun(scripts.LockReleaseMany, keys, args...)
}

func (q *queued) moreKeys(ends ...string) []string {
	keys := []string{q.key}
	for _, end := range ends {
		keys = append(keys, strings.TrimSuffix(q.key, "lock")+end)
	}
	return keys
}

func TestAcquireManyTakesWhatIsFreeAndReleaseManyReleasesIt(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.set(released(noon+9), time.Minute)
	keys := q.moreKeys("lock2")
	want := []any{digits(noon + 10), digits(noon)}
	require.Equal(t, want, q.acquiresMany(keys...))
	require.Equal(t, until(nth("a", 0), noon+lease*1000), q.held())
	q.clock += second
	require.Equal(t, want, q.acquiresMany(keys...), "its own holds again")
	require.Equal(t, until(nth("a", 0), q.clock+lease*1000), q.held(), "and longer")
	require.Equal(t, []any{int64(1), int64(1)}, q.releasesMany(keys...))
	require.Equal(t, []any{int64(0), int64(0)}, q.releasesMany(keys...))
	require.Equal(t, released(noon+10), q.value())
	q.requireLife(floorLife)
}

// K4: a lock that is held, or that others may wait for, is not taken, and none behind it.
func TestAcquireManyStopsAtWhatItCannotTake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(q *queued)
		want    func(q *queued) any
	}{
		"Held":   {func(q *queued) { q.has(theirs) }, func(q *queued) any { return []any{int64(0), int64(lease), digits(q.clock)} }},
		"Marked": {func(q *queued) { q.has(theirs); q.queues(ours) }, func(q *queued) any { return []any{int64(0), int64(lease), digits(q.clock)} }},
		"Ended": {func(q *queued) {
			q.has(theirs)
			q.queues(ours)
			q.clock += lease*1000 + second
		}, func(q *queued) any { return []any{int64(0), int64(0), digits(q.clock)} }},
		"Idle": {func(q *queued) {
			q.has(theirs)
			q.queues(ours)
			q.drops(theirs)
		}, func(q *queued) any { return []any{int64(0), int64(0), digits(q.clock)} }},
		"OtherKind": {func(q *queued) { q.puts("Unmarked", q.key) }, func(*queued) any { return []any{int64(-2), "q"} }},
		"ReadWrite": {func(q *queued) { q.puts("ReadWrite", q.key) }, func(*queued) any { return []any{int64(-2), "w"} }},
		"String":    {func(q *queued) { q.puts("String", q.key) }, func(*queued) any { return []any{int64(-2), "?"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			c.prepare(q)
			unchanged := q.unchanged()
			keys := q.moreKeys("behind")
			require.Equal(t, []any{c.want(q)}, q.acquiresMany(keys...))
			unchanged()
			require.Nil(t, q.server.MustDo(t, "GET", keys[1]))
			require.Equal(t, int64(0), q.releasesMany(keys[1], keys[0])[0])
			unchanged()
		})
	}
}

func TestLateAcquireManyTakesNothing(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	reply := q.mustRun(scripts.LockAcquireMany, q.all[:1], ours+turnMode, lease, digits(noon-1), label)
	require.Equal(t, []any{[]any{int64(-1), digits(noon)}}, reply)
	require.Empty(t, q.value())
}

// A release of several leaves a lock that others may wait for to a leave, which hands it over.
func TestReleaseManyLeavesAMarkedLockAlone(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(nth("a", 0))
	q.queues(theirs)
	unchanged := q.unchanged()
	require.Equal(t, []any{int64(-3)}, q.releasesMany(q.key))
	unchanged()
	require.Equal(t, int64(1), q.leaves(nth("a", 0))[0])
	require.Contains(t, q.held(), theirs)
}

// P10: refusals of one key are its own, and a release is done when memory is full or a right is missing.
func TestAcquireManyAndReleaseManyWhenRefused(t *testing.T) {
	t.Parallel()
	q := queuedOf(newFixtureAt(t), lockQueue)
	keys := q.moreKeys("list", "lock3")
	q.server.MustDo(t, "RPUSH", keys[1], "x")
	q.acquiresMany(keys[:1]...)
	args := []any{nth("a", 0) + turnMode, digits(0), keepMS, ours + turnMode, digits(0), keepMS, theirs + turnMode, "", keepMS}
	reply := q.mustRun(scripts.LockReleaseMany, keys, args...)
	require.Equal(t, int64(1), reply[0])
	require.ErrorContains(t, reply[1].(error), "WRONGTYPE")
	require.Equal(t, int64(0), reply[2])

	q.acquiresMany(keys[:1]...)
	require.NoError(t, q.without("set", scripts.LockReleaseMany, keys[:1], args[:3]))
	require.Empty(t, q.value(), "without its floor")
	q.acquiresMany(keys[:1]...)
	q.fill()
	require.Equal(t, []any{int64(1)}, q.releasesMany(keys[:1]...))
	require.Equal(t, "sb1-", q.value()[:4])
	refused := q.acquiresMany(keys[:1]...)
	require.ErrorContains(t, refused[0].(error), "OOM")
}

// Scripts for a holder key of any kind work on this one.
func TestDescribeAndRenewOfALock(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{turnMode, fairMode} {
		for name, marks := range map[string]bool{"Unmarked": false, "Marked": true} {
			t.Run(mode+name, func(t *testing.T) {
				t.Parallel()
				q := newLock(t)
				q.suffix = mode
				q.has(ours)
				if marks {
					q.queues(theirs)
				}
				ends := noon/1000 + lease
				describes := func() []any { return q.alone(scripts.HolderDescribe) }
				require.Equal(t, []any{int64(1), mode, digits(noon), ours, label, ends}, describes())
				for _, hold := range []string{ours, ours + mode} {
					require.Equal(t, []any{int64(1)}, q.alone(scripts.HolderRenew, hold, 2*lease))
					require.Equal(t, []any{int64(1)}, q.alone(scripts.HolderRenew, hold, 0))
					require.Equal(t, []any{int64(1)}, q.alone(scripts.HolderRenew, hold, 1), "it is not made shorter")
				}
				require.Equal(t, until(ours, noon+2*lease*1000), q.held())
				require.Equal(t, marks, q.isMarked())
				require.Equal(t, []any{int64(0)}, q.alone(scripts.HolderRenew, theirs, lease))
				require.Equal(t, []any{int64(0)}, q.alone(scripts.HolderForce, ours, "PUBLISH", q.channel, q.notified(), keepMS), "lock/force does that")
				q.clock += 2 * lease * 1000
				require.Equal(t, []any{int64(0)}, describes())
				require.Equal(t, []any{int64(0)}, q.alone(scripts.HolderRenew, ours, 0))
			})
		}
	}
	q := newLock(t)
	q.has(theirs)
	q.queues(ours)
	q.drops(theirs)
	require.Equal(t, []any{int64(0)}, q.alone(scripts.HolderDescribe), "it is free for the queue")
	for _, value := range []string{idleSays(noon)[:62], lockSays(ours+turnMode, noon, "-") + strings.Repeat("x", 74-len(label))} {
		q.set(value, time.Minute)
		require.Equal(t, []any{int64(-2), "?"}, q.alone(scripts.HolderDescribe))
		require.Equal(t, []any{int64(-2), "?"}, q.tries(ours))
	}
}
