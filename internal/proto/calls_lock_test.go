// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

var lockCalls = []callRow{
	{scripts.LockEnter, &proto.Enter{}},
	{scripts.RWLockEnter, &proto.EnterShared{Terms: named(&proto.RWTerms{})}},
	{scripts.SemaphoreEnter, &proto.EnterShared{Terms: named(&proto.PermitTerms{})}},
	{scripts.LockRequeue, &proto.Requeue{}},
	{scripts.LockPoll, &proto.Poll{}},
	{scripts.RWLockPoll, &proto.Poll{}},
	{scripts.SemaphorePoll, &proto.Poll{}},
	{scripts.LockHeartbeat, &proto.LockHeartbeat{}},
	{scripts.QueueHeartbeat, &proto.QueueHeartbeat{}},
	{scripts.LockWaiters, &proto.Waiters{}},
	{scripts.LockAcquireMany, &proto.AcquireOne{}},
	{scripts.LockReleaseMany, &proto.ReleaseOne{}},
	{scripts.SemaphoreYield, &proto.Yield{}},
	{scripts.SemaphoreSplit, &proto.Split{}},
	{scripts.SemaphoreResize, &proto.Resize{}},
	{scripts.LockForce, &proto.Force{}},
	{scripts.RWLockForce, &proto.RWForce{}},
	{scripts.RWLockDowngrade, &proto.Downgrade{}},
	{scripts.RWLockMayShare, &proto.MayShare{}},
	{scripts.Load("setnx/acquire", 1), &proto.RetryAcquire{}},
	{scripts.Load("setnx/release", 1), &proto.RetryRelease{}},
	{scripts.Load("redisson/acquire", 1), &proto.RetryAcquire{}},
	{scripts.Load("redisson/release", 1), &proto.RetryRelease{}},
	{scripts.Load("redisson/fair-acquire", 1), &proto.RetryAcquire{Terms: []string{"wait_ms"}}},
	{scripts.Load("redisson/fair-release", 1), &proto.RetryRelease{Terms: []string{"wait_ms"}}},
	{scripts.Load("redisson/rwlock-acquire", 1), &proto.RetryAcquire{Terms: []string{"side"}}},
	{scripts.Load("redisson/rwlock-release", 1), &proto.RetryRelease{}},
	{scripts.Load("redisson/permit-acquire", 1), &proto.RetryAcquire{Terms: []string{"capacity", "exact", "summed"}}},
	{scripts.Load("redisson/permit-release", 1), &proto.RetryRelease{}},
	{scripts.Load("redisson/permit-split", 1), &proto.RetrySwap{Terms: []string{"capacity", "exact", "summed"}}},
	{scripts.LockFree, &proto.Free{}},
	{scripts.LockLeave, &proto.Leave{}},
	{scripts.RWLockLeave, &proto.LeaveShared{}},
	{scripts.SemaphoreLeave, &proto.LeaveShared{}},
}

var lockReplies = []replyRow{
	{scripts.LockEnter, reads(proto.ReadEntered)},
	{scripts.RWLockEnter, reads(proto.ReadEntered)},
	{scripts.SemaphoreEnter, reads(proto.ReadEntered)},
	{scripts.LockRequeue, reads(proto.ReadRequeued)},
	{scripts.LockPoll, reads(proto.ReadPolled)},
	{scripts.RWLockPoll, reads(proto.ReadPolled)},
	{scripts.SemaphorePoll, reads(proto.ReadPolled)},
	{scripts.LockLeave, reads(proto.ReadLeft)},
	{scripts.RWLockLeave, reads(proto.ReadLeft)},
	{scripts.SemaphoreLeave, reads(proto.ReadLeft)},
	{scripts.RWLockDowngrade, reads(proto.ReadDowngraded)},
	{scripts.SemaphoreYield, reads(proto.ReadYielded)},
	{scripts.SemaphoreSplit, reads(proto.ReadSplitDone)},
	{scripts.SemaphoreResize, reads(proto.ReadResized)},
	{scripts.SemaphoreAvailable, reads(proto.ReadAvailable)},
	{scripts.Load("setnx/acquire", 1), reads(proto.ReadTried)},
	{scripts.Load("setnx/release", 1), reads(proto.ReadRetryReleased)},
	{scripts.Load("redisson/acquire", 1), reads(proto.ReadTried)},
	{scripts.Load("redisson/release", 1), reads(proto.ReadRetryReleased)},
	{scripts.Load("redisson/permit-acquire", 1), reads(proto.ReadTried)},
	{scripts.Load("redisson/permit-release", 1), reads(proto.ReadRetryReleased)},
	{scripts.Load("redisson/permit-split", 1), reads(proto.ReadTried)},
}

// named returns the arguments of a part of a call, each the name of its field.
func named(part call) []string {
	fillWithNames(reflect.ValueOf(part).Elem())
	return part.AppendTo(nil)
}

// The calls of a free lock and of a waiter that is granted it are made on the stack of their caller, and replies are values.
func TestCallsOfALockAllocateNothing(t *testing.T) {
	entered, left := redistest.Outcome(int(noon)).Reply, redistest.Outcome([]any{1, noon.Text(), "grants", 1}).Reply
	sent, terms := 0, []string{"1", "0"}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var memory [13]string
		enter, shared := proto.Enter{Waiting: "waiting"}, proto.EnterShared{Terms: terms}
		free, leave := proto.Free{Used: proto.FirstUsed}, proto.Leave{}
		sent = len(enter.AppendTo(memory[:0])) + len(shared.AppendTo(memory[:0])) + len(free.AppendTo(memory[:0])) + len(leave.AppendTo(memory[:0]))
		_, _ = proto.ReadEntered(&entered), proto.ReadLeft(&left)
	}))
	require.Equal(t, 5+13+2+7, sent)
}

func TestEnterPacksWhatTheHeaderSays(t *testing.T) {
	t.Parallel()
	var waiting proto.Waiting
	fillWithNames(reflect.ValueOf(&waiting).Elem())
	_, parts := argNames(scripts.LockEnter)
	require.Equal(t, parts, strings.Fields(waiting.Text()))
}
