// SPDX-License-Identifier: Apache-2.0

package redisson

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	uuidSize = 36
	// holdSize is the length of a hold: a UUID, a colon, and 19 digits.
	holdSize = uuidSize + 1 + 19
	// minThread is the least number of 19 digits; the greatest that Java has is above 9 times that.
	minThread uint64 = 1_000_000_000_000_000_000
	threads   uint64 = 8 * minThread
)

// newHold returns what Redisson expects for a client and its thread: the session's 16 bytes as a UUID,
// and a number drawn for this attempt. Some 63 bits of it are random, so that no two attempts of a session
// share one, nor two copies of a process. It always has 19 digits, so that scripts can cut it out of a longer
// text.
func newHold(session string, _ uint64) string {
	var raw [16]byte
	_, _ = base64.RawURLEncoding.Decode(raw[:], []byte(session)) // made by encoding 16 bytes
	var id [holdSize]byte
	writeUUID(id[:uuidSize], raw)
	id[uuidSize] = ':'
	var random [8]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails: it ends the process instead
	thread := minThread + binary.BigEndian.Uint64(random[:])%threads
	return string(strconv.AppendUint(id[:uuidSize+1], thread, 10))
}

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

// sessionOf returns the id of a session whose bytes are the UUID's: for a session of this library its
// own id, and for a Java client the same format.
func sessionOf(hold string) string {
	client, _, _ := strings.Cut(hold, ":")
	raw, err := hex.DecodeString(strings.ReplaceAll(client, "-", ""))
	if err != nil || len(raw) != 16 {
		return client
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// The prefixes of a name in the channel of a lock, and in the token key of a fenced one.
const (
	channelPrefix = "redisson_lock__channel"
	tokenPrefix   = "redisson_lock_token"
)

// makeNames is the naming of the Java client. The key is the unchanged name, without a prefix; so no two names
// share a key. Two may share a channel, as "a" and "{a}" do, which costs a needless try.
//
// In a cluster key and channel of a name must be in one slot, or the name is refused: braces that make no
// hash tag, or one brace alone, put them in two. The names are not hashed: the Java client would not find
// them.
func makeNames(in proto.NamingOptions, name string) (proto.Set, error) {
	if err := proto.Check(name); err != nil {
		return proto.Set{}, err
	}
	channel := prefixed(channelPrefix, name)
	if in.Clustered && wire.Tag(name) != wire.Tag(channel) {
		return proto.Set{}, fmt.Errorf("%q and its channel stand in two slots of the cluster: its braces must be a hash tag, or there must be none", name)
	}
	return proto.NewSet(name, channel), nil
}

// latchChannel is the channel of a count-down latch. Braces are added whatever the name has: one that has a hash tag is
// in another slot.
func latchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// tokenKey is the key that counts the tokens of RFencedLock, for the key of the lock. It has the slot of the lock's
// channel.
func tokenKey(holder string) string { return prefixed(tokenPrefix, holder) }

// prefixed returns what Redisson calls what belongs to a name: it makes a tag of the name unless that has a
// brace.
func prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// suffixed returns what Redisson calls a key beside that of a name.
func suffixed(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}
