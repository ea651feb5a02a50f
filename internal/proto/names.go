// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// MaxBytes is the length of the longest name.
	MaxBytes = 512
	// DefaultPrefix precedes every key and channel unless the session sets another one.
	DefaultPrefix = "sb:"
	// MaxKeyBytes is the length that no key of a name reaches, even when every byte is escaped.
	MaxKeyBytes = 2 << 10
	// maxPrefixBytes keeps the longest key below MaxKeyBytes.
	maxPrefixBytes = 64
)

const (
	// holderSuffix makes the holder key of a base.
	holderSuffix = ":lock"
	// permitsSuffix makes the key of a semaphore's permits.
	permitsSuffix = ":permits"
	// writersSuffix, readersSuffix and rwHeartbeatsSuffix make the keys of the queue of a read-write lock.
	writersSuffix, readersSuffix, rwHeartbeatsSuffix = ":writers", ":readers", ":rwheartbeats"
	// queueSuffix and heartbeatsSuffix make the keys of the queue of a reentrant or fair lock.
	queueSuffix, heartbeatsSuffix = ":queue", ":heartbeats"
	// unlockedSuffix makes the channel of a holder key.
	unlockedSuffix = ":unlocked"
)

const hexDigits = "0123456789ABCDEF"

// Set is what a name becomes on the server. It is small, because each lock object has one: the other keys are made when a call
// needs them, unless each call of a kind does.
type Set struct {
	// Holder is the key that names the holder of a lock.
	Holder string
	// More is what else is kept of a name. In the library's own layout these are the other keys of a kind; see ForRWLock. In
	// another one it is what its tables take from it.
	More string
	// Slot is the slot of the name in a cluster.
	Slot uint16

	ends [2]uint16 // the ends of the first and the second key in More
}

// NewSet returns the set of a name whose holder key is holder.
func NewSet(holder, more string) Set { return Set{Holder: holder, More: more, Slot: wire.Slot(holder)} }

// Unlocked is the channel on which a release of a redlock is published.
func (s Set) Unlocked() string { return s.Holder + unlockedSuffix }

// QueueKey is the key of the queue of a reentrant or fair lock. Each kind has queue keys of its own, so that no
// script of another kind finds its tickets.
func (s Set) QueueKey() string { return s.Base() + queueSuffix }

// HeartbeatsKey is the key that says until when the sessions in that queue count as alive.
func (s Set) HeartbeatsKey() string { return s.Base() + heartbeatsSuffix }

// AppendKeys appends the keys of the scripts of a kind to to, in their order: Holder, Writers, Readers and RWHeartbeats to a set that
// ForRWLock returned; Permits, PermitsQueue and PermitsHeartbeats to one of ForSemaphore; and else Holder, QueueKey and HeartbeatsKey,
// which a reentrant or fair lock needs only if it may have a queue, and which take one allocation.
func (s Set) AppendKeys(to []string) []string {
	if s.More == "" {
		s = s.with(queueSuffix, heartbeatsSuffix, "")
	}
	to = append(to, s.Holder, s.More[:s.ends[0]], s.More[s.ends[0]:s.ends[1]])
	if int(s.ends[1]) < len(s.More) {
		to = append(to, s.More[s.ends[1]:])
	}
	return to
}

// with returns s with the keys that have these suffixes, the last of which may be empty. They are one string in memory.
func (s Set) with(first, second, third string) Set {
	base, last := s.Base(), ""
	if third != "" {
		last = base
	}
	s.More = base + first + base + second + last + third
	s.ends[0] = uint16(len(base) + len(first))            //nolint:gosec // a name and its prefix are short
	s.ends[1] = s.ends[0] + uint16(len(base)+len(second)) //nolint:gosec // the same
	return s
}

// ForRWLock returns s with the keys of a read-write lock.
func (s Set) ForRWLock() Set { return s.with(writersSuffix, readersSuffix, rwHeartbeatsSuffix) }

// ForSemaphore returns s with the keys of a semaphore, whose Holder is Permits.
func (s Set) ForSemaphore() Set { return s.withHolder(permitsSuffix) }

// withHolder returns s with the keys of a kind whose Holder is a key of its own, with that suffix: also those of its queue.
func (s Set) withHolder(suffix string) Set {
	s = s.with(suffix, suffix+queueSuffix, suffix+heartbeatsSuffix)
	end := s.ends[0]
	s.Holder, s.More = s.More[:end], s.More[end:]
	s.ends = [2]uint16{s.ends[1] - end, uint16(len(s.More))} //nolint:gosec // see with
	return s
}

