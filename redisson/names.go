// SPDX-License-Identifier: Apache-2.0

package redisson

import (
	"fmt"
	"strings"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

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
