// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"strings"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// redissonChannel is what stands before a name in its channel.
const redissonChannel = "redisson_lock__channel"

// Redisson is the naming of the Java client. The key is the name as it stands, without a prefix; so no two names
// share a key. Two may share a channel, as "a" and "{a}" do, which costs a try for nothing.
//
// In a cluster key and channel of a name stand in one slot, or it is refused: braces that make no hash tag, or one
// brace alone, put them in two. There are no hashed names: the Java client would not find them.
func Redisson(in Setting, name string) (Set, error) {
	if err := check(name); err != nil {
		return Set{}, err
	}
	if in.Hashed {
		return Set{}, fmt.Errorf("%w: Redisson knows no hashed names", errs.ErrBadOption)
	}
	set := Set{Holder: name, Unlocked: redissonPrefixed(redissonChannel, name)}
	if in.Clustered && Tag(set.Holder) != Tag(set.Unlocked) {
		return Set{}, fmt.Errorf("%w: %q and its channel stand in two slots of the cluster: its braces must be a hash tag, or there must be none", errs.ErrBadName, name)
	}
	return set, nil
}

// redissonPrefixed answers what Redisson calls what belongs to a name: it makes a tag of the name unless that has a
// brace.
func redissonPrefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// Tag answers what a cluster hashes of a key: what stands between its first { and the next }, or all of it where that
// is nothing.
func Tag(key string) string {
	if _, rest, opened := strings.Cut(key, "{"); opened {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			return tag
		}
	}
	return key
}
