// SPDX-License-Identifier: Apache-2.0

package redisson

import "github.com/signalbox-go/signalbox/scripts"

// The scripts in use.
//
//nolint:gochecknoglobals // constants in all but name
var (
	acquireScript  = scripts.Load("redisson/acquire", 1)
	fenceScript    = scripts.Load("redisson/fence", 1)
	releaseScript  = scripts.Load("redisson/release", 1)
	pollScript     = scripts.Load("redisson/poll", 1)
	renewScript    = scripts.Load("redisson/renew", 1)
	describeScript = scripts.Load("redisson/describe", 1)
	forceScript    = scripts.Load("redisson/force", 1)

	fairAcquireScript = scripts.Load("redisson/fair-acquire", 1)
	fairReleaseScript = scripts.Load("redisson/fair-release", 1)
	fairForceScript   = scripts.Load("redisson/fair-force", 1)
	fairWaitersScript = scripts.Load("redisson/fair-waiters", 1)

	rwAcquireScript   = scripts.Load("redisson/rwlock-acquire", 1)
	rwReleaseScript   = scripts.Load("redisson/rwlock-release", 1)
	rwRenewScript     = scripts.Load("redisson/rwlock-renew", 1)
	rwPollScript      = scripts.Load("redisson/rwlock-poll", 1)
	rwMayShareScript  = scripts.Load("redisson/rwlock-may-share", 1)
	rwDowngradeScript = scripts.Load("redisson/rwlock-downgrade", 1)
	rwListScript      = scripts.Load("redisson/rwlock-list", 1)
	rwForceScript     = scripts.Load("redisson/rwlock-force", 1)

	permitAcquireScript   = scripts.Load("redisson/permit-acquire", 1)
	permitReleaseScript   = scripts.Load("redisson/permit-release", 1)
	permitRenewScript     = scripts.Load("redisson/permit-renew", 1)
	permitSplitScript     = scripts.Load("redisson/permit-split", 1)
	permitResizeScript    = scripts.Load("redisson/permit-resize", 1)
	permitAvailableScript = scripts.Load("redisson/permit-available", 1)
	permitListScript      = scripts.Load("redisson/permit-list", 1)
	permitForceScript     = scripts.Load("redisson/permit-force", 1)

	latchStartScript = scripts.Load("redisson/latch-start", 1)
	latchCountScript = scripts.Load("redisson/latch-count", 1)
	latchReadScript  = scripts.Load("redisson/latch-read", 1)
	latchResetScript = scripts.Load("redisson/latch-reset", 1)
)
