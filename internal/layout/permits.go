// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strconv"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// WeightSize is how many digits say how many permits a hold has.
	WeightSize = 10
	// maxWeight is the greatest number that fits into the server's account of a hold.
	maxWeight = 1<<31 - 1
	// maxPermits bounds the permits of one hold in layouts that store each of them in a set: a thousand keep
	// the server busy for about a millisecond. Redisson removes all expired permits in one command, and
	// cannot if there are more than some 7,000.
	maxPermits = 1000
	// RedissonPermitSize is the length of the id of a permit in Redisson's layout.
	RedissonPermitSize = 16
)

//nolint:gochecknoglobals // a constant table
var nativeSemaphore = Semaphore{
	Kind: Kind{
		RegistryName: "semaphore",
		Keys: func(n names.Set, buffer []string) Keys {
			holder := n.Permits()
			return Keys{Holder: holder, All: append(buffer, holder, n.PermitsQueue(), n.PermitsHeartbeats())}
		},
		Renew: scripts.HoldsRenew,
		Queue: &QueueScripts{
			Enter: scripts.SemaphoreEnter, Poll: scripts.SemaphorePoll, Leave: scripts.SemaphoreLeave, Drop: scripts.HoldsDrop,
			Yield: scripts.SemaphoreYield, Labelled: true,
		},
	},
	Split:         scripts.SemaphoreSplit,
	Resize:        scripts.SemaphoreResize,
	Available:     scripts.SemaphoreAvailable,
	List:          scripts.HoldsList,
	AvailableKeys: 1,
	MaxPermits:    maxWeight,
	TotalKnown:    true,
	ParseHold:     nativePermits,
}

// nativePermits reads a hold, its weight, and the label of its session.
func nativePermits(_, name string) (permits int, label, owner string) {
	if len(name) < HoldSize+WeightSize {
		return 0, name, "" // none of ours
	}
	permits, _ = strconv.Atoi(name[HoldSize : HoldSize+WeightSize]) // 0 if it is not one of ours
	return permits, name[HoldSize+WeightSize:], name[:SessionSize]
}

// redissonSemaphore returns RPermitExpirableSemaphore, whose held permits are in a key with that suffix.
func redissonSemaphore(registry, timeouts string) *Semaphore {
	return &Semaphore{
		Kind: Kind{
			RegistryName: registry,
			Keys: func(n names.Set, buffer []string) Keys {
				holder := names.RedissonSuffixed(n.Holder, timeouts)
				return Keys{Holder: holder, All: append(buffer, n.Holder, holder), Channel: names.RedissonPrefixed("redisson_sc", n.Holder)}
			},
			Renew: scripts.RedissonPermitRenew,
			Retry: &Retry{Acquire: scripts.RedissonPermitAcquire, Release: scripts.RedissonPermitRelease, NewHold: newRedissonPermits},
		},
		Split:         scripts.RedissonPermitSplit,
		Resize:        scripts.RedissonPermitResize,
		Available:     scripts.RedissonPermitAvailable,
		List:          scripts.RedissonPermitList,
		AvailableKeys: 2,
		MaxPermits:    maxPermits,
		Args:          []string{"1"},
		TotalKnown:    true,
		ParseHold:     redissonPermit,
		SessionAlias:  func(session string) string { return hex.EncodeToString([]byte(permitsOf(session))) },
		AliasInHold:   redissonAlias,
	}
}

// redissonPlain returns RSemaphore, which is only a number. The permits of this library are also in a key
// that Redisson does not know: so they can expire, and each step can be sent twice. Those of others are
// recorded nowhere, so their number is unknown.
func redissonPlain(registry string) *Semaphore {
	s := redissonSemaphore(registry, "signalbox")
	s.TotalKnown, s.Args, s.SessionAlias, s.AliasInHold = false, []string{"0"}, nil, nil // no process ends these by force
	return s
}

// newRedissonPermits returns what the ids of a hold's permits begin with: 4 bytes of its session, by which that knows them, and 64
// bits drawn for this attempt. The scripts put a number of 4 bytes behind it for each permit.
func newRedissonPermits(session string) string {
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

// redissonAlias returns the alias of the session that made the id of a permit. A permit of Java has an id that is
// random throughout.
func redissonAlias(id string) string {
	if len(id) != RedissonPermitSize || id[12:14] != "\x00\x00" {
		return ""
	}
	return hex.EncodeToString([]byte(id[:4]))
}

// redissonPermit reads the id of one permit, as Redisson writes it; a session that it names is its own.
func redissonPermit(session, id string) (permits int, label, owner string) {
	label = hex.EncodeToString([]byte(id))
	if len(id) == RedissonPermitSize && id[:4] == permitsOf(session) {
		owner = session
	}
	return 1, label, owner
}