// Writers is the key of the waiting writers of a read-write lock.
func (s Set) Writers() string { return s.Base() + writersSuffix }

// Readers is the key of the waiting readers of a read-write lock.
func (s Set) Readers() string { return s.Base() + readersSuffix }

// RWHeartbeats is the key that says until when the sessions of these writers and readers count as
// alive.
func (s Set) RWHeartbeats() string { return s.Base() + rwHeartbeatsSuffix }

// Grants is the channel on which a session is notified of its grants, without the session id at the end. It
// is in the slot of the lock.
func (s Set) Grants() string { return s.Base() + ":grants:" }

// Latch is the key of the count-down latch of that name.
func (s Set) Latch() string { return s.Base() + ":latch" }

// Ended is the channel on which the end of a latch's round is published.
func (s Set) Ended() string { return s.Latch() + ":ended" }

// Leader is the key of the value that a leader has set, in the election of that name.
func (s Set) Leader() string { return s.Base() + ":leader" }

// Changed is the channel on which the observers of that election are notified.
func (s Set) Changed() string { return s.Leader() + ":changed" }

// Outcome is the key of what was stored for a name that runs once.
func (s Set) Outcome() string { return s.Base() + ":once" }

// Stored is the channel on which a stored outcome is published.
func (s Set) Stored() string { return s.Outcome() + ":stored" }

// Fence is the key of the last token that was made to be ordered over several servers.
func (s Set) Fence() string { return s.Base() + ":fence" }

// Permits is the key with the holders of permits of the semaphore. It shares no key with a lock: a lock of
// the same name exists beside it.
func (s Set) Permits() string { return s.Base() + permitsSuffix }

// PermitsQueue is the key of the queue for permits.
func (s Set) PermitsQueue() string { return s.Permits() + ":queue" }

// PermitsHeartbeats is the key with the heartbeats of the sessions in the queue for permits.
func (s Set) PermitsHeartbeats() string { return s.Permits() + ":heartbeats" }

// Shards is the key of the group of shards of that name. The other keys of the group begin with it.
func (s Set) Shards() string { return s.Base() + ":shards" }

// ShardKeys returns the keys of that group, in the order of scripts. The third has the ends of the members' leases.
func (s Set) ShardKeys() []string {
	group := s.Shards()
	return []string{
		group, group + ":members", group + ":ends", group + ":donors", group + ":takers", group + ":proven", group + ":rows", group + ":index",
	}
}

// ShardNews is the channel on which a session is notified of news for its members of that group, without the session id
// at the end.
func (s Set) ShardNews() string { return s.Shards() + ":news:" }

// Base is what all keys and channels of a name begin with. A kind whose keys only its own scripts need makes them from it.
func (s Set) Base() string { return s.Holder[:strings.IndexByte(s.Holder, '}')+1] }

// Grants is the channel on which a session is notified of the grants of all its locks, without the session id
// at the end: without slots one channel is enough.
func Grants(prefix string) string { return prefix + "grants:" }

// NamingOptions are the settings by which a session makes names.
type NamingOptions struct {
	Prefix    string
	Hashed    bool // names stay in the process
	Clustered bool
}

// NativeNames returns the keys and channels of name in the library's own naming, or why it is not a name.
func NativeNames(in NamingOptions, name string) (Set, error) {
	if err := Check(name); err != nil {
		return Set{}, err
	}
	tag := Encode(name)
	if in.Hashed {
		tag = Hash(name)
	}
	return build(in.Prefix, tag), nil
}

// Check returns why name is not a name, or nil.
func Check(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case len(name) > MaxBytes:
		return fmt.Errorf("it has %d bytes, and %d are allowed", len(name), MaxBytes)
	}
	return nil
}

// Parse reads a key of the library's own naming: what stands for the name in it. set has the keys of that name, so key
// is one of them, or another program's.
func Parse(prefix, key string) (tag string, set Set, parsed bool) {
	rest, found := strings.CutPrefix(key, prefix+"{")
	tag, suffix, closed := strings.Cut(rest, "}")
	if !found || !closed || tag == "" || strings.ContainsAny(tag+suffix, "{}") {
		return "", Set{}, false
	}
	return tag, build(prefix, tag), true
}

func build(prefix, tag string) Set { return NewSet(prefix+"{"+tag+"}"+holderSuffix, "") }

