// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"fmt"

	"github.com/signalbox-go/signalbox/scripts"
)

// The scripts that the library sends, in their present versions. A retired version stays in its folder. Those of package wire stand there.
//
//nolint:gochecknoglobals // constants in all but name: read from the embedded files once
var (
	SessionReadStringScript = mustLoad("session/read-string", 1)

	HolderDescribeScript = mustLoad("holder/describe", 1)
	HolderForceScript    = mustLoad("holder/force", 1)
	HolderRenewScript    = mustLoad("holder/renew", 1)

	HoldsRenewScript = mustLoad("holds/renew", 1)
	HoldsDropScript  = mustLoad("holds/drop", 1)
	HoldsListScript  = mustLoad("holds/list", 1)

	QueueHeartbeatScript = mustLoad("queue/heartbeat", 1)

	LockEnterScript       = mustLoad("lock/enter", 1)
	LockPollScript        = mustLoad("lock/poll", 1)
	LockHeartbeatScript   = mustLoad("lock/heartbeat", 1)
	LockKeepScript        = mustLoad("lock/keep", 1)
	LockLeaveScript       = mustLoad("lock/leave", 1)
	LockFreeScript        = mustLoad("lock/free", 1)
	LockRequeueScript     = mustLoad("lock/requeue", 1)
	LockForceScript       = mustLoad("lock/force", 1)
	LockWaitersScript     = mustLoad("lock/waiters", 1)
	LockAcquireManyScript = mustLoad("lock/acquire-many", 1)
	LockReleaseManyScript = mustLoad("lock/release-many", 1)

	RWLockEnterScript     = mustLoad("rwlock/enter", 1)
	RWLockPollScript      = mustLoad("rwlock/poll", 1)
	RWLockLeaveScript     = mustLoad("rwlock/leave", 1)
	RWLockForceScript     = mustLoad("rwlock/force", 1)
	RWLockDowngradeScript = mustLoad("rwlock/downgrade", 1)
	RWLockMayShareScript  = mustLoad("rwlock/may-share", 1)

	SemaphoreEnterScript     = mustLoad("semaphore/enter", 1)
	SemaphorePollScript      = mustLoad("semaphore/poll", 1)
	SemaphoreLeaveScript     = mustLoad("semaphore/leave", 1)
	SemaphoreYieldScript     = mustLoad("semaphore/yield", 1)
	SemaphoreSplitScript     = mustLoad("semaphore/split", 1)
	SemaphoreResizeScript    = mustLoad("semaphore/resize", 1)
	SemaphoreAvailableScript = mustLoad("semaphore/available", 1)

	CountdownStartScript = mustLoad("countdown/start", 1)
	CountdownCountScript = mustLoad("countdown/count", 1)
	CountdownReadScript  = mustLoad("countdown/read", 1)
	CountdownResetScript = mustLoad("countdown/reset", 1)

	ElectionPutScript       = mustLoad("election/put", 1)
	ElectionClearScript     = mustLoad("election/clear", 1)
	ElectionReadScript      = mustLoad("election/read", 1)
	ElectionMoveScript      = mustLoad("election/move", 1)
	ElectionRequestedScript = mustLoad("election/requested", 1)

	ShardsJoinScript    = mustLoad("shards/join", 1)
	ShardsPollScript    = mustLoad("shards/poll", 1)
	ShardsReleaseScript = mustLoad("shards/release", 1)
	ShardsLeaveScript   = mustLoad("shards/leave", 1)
	ShardsReadScript    = mustLoad("shards/read", 1)
	ShardsSetScript     = mustLoad("shards/set", 1)
	ShardsMoveScript    = mustLoad("shards/move", 1)
	ShardsResizeScript  = mustLoad("shards/resize", 1)
	ShardsSyncScript    = mustLoad("shards/sync", 1)
	ShardsListScript    = mustLoad("shards/list", 1)
	ShardsEndScript     = mustLoad("shards/end", 1)

	OnceReadScript   = mustLoad("once/read", 1)
	OnceStoreScript  = mustLoad("once/store", 1)
	OnceForgetScript = mustLoad("once/forget", 1)

	RedlockAcquireScript = mustLoad("redlock/acquire", 1)
	RedlockReleaseScript = mustLoad("redlock/release", 1)
	RedlockPollScript    = mustLoad("redlock/poll", 1)
	RedlockFenceScript   = mustLoad("redlock/fence", 1)
	RedlockHealScript    = mustLoad("redlock/heal", 1)
)

func mustLoad(name string, version int) *scripts.Script { //nolint:unparam // a script that changes after the first release has a 2
	s := scripts.Load(name, version)
	if s == nil {
		panic(fmt.Sprintf("no script %s v%d", name, version)) //nolint:forbidigo // a mistake in this file, which the first test finds
	}
	return s
}
