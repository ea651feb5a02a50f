// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// addWaiting adds n attempts in that state.
func (q *Queue) addWaiting(n int, state attemptState) []*Attempt {
	added := make([]*Attempt, n)
	for i := range added {
		added[i] = &Attempt{q: q, state: state, place: pending}
		added[i].addToListLocked()
	}
	return added
}

// P6: with any number of waiters, a poll lists the first ones each time, and every other one in its turn.
func TestEveryWaiterIsListedInItsTurn(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 64, 100, 128, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			q := &Queue{waitState: new(waitState)}
			waiting := q.addWaiting(n, queued)
			waiting[0].state = entering
			seen := make(map[*Attempt]bool)
			for range n/(maxListed-maxFirst) + 2 {
				listed := q.listLocked()
				require.LessOrEqual(t, len(listed), maxListed)
				for _, a := range waiting[:min(n, maxFirst)] {
					require.Equal(t, a.state == queued, slices.Contains(listed, a))
				}
				once := make(map[*Attempt]bool)
				for _, a := range listed {
					require.False(t, once[a], "twice")
					once[a], seen[a] = true, true
				}
			}
			require.Len(t, seen, n-1)
		})
	}
}

func TestPossiblyGrantedAttemptIsListedFirst(t *testing.T) {
	t.Parallel()
	q := &Queue{waitState: new(waitState)}
	waiting := q.addWaiting(100, queued)
	waiting[77].addToFirstLocked()
	waiting[77].state = entering
	require.Same(t, waiting[77], q.listLocked()[0])
	require.NotContains(t, q.listLocked()[:1], waiting[77])
}

// Grants of many permits may come at once, after a stall, with heartbeats that are no longer known: each attempt is
// listed before the others, if need be by a later poll.
func TestPossiblyGrantedAttemptsAreAllListedFirst(t *testing.T) {
	t.Parallel()
	q := &Queue{waitState: new(waitState)}
	waiting := q.addWaiting(2*maxListed+2, entering)
	for _, a := range waiting {
		a.addToFirstLocked()
	}
	q.waiting.remove(waiting[0])
	waiting[0].place = noPlace
	require.Equal(t, waiting[1:maxListed+1], q.listLocked())
	require.Equal(t, waiting[maxListed+1:2*maxListed+1], q.listLocked())
	require.Equal(t, waiting[2*maxListed+1:], q.listLocked())
	require.Empty(t, q.listLocked())
}

// P7: a listener of one queue finds it among thousands without a search, and one of several finds those that still use it.
func TestListenerFindsItsQueues(t *testing.T) {
	t.Parallel()
	registry := &Queues{}
	registry.mu.listeners = make(map[string]*grantListener)
	registry.mu.queues = newTable(func(q *Queue) string { return q.keys.Holder })
	listen := func(name, channel string) *Queue {
		q := &Queue{registry: registry, keys: &proto.Set{Holder: name}}
		q.listener = registry.listenerLocked(channel, q)
		registry.mu.queues.put(q)
		return q
	}
	alone := listen("alone", "x")
	registry.mu.queues.remove("alone")
	require.Equal(t, []*Queue{alone}, slices.Collect(alone.listener.queuesLocked()), "not by a search")
	one, other, left := listen("one", "y"), listen("other", "y"), listen("left", "y")
	left.listener = nil
	require.ElementsMatch(t, []*Queue{one, other}, slices.Collect(one.listener.queuesLocked()))
	require.False(t, one.listener.removeQueueLocked())
}

// P2: a heartbeat is known until its life is over by our clocks, and is never changed.
func TestHeartbeatPaysForItsOwnLife(t *testing.T) {
	t.Parallel()
	registry := &Queues{}
	now := timers.Now()
	first := registry.heartbeatLocked(now)
	second := registry.heartbeatLocked(now.Add(time.Second))
	require.Less(t, first.number, second.number)
	got, ok := registry.findHeartbeatLocked(first.number, now.Add(2*time.Second))
	require.True(t, ok)
	require.Equal(t, first, got)
	end := first.expires()
	require.Less(t, end.Until(now), first.life)
	_, ok = registry.findHeartbeatLocked(first.number, end)
	require.False(t, ok, "it is over")
	_, ok = registry.findHeartbeatLocked(second.number, end)
	require.True(t, ok)
	_, ok = registry.findHeartbeatLocked("000000000003abcdefgh", now)
	require.False(t, ok, "it is not known")
	// The wall clock counts too: the host may have been suspended.
	_, ok = registry.findHeartbeatLocked(second.number, timers.At(now.Mono(), now.Time().Add(time.Hour)))
	require.False(t, ok)
	for n := range 10_000 {
		registry.heartbeatLocked(now.Add(time.Duration(n) * 100 * time.Millisecond))
	}
	require.LessOrEqual(t, len(registry.mu.heartbeats), 31)
}

// A poll forgets a queue in which no attempt waits, unless a caller uses it: another caller would get a second queue.
func TestQueueInUseIsKeptByItsPoll(t *testing.T) {
	t.Parallel()
	u := newFixture(t).direct()
	require.Empty(t, u.appendPoll(nil, u.q))
	require.Same(t, u.q, u.use(u.q.keys))
	u.done(u.q)
}
