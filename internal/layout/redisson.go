// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	uuidSize = 36
	// redissonHold is the length of a hold: a UUID, a colon, and 19 digits.
	redissonHold = uuidSize + 1 + 19
	// minThread is the least number of 19 digits; the greatest that Java has is above 9 times that.
	minThread uint64 = 1_000_000_000_000_000_000
	threads   uint64 = 8 * minThread
)

// Variant is a setting of Java clients that all sharers of a lock must have alike.
type Variant uint8

const (
	// Fenced has the counter of RFencedLock beside the reentrant lock, and no other kind.
	Fenced Variant = 1 << iota
	// PlainChannels publishes on plain channels in a cluster.
	PlainChannels
	// ShardedChannels publishes on sharded ones. Together with PlainChannels it publishes on both; it is the default.
	ShardedChannels

	variants
)

//nolint:gochecknoglobals // a constant table
var redisson = func() (all [variants]*Layout) {
	for v := range variants {
		if all[v] = redissonIn(v); v&(PlainChannels|ShardedChannels) == ShardedChannels {
			all[v] = all[v&^ShardedChannels]
		}
	}
	return all
}()

// Redisson returns the layout of the Java client, in the variant with all of these settings;
// docs/redisson-protocol.md describes it.
func Redisson(which ...Variant) *Layout {
	var v Variant
	for _, one := range which {
		v |= one
	}
	return redisson[v%variants]
}

// FairWait is the default of Java's fairLockWaitTimeout.
const FairWait = 5 * time.Minute

// RedissonFair returns the layout of Java clients whose fairLockWaitTimeout is wait. Only a fair lock has it.
func RedissonFair(wait time.Duration, which ...Variant) *Layout {
	l := *Redisson(which...)
	l.Name = "RedissonFairLock"
	if wait != FairWait {
		l.Fair = redissonFair(fmt.Sprintf("%s, %v", l.Fair.RegistryName, wait), wait)
	}
	l.Lock, l.RWLock, l.Semaphore, l.PlainSemaphore, l.Latch = nil, nil, nil, nil, nil
	return &l
}

// redissonIn returns the layout in a variant.
func redissonIn(v Variant) *Layout {
	l := &Layout{
		Name:     "Redisson",
		Names:    names.Redisson,
		Hold:     newRedissonHold,
		Session:  redissonSession,
		Describe: scripts.RedissonDescribe,
		// The message of every release. It does not name the releasing session, so a waiter that backs off
		// for a moment takes each message for its own.
		WaiterID: "0",
	}
	if v&PlainChannels != 0 {
		l.Channels = v & (PlainChannels | ShardedChannels)
	}
	registry := fmt.Sprintf(" in Redisson's layout, %d", v) // the end of all registry names
	if v&Fenced != 0 {
		l.Name = "Redisson's RFencedLock"
		l.Lock = redissonFenced("reentrant" + registry)
		return l
	}
	l.Lock = redissonLock("reentrant" + registry)
	l.Fair = redissonFair("fair"+registry, FairWait)
	l.RWLock = redissonRWLock("rwlock" + registry)
	l.Semaphore = redissonSemaphore("semaphore"+registry, "timeout")
	l.PlainSemaphore = redissonPlain("plain semaphore" + registry)
	l.Latch = redissonLatch("countdown" + registry)
	return l
}

// redissonLock returns RLock.
func redissonLock(registry string) *Exclusive {
	return &Exclusive{
		Kind: Kind{
			RegistryName: registry,
			Keys: func(n names.Set, buffer []string) Keys {
				return Keys{Holder: n.Holder, All: append(buffer, n.Holder), Channel: n.Unlocked}
			},
			Renew: scripts.RedissonRenew,
			Retry: &Retry{
				Acquire: scripts.RedissonAcquire, Release: scripts.RedissonRelease, Poll: scripts.RedissonPoll, HandsOver: true,
			},
		},
		CompatibleKinds: "r",
		Force:           scripts.RedissonForce,
	}
}

