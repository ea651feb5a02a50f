// SPDX-License-Identifier: Apache-2.0

package redisson

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
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
		HoldLister: rwLister,
		Share:      rwMayShareScript,
		Downgrade:  rwDowngradeScript,
		Force:      rwForceScript,
		LabelOf:    func(name string) string { return name },
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
	rwLister          = proto.HoldLister{List: scripts.Load("redisson/rwlock-list", 1)}
	rwForceScript     = scripts.Load("redisson/rwlock-force", 1)

	permitAcquireScript   = scripts.Load("redisson/permit-acquire", 1)
	permitReleaseScript   = scripts.Load("redisson/permit-release", 1)
	permitRenewScript     = scripts.Load("redisson/permit-renew", 1)
	permitSplitScript     = scripts.Load("redisson/permit-split", 1)
	permitResizeScript    = scripts.Load("redisson/permit-resize", 1)
	permitAvailableScript = scripts.Load("redisson/permit-available", 1)
	permitLister          = proto.HoldLister{List: scripts.Load("redisson/permit-list", 1)}
	permitForceScript     = scripts.Load("redisson/permit-force", 1)

	latchStartScript = scripts.Load("redisson/latch-start", 1)
	latchCountScript = scripts.Load("redisson/latch-count", 1)
	latchReadScript  = scripts.Load("redisson/latch-read", 1)
	latchResetScript = scripts.Load("redisson/latch-reset", 1)
)

const (
	// maxPermits bounds the permits of one hold, each of which is stored in a set: a thousand keep
	// the server busy for about a millisecond. Redisson removes all expired permits in one command, and
	// cannot if there are more than some 7,000.
	maxPermits = 1000
	// permitSize is the length of the id of a permit.
	permitSize = 16
	// permitsSuffix makes the key of the permits that are held, and plainSuffix that of a semaphore without owners.
	permitsSuffix, plainSuffix = "timeout", "signalbox"
)

// semaphore returns RPermitExpirableSemaphore, whose held permits are in a key with that suffix.
func semaphore(registry, timeouts string) *proto.SemaphoreTable {
	return &proto.SemaphoreTable{
		Table: proto.Table{
			RegistryName: registry,
			NamesOf: func(n proto.Set) proto.Set {
				return proto.Set{Holder: suffixed(n.Holder, timeouts), More: n.Holder, Slot: n.Slot}
			},
			Keys: func(n proto.Set) proto.Keys {
				return proto.Keys{All: []string{n.More, n.Holder}, Channel: prefixed("redisson_sc", n.More)}
			},
			Renew: permitRenewScript,
			Retry: &proto.Retry{Acquire: permitAcquireScript, Release: permitReleaseScript, NewHold: newPermits},
		},
		Split:         permitSplitScript,
		Resize:        permitResizeScript,
		Available:     permitAvailableScript,
		HoldLister:    permitLister,
		Force:         permitForceScript,
		HoldSize:      permitSize,
		AvailableKeys: 2,
		MaxPermits:    maxPermits,
		Args:          []string{"1"},
		TotalKnown:    true,
		ParseHold:     parsePermit,
		SessionAlias:  func(session string) string { return hex.EncodeToString([]byte(permitsOf(session))) },
		AliasInHold:   aliasOf,
	}
}

// plainSemaphore returns RSemaphore, which is only a number. The permits of this library are also in a key
// that Redisson does not know: so they can expire, and each step can be sent twice. Those of others are
// recorded nowhere, so their number is unknown.
func plainSemaphore(registry string) *proto.SemaphoreTable {
	s := semaphore(registry, plainSuffix)
	s.TotalKnown, s.Args = false, []string{"0"}
	s.Force, s.SessionAlias, s.AliasInHold = nil, nil, nil // no process ends these by force
	return s
}

// newPermits returns what the ids of a hold's permits begin with: 4 bytes of its session, by which that knows them, and 64
// bits drawn for this attempt. The scripts put a number of 4 bytes behind it for each permit.
func newPermits(session string) string {
	var id [12]byte
	copy(id[:], permitsOf(session))
	_, _ = rand.Read(id[4:]) // crypto/rand.Read never fails: it ends the process instead
	return string(id[:])
}

func permitsOf(session string) string {
	var raw [16]byte
	_, _ = base64.RawURLEncoding.Decode(raw[:], []byte(session)) // made by encoding 16 bytes
	return string(raw[:4])
}

// aliasOf returns the alias of the session that made the id of a permit. A permit of Java has an id that is
// random throughout.
func aliasOf(id string) string {
	if len(id) != permitSize || id[12:14] != "\x00\x00" {
		return ""
	}
	return hex.EncodeToString([]byte(id[:4]))
}

// parsePermit reads the id of one permit, as Redisson writes it; a session that it names is its own.
func parsePermit(session, id string) (permits int, label, owner string) {
	label = hex.EncodeToString([]byte(id))
	if len(id) == permitSize && id[:4] == permitsOf(session) {
		owner = session
	}
	return 1, label, owner
}
