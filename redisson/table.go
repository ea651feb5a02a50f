// SPDX-License-Identifier: Apache-2.0

package redisson

import (
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/scripts"
)

// tables are the layouts of all variants. The default of channels is the same layout as ShardedChannels.
//
//nolint:gochecknoglobals // a constant table
var tables = func() (all [variants]*proto.Layout) {
	for v := range variants {
		if all[v] = newTable(v); v&(PlainChannels|ShardedChannels) == ShardedChannels {
			all[v] = all[v&^ShardedChannels]
		}
	}
	return all
}()

// tableWithFairWait returns the layout of Java clients whose fairLockWaitTimeout is wait. Only a fair lock has it.
func tableWithFairWait(v variant, wait time.Duration) *proto.Layout {
	l := *tables[v]
	l.Name = "RedissonFairLock"
	if wait != defaultFairWait {
		l.Fair = fairLock(fmt.Sprintf("%s, %v", l.Fair.RegistryName, wait), wait)
	}
	l.Lock, l.RWLock, l.Semaphore, l.PlainSemaphore, l.Latch = nil, nil, nil, nil, nil
	return &l
}

func newTable(v variant) *proto.Layout {
	l := &proto.Layout{
		Name:     "Redisson",
		Names:    makeNames,
		Hold:     newHold,
		Session:  sessionOf,
		Describe: describeScript,
		// The message of every release. It does not name the releasing session, so a waiter that backs off
		// for a moment takes each message for its own.
		WaiterID: "0",
		Reader:   &reader,
	}
	if v&PlainChannels != 0 {
		l.Channels = proto.PlainChannels
		if v&ShardedChannels != 0 {
			l.Channels |= proto.ShardedChannels
		}
	}
	registry := fmt.Sprintf(" in Redisson's layout, %d", v) // the end of all registry names
	if v&Fenced != 0 {
		l.Name = "Redisson's RFencedLock"
		l.Lock = fencedLock("reentrant" + registry)
		return l
	}
	l.Lock = reentrantLock("reentrant" + registry)
	l.Fair = fairLock("fair"+registry, defaultFairWait)
	l.RWLock = rwLock("rwlock" + registry)
	l.Semaphore = semaphore("semaphore"+registry, permitsSuffix)
	l.PlainSemaphore = plainSemaphore("plain semaphore" + registry)
	l.Latch = latch("countdown" + registry)
	return l
}

// reentrantLock returns RLock.
func reentrantLock(registry string) *proto.ExclusiveTable {
	return &proto.ExclusiveTable{
		Table: proto.Table{
			RegistryName: registry,
			Keys: func(n proto.Set) proto.Keys {
				return proto.Keys{All: []string{n.Holder}, Channel: n.More}
			},
			Renew: renewScript,
			Retry: &proto.Retry{
				Acquire: acquireScript, Release: releaseScript, Poll: pollScript, HandsOver: true,
			},
		},
		CompatibleKinds: "r",
		Force:           forceScript,
	}
}

// fencedLock returns RFencedLock. Its tokens are the numbers of a counter, and Java clients count
// one for each holder. So each goroutine acquires the lock at the server.
func fencedLock(registry string) *proto.ExclusiveTable {
	l := reentrantLock(registry)
	l.Keys = func(n proto.Set) proto.Keys {
		return proto.Keys{All: []string{n.Holder, tokenKey(n.Holder)}, Channel: n.More}
	}
	l.Retry.Acquire, l.Retry.HandsOver = fenceScript, false
	return l
}

func fairLock(registry string, wait time.Duration) *proto.ExclusiveTable {
	return &proto.ExclusiveTable{
		Table: proto.Table{
			RegistryName: registry,
			Keys: func(n proto.Set) proto.Keys {
				queue, deadlines := prefixed("redisson_lock_queue", n.Holder), prefixed("redisson_lock_timeout", n.Holder)
				return proto.Keys{All: []string{n.Holder, queue, deadlines}, Channel: n.More + ":"}
			},
			Renew: renewScript,
			Retry: &proto.Retry{
				Acquire: fairAcquireScript, Release: fairReleaseScript, ChannelPerWaiter: true,
				Args: []string{strconv.FormatInt(wait.Milliseconds(), 10)},
			},
		},
		CompatibleKinds: "r", // its hash is an RLock's
		Force:           fairForceScript,
		Waiters:         fairWaitersScript,
	}
}

func rwLock(registry string) *proto.RWLockTable {
	return &proto.RWLockTable{
		Table: proto.Table{
			RegistryName: registry,
			Keys: func(n proto.Set) proto.Keys {
				return proto.Keys{All: []string{n.Holder}, Channel: prefixed("redisson_rwlock", n.Holder)}
			},
			Renew: rwRenewScript,
			Retry: &proto.Retry{
				Acquire: rwAcquireScript, Release: rwReleaseScript,
				Poll: pollScript, PollShared: rwPollScript,
			},
		},
		Share:     rwMayShareScript,
		Downgrade: rwDowngradeScript,
		Force:     rwForceScript,
		List:      rwListScript,
		LabelOf:   func(name string) string { return name },
	}
}

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
