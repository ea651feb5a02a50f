// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/scripts"
)

// permit returns the queue of a semaphore of one permit, from the view of u's session.
func (u *user) permit() *Queue {
	tb := u.place
	tb.Helper()
	ls := session.RegistryOf(u.session, "permits", func() *Registry {
		return New(u.session, Config{
			Enter: scripts.SemaphoreEnter, Poll: scripts.SemaphorePoll, Leave: scripts.SemaphoreLeave, Drop: scripts.HoldsDrop,
			Labelled: true,
		})
	})
	n, err := names.Make(names.DefaultPrefix, "a")
	require.NoError(tb, err)
	q := ls.Use(&LockKeys{
		Holder: n.Permits(), All: []string{n.Permits(), n.PermitsQueue(), n.PermitsHeartbeats()},
		Channel: names.Grants(names.DefaultPrefix),
	})
	tb.Cleanup(func() { ls.Done(q) })
	return q
}

// alike is a wish for the permit, with the same request as others.
func alike(like int) *Request {
	return &Request{Life: lease, FloorTTL: "60000", Mode: "0000000001", ShareKey: local.ShareKey{Concurrent: true, Permits: int32(like)}, Args: []string{"1", "0"}, Concurrent: true}
}

// stands returns a place with a ticket.
func (q *Queue) stands(t *testing.T, like int) *QueuedRequest {
	t.Helper()
	p := q.Prepare(alike(like), new(QueuedRequest))
	isGranted, err := p.Join(t.Context())
	require.NoError(t, err)
	require.False(t, isGranted)
	return p
}

// Enter returns when the place has a ticket or was granted its request; a wait that is cut short keeps the
// place.
func TestEnterAndWaitAreSeparate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	q := p.plain().permit()
	free := q.Prepare(alike(1), new(QueuedRequest))
	isGranted, err := free.Join(t.Context())
	require.NoError(t, err)
	require.True(t, isGranted)
	held := free.Leave()
	second := q.stands(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, second.Wait(ctx), context.Canceled)
	isGranted, err = second.Join(t.Context())
	require.NoError(t, err)
	require.False(t, isGranted, "it stands where it stood")
	had, err := held.Release(t.Context(), 0, lease)
	require.NoError(t, err)
	require.True(t, had)
	require.NoError(t, second.Wait(t.Context()))
	isGranted, err = second.Join(t.Context())
	require.NoError(t, err)
	require.True(t, isGranted)
	second.Leave().Abandon()
	p.nothingLeft()
}

// A hold continues, with later tokens, if only waiters with the same request are in the queue; a different
// request makes it pass through the queue.
func TestHoldContinuesForTheSameRequest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	q := p.plain().permit()
	held, err := q.Take(t.Context(), alike(1))
	require.NoError(t, err)
	first, before := q.stands(t, 1), held.Grant()
	fate, err := held.Yield(t.Context(), scripts.SemaphoreYield)
	require.NoError(t, err)
	require.Equal(t, YieldKept, fate)
	grant := held.Grant()
	require.Greater(t, grant.Stamp, before.Stamp)
	require.Equal(t, grant.Stamp.BlockEnd(), grant.Last)
	require.Greater(t, grant.Last, grant.Stamp)
	require.Equal(t, lease, grant.Life)
	require.Positive(t, grant.Sent.Until(before.Sent))

	other := q.stands(t, 2)
	fate, err = held.Yield(t.Context(), scripts.SemaphoreYield)
	require.NoError(t, err)
	require.Equal(t, YieldReleased, fate)
	require.NoError(t, first.Wait(t.Context()), "who was first has it")
	held = first.Leave()
	require.Greater(t, held.Grant().Stamp, grant.Last)
	require.Greater(t, held.Grant().Last, held.Grant().Stamp, "who waited has a block of tokens")
	_, attempts, _ := q.registry.Len()
	require.Equal(t, 2, attempts, "those of the holder and of the other")
	require.Nil(t, other.Leave())

	p.server.MustDo(t, "DEL", q.keys.Holder)
	fate, err = held.Yield(t.Context(), scripts.SemaphoreYield)
	require.NoError(t, err)
	require.Equal(t, YieldGone, fate)
	held.Abandon()
}
