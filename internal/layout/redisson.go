// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	uuidSize = 36
	// redissonHold is the length of a hold: a UUID, a colon, and 19 digits.
	redissonHold = uuidSize + 1 + 19
	// leastThread is the least number of 19 digits; the greatest that Java has is above 9 times that.
	leastThread uint64 = 1_000_000_000_000_000_000
	threads     uint64 = 8 * leastThread
)

//nolint:gochecknoglobals // constant tables
var (
	redisson      = redissonIn("reentrant in Redisson's layout")
	redissonPlain = func() *Layout {
		l := redissonIn("reentrant in Redisson's layout, plain")
		l.Plain = true
		return l
	}()
)

// Redisson answers the layout of the Java client; docs/redisson-protocol.md has it.
func Redisson() *Layout { return redisson }

// RedissonPlain answers the same where the Java client does not use sharded channels.
func RedissonPlain() *Layout { return redissonPlain }

func redissonIn(realm string) *Layout {
	return &Layout{
		Name:     "Redisson",
		Names:    names.Redisson,
		Hold:     redissonNew,
		Session:  redissonSession,
		Describe: scripts.RedissonDescribe,
		// The message of every release. It does not say whose release it is, so one who stands back for a moment takes
		// each for its own.
		Mark: "0",
		Reentrant: &Reentrant{
			Realm:    realm,
			Acquire:  scripts.RedissonAcquire,
			Release:  scripts.RedissonRelease,
			Withdraw: scripts.RedissonWithdraw,
			Yield:    scripts.RedissonYield,
			Look:     scripts.RedissonLook,
			Renew:    scripts.RedissonRenew,
			Force:    scripts.RedissonForce,
		},
	}
}

// redissonNew answers what Redisson takes for a client and its thread: the session's 16 bytes as a UUID, and a number
// drawn for this attempt. Some 63 bits of it are random, so that no two attempts of a session share one, nor two copies
// of a process. It always has 19 digits, which lets scripts cut it out of what stands around it.
func redissonNew(session string, _ uint64) string {
	var raw [16]byte
	_, _ = base64.RawURLEncoding.Decode(raw[:], []byte(session)) // made by encoding 16 bytes
	var id [redissonHold]byte
	writeUUID(id[:uuidSize], raw)
	id[uuidSize] = ':'
	var random [8]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails: it ends the process instead
	thread := leastThread + binary.BigEndian.Uint64(random[:])%threads
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

// redissonSession answers the id of a session whose bytes are the UUID's: a session's of this library as it knows
// itself, and that of a Java client in the same form.
func redissonSession(hold string) string {
	client, _, _ := strings.Cut(hold, ":")
	raw, err := hex.DecodeString(strings.ReplaceAll(client, "-", ""))
	if err != nil || len(raw) != 16 {
		return client
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}
