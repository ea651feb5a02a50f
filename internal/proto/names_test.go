// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// P9: an operator who knows the name finds the key: printf order/42 | sha256sum | cut -c1-40.
func TestHashedNameIsNotInItsKeys(t *testing.T) {
	t.Parallel()
	set, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix, Hashed: true}, "order/42")
	require.NoError(t, err)
	key := "sb:{%sha256-12e4be1bb177a39c558de9551603d8146b5b4eaf}:lock"
	require.Equal(t, []string{key, key + ":unlocked"}, []string{set.Holder, set.Unlocked()})
}

// P9: what a plain name becomes is never what a hashed one does, whatever the name.
func TestHashedAndPlainNamesAreNeverEqual(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "%", proto.Hash("a"), strings.Repeat("x", proto.MaxBytes)} {
		plain, err := proto.NativeNames(proto.NamingOptions{Prefix: ""}, name)
		require.NoError(t, err)
		require.NotContains(t, plain.Holder, "%s")
		hashed, err := proto.NativeNames(proto.NamingOptions{Prefix: "", Hashed: true}, name)
		require.NoError(t, err)
		require.Contains(t, hashed.Holder, "{%sha256-")
	}
}

func TestInvalidNameIsNotHashed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", strings.Repeat("x", proto.MaxBytes+1)} {
		_, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix, Hashed: true}, name)
		require.Error(t, err)
	}
}

func TestPlainNameIsReadableInItsKeys(t *testing.T) {
	t.Parallel()
	set, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, "order/42: größer*?")
	require.NoError(t, err)
	require.Equal(t, "sb:{order/42: größer*?}:lock:unlocked", set.Unlocked())
	require.Equal(t, []string{"sb:{order/42: größer*?}:lock", set.QueueKey(), set.HeartbeatsKey()}, set.AppendKeys(nil))
	require.Equal(t, "sb:{order/42: größer*?}:queue", set.QueueKey())
	require.Equal(t, "sb:{order/42: größer*?}:fence", set.Fence())
}

// P9: the keys that are made together are those that are made one by one.
func TestKeysOfScriptsAreThoseOfTheName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "order/42", "{a}"} {
		set, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, name)
		require.NoError(t, err)
		require.Equal(t, []string{set.Holder, set.QueueKey(), set.HeartbeatsKey()}, set.AppendKeys(nil))
		require.Equal(t, []string{set.Holder, set.Writers(), set.Readers(), set.RWHeartbeats()}, set.ForRWLock().AppendKeys(nil))
		require.Equal(t, []string{set.Permits(), set.PermitsQueue(), set.PermitsHeartbeats()}, set.ForSemaphore().AppendKeys(nil))
	}
}

// P9: the channel of a session is no name's.
func TestSessionChannelIsNoNameChannel(t *testing.T) {
	t.Parallel()
	require.Equal(t, "sb:session:0123456789012345678901", proto.Session(proto.DefaultPrefix, "0123456789012345678901"))
	require.Equal(t, "sb:epoch", proto.Epoch(proto.DefaultPrefix))
	for _, name := range []string{"session", "session:0123456789012345678901", "sb:session:0123456789012345678901"} {
		set, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, name)
		require.NoError(t, err)
		require.Contains(t, set.Unlocked(), "{")
	}
}

func TestBracesAndControlCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"{":        "%7B",
		"}":        "%7D",
		"a{b}c":    "a%7Bb%7Dc",
		"%":        "%25",
		"%7B":      "%257B",
		"\x00":     "%00",
		"a\nb\x7f": "a%0Ab%7F",
		"\x1b[2J":  "%1B[2J",
		"\xff":     "%FF",
		"a\xc3":    "a%C3",
		"\uFFFD":   "\uFFFD",
		"ünï":      "ünï",
		"\xffü{":   "%FFü%7B",
	} {
		require.Equal(t, want, proto.Encode(name), "%q", name)
	}
}

func TestInvalidNameIsRefused(t *testing.T) {
	t.Parallel()
	_, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, "")
	require.Error(t, err)
	_, err = proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, strings.Repeat("x", proto.MaxBytes))
	require.NoError(t, err)
	_, err = proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, strings.Repeat("x", proto.MaxBytes+1))
	require.Error(t, err)
	require.ErrorContains(t, err, "513")
	require.NotContains(t, err.Error(), "xxx", "a name that is too long is not repeated")
}

