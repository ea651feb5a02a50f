// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// P7: polls of one session fall on common instants, each within a pause of the last one.
func TestPollsOfManyQueuesGoTogether(t *testing.T) {
	t.Parallel()
	registry := &Queues{phase: 123 * time.Millisecond, drift: 0.003}
	registry.mu.pendingQueues = 500
	q, instants := &Queue{registry: registry}, map[time.Duration]bool{}
	for n := range 1000 {
		now := time.Minute + time.Duration(n)*time.Millisecond
		next := q.nextPollLocked(now)
		require.LessOrEqual(t, next-now, notify.PollInterval*9/10)
		require.Greater(t, next-now, notify.PollInterval*4/5)
		instants[next] = true
	}
	require.LessOrEqual(t, len(instants), 11)
}

// P6: a heartbeat does only as long as everything is as the last poll saw it.
func TestHeartbeatReplacesPollsDuringALongHold(t *testing.T) {
	t.Parallel()
	now := timers.Now()
	listening := &grantListener{}
	for name, c := range map[string]struct {
		change func(q *Queue)
		want   bool
	}{
		"Unchanged":   {func(*Queue) {}, true},
		"NeverPolled": {func(q *Queue) { q.polledStamp = 0 }, false},
		"HoldEnds":    {func(q *Queue) { q.holdEnds = now.Mono() }, false},
		"PolledLong":  {func(q *Queue) { q.polledAt = now.Mono() - pollAnywayAfter*notify.PollInterval }, false},
		"NoListener":  {func(q *Queue) { q.listener = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &Queue{registry: &Queues{}, listener: listening, waitState: &waitState{polledStamp: 1, holdEnds: now.Mono() + time.Second, polledAt: now.Mono()}}
			c.change(q)
			require.Equal(t, c.want, q.isUnchangedLocked(now))
		})
	}
}

// P7: one call for as many locks as may be; they share a slot until it is known that scripts may span slots.
func TestHeartbeatsGoTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.direct()
	var heartbeats []queuePoll
	for i := range 2*maxHeartbeats + 1 {
		heartbeats = append(heartbeats, queuePoll{q: &Queue{registry: u.Queues, keys: &proto.Set{Slot: uint16(i % 2)}}, expectedStamp: 1})
	}
	sizes := func(ctx context.Context) (sizes []int) {
		for _, group := range u.groupHeartbeats(ctx, heartbeats) {
			sizes = append(sizes, len(group))
		}
		return sizes
	}
	ended, cancel := context.WithCancel(f.Context())
	cancel()
	require.Equal(t, []int{maxHeartbeats, 1, maxHeartbeats}, sizes(ended), "not known yet")
	require.True(t, u.session.Runner.Span.CertainlySpansSlots(f.Context()))
	require.Equal(t, []int{maxHeartbeats, maxHeartbeats, 1}, sizes(f.Context()))
	require.Empty(t, u.groupHeartbeats(f.Context(), nil))
}
