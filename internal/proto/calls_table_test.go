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
	{scripts.ShardsJoin, &proto.ShardsJoin{}},
	{scripts.ShardsPoll, &proto.ShardsPoll{}},
	{scripts.ShardsRelease, &proto.ShardsRelease{}},
	{scripts.ShardsLeave, &proto.ShardsMember{}},
	{scripts.ShardsEnd, &proto.ShardsMember{}},
	{scripts.ShardsSet, &proto.ShardsSet{}},
	{scripts.ShardsMove, &proto.ShardsMove{}},
	{scripts.ShardsResize, &proto.ShardsResize{}},
	{scripts.ShardsSync, &proto.ShardsSync{}},
	{scripts.ShardsRead, &proto.ShardsRead{}},
	{scripts.ShardsList, &proto.ShardsList{}},
	{scripts.CountdownStart, &proto.CountdownStart{}},
	{scripts.CountdownCount, &proto.CountdownCount{}},
	{scripts.CountdownReset, &proto.CountdownReset{}},
	{scripts.Load("redisson/latch-start", 1), &publishingStart{}},
	{scripts.Load("redisson/latch-count", 1), &proto.CountdownCount{}},
	{scripts.Load("redisson/latch-reset", 1), &proto.CountdownReset{}},
	{scripts.Load("redisson/latch-read", 1), &proto.CountdownPoll{}},
	{scripts.OnceStore, &proto.OnceStore{}},
	{scripts.OnceForget, &proto.OnceForget{}},
	{scripts.ElectionPut, &proto.ElectionPut{}},
	{scripts.ElectionClear, &proto.ElectionClear{}},
	{scripts.ElectionMove, &proto.ElectionMove{}},
	{scripts.ElectionRequested, &proto.ElectionRequested{}},
	{scripts.RedlockAcquire, &proto.RedlockAcquire{}},
	{scripts.RedlockRelease, &proto.RedlockRelease{}},
	{scripts.RedlockFence, &proto.RedlockFence{}},
	{scripts.HolderForce, &proto.Force{}},
	{scripts.HolderRenew, &proto.Renewal{}},
	{scripts.HoldsRenew, &proto.Renewal{}},
	{scripts.LockKeep, &proto.Renewal{}},
	{scripts.HoldsList, &proto.HoldsList{}},
	{scripts.Load("redisson/rwlock-list", 1), &proto.HoldsList{}},
	{scripts.Load("redisson/permit-list", 1), &proto.HoldsList{}},
	{scripts.Load("redisson/permit-force", 1), &proto.PermitsForce{}},
	{scripts.SessionReadString, &proto.SessionReadString{}},
}

var replies = []replyRow{
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
	names, parts := argNames(scripts.RedlockHeal)
	require.Equal(t, append(names, parts...), call.Hold.AppendTo(call.Head.AppendTo(nil)))
}