// Hash returns the digest of a hashed name: 160 bits, so that it needs some 2^80 tries to find two names that
// share one. Encode never writes a percent sign before an s.
func Hash(name string) string {
	digest := sha256.Sum256([]byte(name))
	return "%sha256-" + hex.EncodeToString(digest[:20])
}

// IsHash reports whether tag is the digest of a hashed name.
func IsHash(tag string) bool {
	digest, found := strings.CutPrefix(tag, "%sha256-")
	return found && len(digest) == 40 && strings.Trim(digest, "0123456789abcdef") == ""
}

// Session returns the channel on which the session id is notified of changes to its holds. It has no
// brace, unlike the channels of names.
func Session(prefix, id string) string { return prefix + "session:" + id }

// Epoch is the key by which a server knows since when it has its data. It has no brace, unlike the keys of names.
func Epoch(prefix string) string { return prefix + "epoch" }

// CheckPrefix returns why prefix cannot precede keys, or nil.
func CheckPrefix(prefix string) error {
	switch {
	case len(prefix) > maxPrefixBytes:
		return fmt.Errorf("the prefix has %d bytes, and %d are allowed", len(prefix), maxPrefixBytes)
	case strings.ContainsAny(prefix, "{}"):
		return fmt.Errorf("the prefix %q has a brace, which would move the hash tag", prefix)
	}
	return nil
}

// Encode writes the bytes that would move the hash tag or spoil a terminal as %XX, and % too, so
// that no two names become equal: braces, control characters, and what is not UTF-8.
func Encode(name string) string {
	if !strings.ContainsFunc(name, escaped) {
		return name
	}
	var out strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		if !escaped(r) || (r == utf8.RuneError && size > 1) {
			out.WriteString(name[i : i+size])
			i += size
			continue
		}
		for end := i + size; i < end; i++ {
			out.WriteByte('%')
			out.WriteByte(hexDigits[name[i]>>4])
			out.WriteByte(hexDigits[name[i]&15])
		}
	}
	return out.String()
}

// Decode returns the name that Encode writes as tag. is reports whether there is one.
func Decode(tag string) (name string, is bool) {
	var out strings.Builder
	for i := 0; i < len(tag); i++ {
		if tag[i] != '%' {
			out.WriteByte(tag[i])
			continue
		}
		digits, err := hex.DecodeString(tag[min(i+1, len(tag)):min(i+3, len(tag))])
		if err != nil || len(digits) != 1 {
			return "", false
		}
		out.WriteByte(digits[0])
		i += 2
	}
	name = out.String()
	return name, Check(name) == nil && Encode(name) == tag
}

// escaped reports whether r may need escaping. A RuneError is either three honest bytes or
// one byte that is no UTF-8; Encode distinguishes them by their size.
func escaped(r rune) bool {
	return r == '%' || r == '{' || r == '}' || unicode.IsControl(r) || r == utf8.RuneError
}

// cacheSize is how many names a Cache remembers at most. They take some 30 KB if they are short, and 500 KB if each is as long as
// a name may be.
const cacheSize = 256

// Cache remembers the keys of names that were used lately: a program that makes a lock object for each call makes the keys of a
// name once. A name has one slot, and the next name of that slot replaces it.
type Cache struct {
	seed  maphash.Seed
	slots [cacheSize]cacheSlot
}

// cacheSlot has the keys of a name that is in them as it is.
type cacheSlot struct {
	mu  sync.Mutex // guards set
	set Set
}

// NewCache returns an empty Cache.
func NewCache() *Cache { return &Cache{seed: maphash.MakeSeed()} }

// Native is the function NativeNames. The keys of a name that has to be encoded, or hashed, are made each time: the encoded name may be
// another name.
func (c *Cache) Native(in NamingOptions, name string) (Set, error) {
	if in.Hashed || strings.ContainsFunc(name, escaped) {
		return NativeNames(in, name)
	}
	slot := &c.slots[maphash.String(c.seed, name)%cacheSize]
	if set := slot.get(); set.isOf(in.Prefix, name) {
		return set, nil
	}
	set, err := NativeNames(in, name)
	if err == nil {
		slot.put(set)
	}
	return set, err
}

func (s *cacheSlot) get() Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

func (s *cacheSlot) put(set Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = set
}

// isOf reports whether s has the keys of a name that is in them as it is.
func (s Set) isOf(prefix, name string) bool {
	rest, hasPrefix := strings.CutPrefix(s.Holder, prefix)
	return hasPrefix && len(rest) == len("{}")+len(name)+len(holderSuffix) && rest[1:1+len(name)] == name
}
