// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/signalbox-go/signalbox/internal/errs"
)

const (
	// MaxShards is the greatest number of shards of a group.
	MaxShards = 65_536
	// MaxName is the length of the longest name of a shard, in bytes.
	MaxName = 64
)

// Set is what a group divides. Count and Names make one; the zero Set is not valid.
//
// The set is kept at the server: the one passed to New counts only if the group does not exist yet. A member
// with another set joins the group that exists. The set changes when all members of the group were made with
// the same other set, such as after a rolling change, or by Resize and Sync. Members without names take the
// names that there are. If the server loses its data, the members set the count again, and the names of the
// shards that had owners.
type Set struct {
	count int
	names []string
	exact bool
	err   error
}

// Count is the set of the shards 0 to n-1. n is from 1 to MaxShards.
func Count(n int) Set {
	if n < 1 || n > MaxShards {
		return Set{err: fmt.Errorf("%w: %d shards: it must be from 1 to %d", errs.ErrBadOption, n, MaxShards)}
	}
	return Set{count: n}
}

// Names is a set of shards with names of their own. Each has 1 to MaxName bytes; a name that is listed twice
// is one shard. It may be empty at first.
func Names(names ...string) Set {
	listed, err := distinct(names)
	return Set{names: listed, err: err}
}

// Exact returns s for members that must not join a group with another count: they fail with *MismatchError.
func Exact(s Set) Set {
	if s.err == nil && s.count == 0 {
		s.err = fmt.Errorf("%w: Exact is for a set that Count made", errs.ErrBadOption)
	}
	s.exact = true
	return s
}

// warnOfCount logs once that a member joined a group of another count than that of its set.
func (g *Group) warnOfCount(count int) {
	if g.set.count > 0 && count > 0 && count != g.set.count && !g.warned.Swap(true) {
		g.base.LogOtherCount(count, g.set.count)
	}
}

// check returns what is wrong with the set, or nil.
func (s Set) check() error {
	if s.err == nil && s.count == 0 && s.names == nil {
		return fmt.Errorf("%w: the set is empty: Count and Names make one", errs.ErrBadOption)
	}
	return s.err
}

// requested returns what a member says of the set: its count, the digest of its names, or 0 if it lists no names.
func (s Set) requested() string {
	if len(s.names) == 0 {
		return strconv.Itoa(s.count)
	}
	return digestOf(s.names)
}

// distinct returns the names without repetitions, and never nil.
func distinct(names []string) ([]string, error) {
	seen := make(map[string]struct{}, len(names))
	listed := make([]string, 0, len(names))
	for _, name := range names {
		if err := checkName(name); err != nil {
			return nil, err
		}
		if _, twice := seen[name]; !twice {
			seen[name] = struct{}{}
			listed = append(listed, name)
		}
	}
	if len(listed) > MaxShards {
		return nil, fmt.Errorf("%w: %d names: %d are allowed", errs.ErrBadOption, len(listed), MaxShards)
	}
	return listed, nil
}

func checkName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: the shard name %.80q has %d bytes: it must have 1 to %d", errs.ErrBadOption, name, len(name), MaxName)
	}
	return nil
}

// Index returns which of n shards a key belongs to, from 0 to n-1. It is the same in every release and
// language: the first four bytes of the key's SHA-256, as a number with the greatest byte first, modulo n.
// It panics if n is less than 1.
func Index(key string, n int) int {
	if n < 1 {
		panic(fmt.Errorf("signalbox: shards.Index of %d shards: it must be 1 or more", n)) //nolint:forbidigo // as slices do
	}
	digest := sha256.Sum256([]byte(key))
	return int(uint64(binary.BigEndian.Uint32(digest[:4])) % uint64(n)) //nolint:gosec // less than n
}

// indexOf returns the index that a name of a shard of Count is, or -1.
func indexOf(name string) int {
	if len(name) > 1 && name[0] == '0' {
		return -1
	}
	i, err := strconv.ParseUint(name, 10, 16)
	if err != nil {
		return -1
	}
	return int(i)
}

// MismatchError says that a group has another count than a member insists on. It matches
// signalbox.ErrCapacity.
type MismatchError struct {
	// Want is the count of the member's Set, and Have that of the group. 0 stands for names.
	Want, Have int
}

// Error implements error.
func (e *MismatchError) Error() string {
	if e == nil {
		return "<nil>"
	}
	say := func(n int) string {
		if n == 0 {
			return "named shards"
		}
		return strconv.Itoa(n) + " shards"
	}
	return "the group has " + say(e.Have) + ", and not " + say(e.Want)
}

// Unwrap returns signalbox.ErrCapacity.
func (*MismatchError) Unwrap() error { return errs.ErrCapacity }
