// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

var calls = []callRow{
	{proto.LockEnterScript, &proto.Enter{}},
	{proto.RWLockEnterScript, &proto.EnterShared{Terms: named(&proto.RWTerms{})}},
	{proto.SemaphoreEnterScript, &proto.EnterShared{Terms: named(&proto.PermitTerms{})}},
	{proto.LockRequeueScript, &proto.Requeue{}},
	{proto.LockPollScript, &proto.Poll{}},
	{proto.RWLockPollScript, &proto.Poll{}},
	{proto.SemaphorePollScript, &proto.Poll{}},
	{proto.LockHeartbeatScript, &proto.LockHeartbeat{}},
	{proto.QueueHeartbeatScript, &proto.QueueHeartbeat{}},
	{proto.LockWaitersScript, &proto.Waiters{}},
	{proto.LockAcquireManyScript, &proto.AcquireOne{}},
	{proto.LockReleaseManyScript, &proto.ReleaseOne{}},
	{proto.SemaphoreYieldScript, &proto.Yield{}},
	{proto.SemaphoreSplitScript, &proto.Split{}},
	{proto.SemaphoreResizeScript, &proto.Resize{}},
	{proto.LockForceScript, &proto.Force{}},
	{proto.RWLockForceScript, &proto.RWForce{}},
	{proto.RWLockDowngradeScript, &proto.Downgrade{}},
	{proto.RWLockMayShareScript, &proto.MayShare{}},
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
	{proto.LockFreeScript, &proto.Free{}},
	{proto.LockLeaveScript, &proto.Leave{}},
	{proto.RWLockLeaveScript, &proto.LeaveShared{}},
	{proto.SemaphoreLeaveScript, &proto.LeaveShared{}},
	{proto.ShardsJoinScript, &proto.ShardsJoin{}},
	{proto.ShardsPollScript, &proto.ShardsPoll{}},
	{proto.ShardsReleaseScript, &proto.ShardsRelease{}},
	{proto.ShardsLeaveScript, &proto.ShardsLeave{}},
	{proto.ShardsEndScript, &proto.ShardsMember{}},
	{proto.ShardsSetScript, &proto.ShardsSet{}},
	{proto.ShardsMoveScript, &proto.ShardsMove{}},
	{proto.ShardsResizeScript, &proto.ShardsResize{}},
	{proto.ShardsSyncScript, &proto.ShardsSync{}},
	{proto.ShardsReadScript, &proto.ShardsRead{}},
	{proto.ShardsListScript, &proto.ShardsList{}},
	{proto.CountdownStartScript, &proto.CountdownStart{}},
	{proto.CountdownCountScript, &proto.CountdownCount{}},
	{proto.CountdownResetScript, &proto.CountdownReset{}},
	{scripts.Load("redisson/latch-start", 1), &publishingStart{}},
	{scripts.Load("redisson/latch-count", 1), &proto.CountdownCount{}},
	{scripts.Load("redisson/latch-reset", 1), &proto.CountdownReset{}},
	{scripts.Load("redisson/latch-read", 1), &proto.CountdownPoll{}},
	{proto.OnceStoreScript, &proto.OnceStore{}},
	{proto.OnceForgetScript, &proto.OnceForget{}},
	{proto.ElectionPutScript, &proto.ElectionPut{}},
	{proto.ElectionClearScript, &proto.ElectionClear{}},
	{proto.ElectionMoveScript, &proto.ElectionMove{}},
	{proto.ElectionRequestedScript, &proto.ElectionRequested{}},
	{proto.RedlockAcquireScript, &proto.RedlockAcquire{}},
	{proto.RedlockReleaseScript, &proto.RedlockRelease{}},
	{proto.RedlockFenceScript, &proto.RedlockFence{}},
	{proto.HolderForceScript, &proto.Force{}},
	{proto.HolderRenewScript, &proto.Renewal{}},
	{proto.HoldsRenewScript, &proto.Renewal{}},
	{proto.LockKeepScript, &proto.Renewal{}},
	{proto.HoldsListScript, &proto.HoldsList{}},
	{scripts.Load("redisson/rwlock-list", 1), &proto.HoldsList{}},
	{scripts.Load("redisson/permit-list", 1), &proto.HoldsList{}},
	{scripts.Load("redisson/permit-force", 1), &proto.PermitsForce{}},
	{proto.SessionReadStringScript, &proto.SessionReadString{}},
}

var replies = []replyRow{
	{proto.LockEnterScript, reads(proto.ReadEntered)},
	{proto.RWLockEnterScript, reads(proto.ReadEntered)},
	{proto.SemaphoreEnterScript, reads(proto.ReadEntered)},
	{proto.LockRequeueScript, reads(proto.ReadRequeued)},
	{proto.LockPollScript, reads(proto.ReadPolled)},
	{proto.RWLockPollScript, reads(proto.ReadPolled)},
	{proto.SemaphorePollScript, reads(proto.ReadPolled)},
	{proto.LockLeaveScript, reads(proto.ReadLeft)},
	{proto.RWLockLeaveScript, reads(proto.ReadLeft)},
	{proto.SemaphoreLeaveScript, reads(proto.ReadLeft)},
	{proto.RWLockDowngradeScript, reads(proto.ReadDowngraded)},
	{proto.SemaphoreYieldScript, reads(proto.ReadYielded)},
	{proto.SemaphoreSplitScript, reads(proto.ReadSplitDone)},
	{proto.SemaphoreResizeScript, reads(proto.ReadResized)},
	{proto.SemaphoreAvailableScript, reads(proto.ReadAvailable)},
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
	_, parts := argNames(proto.LockEnterScript)
	require.Equal(t, parts, strings.Fields(waiting.Text()))
}

// A reply to a join with a code that no version has is no lease of no time.
func TestAJoinOfAnUnknownCodeIsUnreadable(t *testing.T) {
	t.Parallel()
	known := map[wire.Code]bool{wire.Done: true, wire.Late: true, wire.Foreign: true, wire.OtherCapacity: true}
	for code := -12; code <= 3; code++ {
		reply := redistest.Outcome([]any{code, noon.Text(), noon.Text(), 30_000_000, 3, 0}).Reply
		joined, err := proto.ReadShardsJoined(&reply)
		if known[wire.Code(code)] {
			require.NoError(t, err, code)
			require.Equal(t, wire.Code(code), joined.Code)
			continue
		}
		require.ErrorIs(t, err, wire.ErrUnreadable, code)
	}
}

// publishingStart is the start of a layout that publishes.
type publishingStart struct{ proto.CountdownStart }

func (c *publishingStart) AppendTo(args []string) []string { return c.AppendPublishing(args) }

// The call of redlock/heal ends in a part for each hold.
func TestHealHasTheArgumentsOfTheHeader(t *testing.T) {
	t.Parallel()
	var call struct {
		Head proto.RedlockHeal
		Hold proto.RedlockHealHold
	}
	fillWithNames(reflect.ValueOf(&call).Elem())
	names, parts := argNames(proto.RedlockHealScript)
	require.Equal(t, append(names, parts...), call.Hold.AppendTo(call.Head.AppendTo(nil)))
}
