// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/waitroom"
)

var permitsKind = Protocol{QueueScripts: &proto.QueueScripts{
	Enter: proto.SemaphoreEnterScript, Poll: proto.SemaphorePollScript, Leave: proto.SemaphoreLeaveScript, Drop: proto.HoldsDropScript, Labelled: true,
}}

// permitsKeys returns the keys of the semaphore of the tests.
func permitsKeys(tb testing.TB) *proto.Set {
	tb.Helper()
	n, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, "a")
	require.NoError(tb, err)
	n = n.ForSemaphore()
	return &n
}

// permitWithKey is a request for the permit, with that share key.
func permitWithKey(key int) *Request {
	return &Request{Life: lease, FloorTTL: "60000", Mode: "0000000001", ShareKey: waitroom.ShareKey{Concurrent: true, Permits: int32(key)}, Args: []string{"1", "0"}, Concurrent: true}
}

// joinWaiting returns a request that has a ticket.
func (q *Queue) joinWaiting(t *testing.T, key int) *QueuedTicket {
	t.Helper()
	r := q.newRequest(permitWithKey(key))
	isGranted, err := r.Join(t.Context())
	require.NoError(t, err)
	require.False(t, isGranted)
	return r
}

// A hold continues, with later tokens, if only waiters with the same share key are in the queue; a different
// share key makes it go through the queue.
func TestHoldContinuesForTheSameRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	q := f.joinAs(f.server, permitsKind, permitsKeys(f), nil).q
	held, err := q.Take(t.Context(), permitWithKey(1))
	require.NoError(t, err)
	first, before := q.joinWaiting(t, 1), held.Grant()
	result, err := held.Yield(t.Context(), proto.SemaphoreYieldScript)
	require.NoError(t, err)
	require.Equal(t, YieldKept, result)
	grant := held.Grant()
	require.Greater(t, grant.Stamp, before.Stamp)
	require.Equal(t, grant.Stamp.BlockEnd(), grant.Last)
	require.Greater(t, grant.Last, grant.Stamp)
	require.Equal(t, lease, grant.Life)
	require.Positive(t, grant.Sent.Until(before.Sent))

	other := q.joinWaiting(t, 2)
	result, err = held.Yield(t.Context(), proto.SemaphoreYieldScript)
	require.NoError(t, err)
	require.Equal(t, YieldReleased, result)
	require.NoError(t, first.Wait(t.Context()), "the first waiter has it")
	held = grantedTo(first)
	require.Greater(t, held.Grant().Stamp, grant.Last)
	require.Greater(t, held.Grant().Last, held.Grant().Stamp, "a waiter has a block of tokens")
	_, attempts, _ := q.registry.Len()
	require.Equal(t, 2, attempts, "those of the holder and of the other")
	require.Nil(t, grantedTo(other))

	f.server.MustDo(t, "DEL", q.keys.Holder)
	result, err = held.Yield(t.Context(), proto.SemaphoreYieldScript)
	require.NoError(t, err)
	require.Equal(t, YieldGone, result)
	held.Abandon()
}