func TestPrefixWithABraceIsRefused(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", proto.DefaultPrefix, "a:b:", strings.Repeat("x", 64)} {
		require.NoError(t, proto.CheckPrefix(good), "%q", good)
	}
	for _, bad := range []string{"{", "}", "a{b}", strings.Repeat("x", 65)} {
		require.Error(t, proto.CheckPrefix(bad), "%q", bad)
	}
}

func TestLongestKeyIsBelowTwoKibibytes(t *testing.T) {
	t.Parallel()
	set, err := proto.NativeNames(proto.NamingOptions{Prefix: strings.Repeat("p", 64)}, strings.Repeat("{", proto.MaxBytes))
	require.NoError(t, err)
	require.Less(t, len(set.Unlocked()), 2048)
}

// tag returns what a cluster hashes: the text between the first { and the next }.
func tag(t *testing.T, key string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count(key, "{"), "%q", key)
	require.Equal(t, 1, strings.Count(key, "}"), "%q", key)
	_, rest, _ := strings.Cut(key, "{")
	inner, _, closed := strings.Cut(rest, "}")
	require.True(t, closed, "%q", key)
	return inner
}

// P9: that Encode has an inverse makes it injective.
func FuzzNamesNeverMeet(f *testing.F) {
	for _, seed := range []string{"a", "{a}", "}{", "%7B", "%", "\x00", "\xff\xfe", "\uFFFD", "ü", "a:lock", "\xed\xa0\x80", "\xf0\x9f\x94\x92"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		set, err := proto.NativeNames(proto.NamingOptions{Prefix: "sb:"}, name)
		if name == "" || len(name) > proto.MaxBytes {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		encoded := tag(t, set.Holder)
		require.NotEmpty(t, encoded)
		require.Equal(t, encoded, tag(t, set.Unlocked()), "one slot")
		require.Equal(t, encoded, tag(t, set.Latch()), "one slot")
		require.Equal(t, encoded, tag(t, set.Ended()), "one slot")
		decoded, is := proto.Decode(encoded)
		require.True(t, is)
		require.Equal(t, name, decoded)
		parsed, same, ok := proto.Parse("sb:", set.Latch())
		require.True(t, ok && same == set && parsed == encoded)
		require.Equal(t, proto.Encode(name), encoded)
		for i := range len(encoded) {
			require.True(t, encoded[i] >= 0x20 && encoded[i] != 0x7f, "%q has a control character", encoded)
		}
	})
}

func TestWhatEncodeNeverWritesIsNotDecoded(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"", "%", "%4", "%zz", "%41", "%7b", "a%", "{", "\xff", "%C3%BC", proto.Hash("a"), strings.Repeat("x", proto.MaxBytes+1)} {
		_, is := proto.Decode(tag)
		require.False(t, is, "%q", tag)
	}
	require.True(t, proto.IsHash(proto.Hash("a")))
	for _, tag := range []string{"", "a", "%sha256-", proto.Hash("a") + "0", strings.ToUpper(proto.Hash("a"))} {
		require.False(t, proto.IsHash(tag), "%q", tag)
	}
}

func TestAKeyOfNoNameIsNotParsed(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "sb:", "sb:epoch", "sb:{", "sb:{}:lock", "sb:{a:lock", "xsb:{a}:lock", "sb:{a}{b}:lock", "sb:{{a}}:lock"} {
		_, _, ok := proto.Parse("sb:", key)
		require.False(t, ok, "%q", key)
	}
}

func FuzzTwoNamesHaveTwoKeys(f *testing.F) {
	f.Add("a", "b")
	f.Add("{", "%7B")
	f.Add("\xff", "%FF")
	f.Add("\xff", "\uFFFD")
	f.Add("a}:lock", "a")
	f.Fuzz(func(t *testing.T, a, b string) {
		require.Equal(t, a == b, proto.Encode(a) == proto.Encode(b))
	})
}

