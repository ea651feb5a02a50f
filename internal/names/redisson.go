// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"strings"
)

// The prefixes of a name in the channel of a lock, and in the token key of a fenced one.
const (
	redissonChannel = "redisson_lock__channel"
	redissonToken   = "redisson_lock_token"
)

// Redisson is the naming of the Java client. The key is the unchanged name, without a prefix; so no two names
// share a key. Two may share a channel, as "a" and "{a}" do, which costs a needless try.
//
// In a cluster key and channel of a name must be in one slot, or the name is refused: braces that make no
// hash tag, or one brace alone, put them in two. The names are not hashed: the Java client would not find
// them.
func Redisson(in NamingOptions, name string) (Set, error) {
	if err := Check(name); err != nil {
		return Set{}, err
	}
	set := Set{Holder: name, Unlocked: RedissonPrefixed(redissonChannel, name)}
	if in.Clustered && Tag(set.Holder) != Tag(set.Unlocked) {
		return Set{}, fmt.Errorf("%q and its channel stand in two slots of the cluster: its braces must be a hash tag, or there must be none", name)
	}
	return set, nil
}

// RedissonLatch is the channel of a count-down latch. Braces are added whatever the name has: one that has a hash tag is
// in another slot.
func RedissonLatch(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// RedissonToken is the key that counts the tokens of RFencedLock, for the key of the lock. It has the slot of the lock's
// channel.
func RedissonToken(holder string) string { return RedissonPrefixed(redissonToken, holder) }

// RedissonPrefixed returns what Redisson calls what belongs to a name: it makes a tag of the name unless that has a
// brace.
func RedissonPrefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// RedissonSuffixed returns what Redisson calls a key beside that of a name.
func RedissonSuffixed(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}