// redissonFenced returns RFencedLock. Its tokens are the numbers of a counter, and Java clients count
// one for each holder. So each goroutine acquires the lock at the server.
func redissonFenced(registry string) *Exclusive {
	l := redissonLock(registry)
	l.Keys = func(n names.Set, buffer []string) Keys {
		return Keys{Holder: n.Holder, All: append(buffer, n.Holder, names.RedissonToken(n.Holder)), Channel: n.Unlocked}
	}
	l.Retry.Acquire, l.Retry.HandsOver = scripts.RedissonFence, false
	return l
}

func redissonFair(registry string, wait time.Duration) *Exclusive {
	return &Exclusive{
		Kind: Kind{
			RegistryName: registry,
			Keys: func(n names.Set, buffer []string) Keys {
				queue, deadlines := names.RedissonPrefixed("redisson_lock_queue", n.Holder), names.RedissonPrefixed("redisson_lock_timeout", n.Holder)
				return Keys{Holder: n.Holder, All: append(buffer, n.Holder, queue, deadlines), Channel: n.Unlocked + ":"}
			},
			Renew: scripts.RedissonRenew,
			Retry: &Retry{
				Acquire: scripts.RedissonFairAcquire, Release: scripts.RedissonFairRelease, ChannelPerWaiter: true,
				Args: []string{strconv.FormatInt(wait.Milliseconds(), 10)},
			},
		},
		CompatibleKinds: "r", // its hash is an RLock's
		Force:           scripts.RedissonFairForce,
		Waiters:         scripts.RedissonFairWaiters,
	}
}

func redissonRWLock(registry string) *RWLock {
	return &RWLock{
		Kind: Kind{
			RegistryName: registry,
			Keys: func(n names.Set, buffer []string) Keys {
				return Keys{Holder: n.Holder, All: append(buffer, n.Holder), Channel: names.RedissonPrefixed("redisson_rwlock", n.Holder)}
			},
			Renew: scripts.RedissonRWRenew,
			Retry: &Retry{
				Acquire: scripts.RedissonRWAcquire, Release: scripts.RedissonRWRelease,
				Poll: scripts.RedissonPoll, PollShared: scripts.RedissonRWPoll,
			},
		},
		Share:     scripts.RedissonRWMayShare,
		Downgrade: scripts.RedissonRWDowngrade,
		Force:     scripts.RedissonRWForce,
		List:      scripts.RedissonRWList,
		LabelOf:   func(name string) string { return name },
	}
}

// newRedissonHold returns what Redisson expects for a client and its thread: the session's 16 bytes as a UUID,
// and a number drawn for this attempt. Some 63 bits of it are random, so that no two attempts of a session
// share one, nor two copies of a process. It always has 19 digits, so that scripts can cut it out of a longer
// text.
func newRedissonHold(session string, _ uint64) string {
	var raw [16]byte
	_, _ = base64.RawURLEncoding.Decode(raw[:], []byte(session)) // made by encoding 16 bytes
	var id [redissonHold]byte
	writeUUID(id[:uuidSize], raw)
	id[uuidSize] = ':'
	var random [8]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails: it ends the process instead
	thread := minThread + binary.BigEndian.Uint64(random[:])%threads
	return string(strconv.AppendUint(id[:uuidSize+1], thread, 10))
}

// writeUUID writes 32 digits in groups of 8, 4, 4, 4 and 12.
func writeUUID(to []byte, raw [16]byte) {
	var digits [32]byte
	hex.Encode(digits[:], raw[:])
	copy(to, digits[:8])
	for at, from := 8, 8; from < 20; at, from = at+5, from+4 {
		to[at] = '-'
		copy(to[at+1:], digits[from:from+4])
	}
	to[23] = '-'
	copy(to[24:], digits[20:])
}

// redissonSession returns the id of a session whose bytes are the UUID's: for a session of this library its
// own id, and for a Java client the same format.
func redissonSession(hold string) string {
	client, _, _ := strings.Cut(hold, ":")
	raw, err := hex.DecodeString(strings.ReplaceAll(client, "-", ""))
	if err != nil || len(raw) != 16 {
		return client
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}