// P9: the keys of a semaphore belong to no lock, whatever its name, and are in the semaphore's slot.
func TestPermitKeysAreNotSharedWithLocks(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, name := range []string{
		"a", "a:permits", "a:permits:queue", "a}:permits", "{a}", "a{", "a:lock", "a:queue", ":permits", "permits:heartbeats",
	} {
		set, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, name)
		require.NoError(t, err)
		for _, key := range []string{
			set.Holder, set.Unlocked(), set.QueueKey(), set.HeartbeatsKey(), set.Writers(), set.Readers(), set.RWHeartbeats(), set.Grants(), set.Permits(), set.PermitsQueue(), set.PermitsHeartbeats(),
		} {
			require.Empty(t, seen[key], "%s is also a key of %s", key, name)
			seen[key] = name
			require.Contains(t, key, "{"+proto.Encode(name)+"}:")
		}
	}
	set, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, "a")
	require.NoError(t, err)
	require.Equal(t, "sb:{a}:permits", set.Permits())
	require.Equal(t, "sb:{a}:permits:queue", set.PermitsQueue())
	require.Equal(t, "sb:{a}:permits:heartbeats", set.PermitsHeartbeats())
}

// P9: a slot is what the server and the client take for it.
func TestSlotIsThatOfTheServerAndTheClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes"))
	client := server.Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
	keys := []string{"", "a", "123456789", "{}", "{}a", "a{b}c", "a{b}{c}", "{{a}}", "{a", "a}", "a{}b{c}", "ä\x00\xff"}
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("sb:{order/%d}:lock", i))
	}
	for _, key := range keys {
		require.EqualValues(t, server.MustDo(t, "CLUSTER", "KEYSLOT", key), wire.Slot(key), "%q", key)
		command := client.B().Get().Key(key).Build()
		require.Equal(t, command.Slot()%wire.Slots, wire.Slot(key), "%q", key)
	}
}

// P9: whatever was asked before, a name has the keys that it has without a Cache. Some names are what others are encoded as, or
// hashed to, and there are more than the Cache has slots.
func TestCachedKeysAreThoseOfTheName(t *testing.T) {
	t.Parallel()
	all := []string{"a", "{a}", "%7Ba%7D", "a}:lock", "%", "%25", "%2525", "", proto.Hash("a"), "größer", "\xff", strings.Repeat("x", proto.MaxBytes+1)}
	for i := range 2000 {
		all = append(all, strconv.Itoa(i))
	}
	options := []proto.NamingOptions{{Prefix: "sb:"}, {Prefix: ""}, {Prefix: "sb:", Hashed: true}}
	c := proto.NewCache()
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for _, name := range all {
				for range 2 {
					for _, in := range options {
						want, wantErr := proto.NativeNames(in, name)
						set, err := c.Native(in, name)
						if set != want || (err == nil) != (wantErr == nil) {
							t.Errorf("%q: %v, %v", name, set, err)
						}
					}
				}
			}
		})
	}
	running.Wait()
}

// P7: the keys of a name that was asked before take no memory.
func TestCachedKeys_NoAllocation(t *testing.T) {
	c, in := proto.NewCache(), proto.NamingOptions{Prefix: proto.DefaultPrefix}
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = c.Native(in, "order/42") }))
}

func session() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func TestHoldNamesItsSession(t *testing.T) {
	t.Parallel()
	l := proto.Native()
	seen := make(map[string]bool)
	for n := range uint64(1000) {
		id := session()
		hold := l.Hold(id, n)
		require.Equal(t, id, l.Session(hold))
		require.Len(t, hold, proto.HoldSize)
		require.False(t, seen[hold])
		seen[hold] = true
	}
}

// P9: the same attempt of two copies of a process is two holds.
func TestCopiesOfAProcessShareNoHold(t *testing.T) {
	t.Parallel()
	id := session()
	require.NotEqual(t, proto.Native().Hold(id, 1), proto.Native().Hold(id, 1))
}

// P1, P9: a hand-off of one kind cannot find the tickets of another, even after the holder key is lost.
func TestKindsOfOneNameShareNoQueue(t *testing.T) {
	t.Parallel()
	n, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, "a")
	require.NoError(t, err)
	l := proto.Native()
	kinds := map[string]string{n.Holder: "the holder key, which all locks share"}
	for _, g := range []proto.Table{l.Fair.Table, l.RWLock.Table, l.Semaphore.Table} {
		keys := g.Keys(g.Names(n))
		require.Contains(t, []string{n.HeartbeatsKey(), n.RWHeartbeats(), n.PermitsHeartbeats()}, keys.All[len(keys.All)-1], "the last key has the heartbeats")
		for _, key := range keys.All {
			if key != n.Holder {
				require.Empty(t, kinds[key], "%s of %s", key, g.RegistryName)
				kinds[key] = g.RegistryName
			}
		}
	}
}
