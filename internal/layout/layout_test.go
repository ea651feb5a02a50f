// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"crypto/rand"
	"encoding/base64"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
)

func session() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func TestHoldNamesItsSession(t *testing.T) {
	t.Parallel()
	for _, l := range []*layout.Layout{layout.Native(), layout.Redisson()} {
		seen := make(map[string]bool)
		for n := range uint64(1000) {
			id := session()
			hold := l.Hold(id, n)
			require.Equal(t, id, l.Session(hold), l.Name)
			require.LessOrEqual(t, len(hold), layout.MaxHold)
			require.False(t, seen[hold])
			seen[hold] = true
		}
	}
}

// P9: the same attempt of two copies of a process is two holds.
func TestCopiesOfAProcessShareNoHold(t *testing.T) {
	t.Parallel()
	id := session()
	for _, l := range []*layout.Layout{layout.Native(), layout.Redisson()} {
		require.NotEqual(t, l.Hold(id, 1), l.Hold(id, 1), l.Name)
	}
}

// Scripts cut the hold out by its length, and Java's threads are numbers of 63 bits.
func TestRedissonHoldIsAClientAndAThread(t *testing.T) {
	t.Parallel()
	for n := range uint64(1000) {
		hold := layout.Redisson().Hold("AAECAwQFBgcICQoLDA0ODw", n)
		client, thread, _ := strings.Cut(hold, ":")
		require.Equal(t, "00010203-0405-0607-0809-0a0b0c0d0e0f", client)
		require.Len(t, thread, 19)
		number, err := strconv.ParseInt(thread, 10, 64)
		require.NoError(t, err)
		require.Positive(t, number)
	}
}

func TestJavaClientIsShownAsASession(t *testing.T) {
	t.Parallel()
	l := layout.Redisson()
	require.Equal(t, "AAECAwQFBgcICQoLDA0ODw", l.Session("00010203-0405-0607-0809-0a0b0c0d0e0f:77"))
	for field, want := range map[string]string{"somebody:1": "somebody", "": "", "mode": "mode", "00-11:2": "00-11"} {
		require.Equal(t, want, l.Session(field))
	}
}

// Of a name with a counter there is one kind of lock.
func TestOnlyReentrantLockHasACounter(t *testing.T) {
	t.Parallel()
	all := reflect.ValueOf(*layout.Redisson(layout.Fenced))
	for i := range all.NumField() {
		if field := all.Type().Field(i); field.Type.Kind() == reflect.Pointer && field.Name != "Describe" {
			require.Equal(t, field.Name != "Lock", all.Field(i).IsNil(), field.Name)
		}
	}
}

// Locks that publish on different channels are different locks in a session; if the channels are the same, so is the layout.
func TestVariantIsOneLayout(t *testing.T) {
	t.Parallel()
	require.Same(t, layout.Redisson(), layout.Redisson(layout.ShardedChannels))
	require.Same(t, layout.Redisson(layout.Fenced), layout.Redisson(layout.ShardedChannels, layout.Fenced))
	ways := make(map[string]layout.Variant)
	for _, l := range []*layout.Layout{
		layout.Redisson(), layout.Redisson(layout.PlainChannels), layout.Redisson(layout.PlainChannels, layout.ShardedChannels),
		layout.Redisson(layout.Fenced), layout.Redisson(layout.Fenced, layout.PlainChannels), layout.Redisson(layout.Fenced, layout.PlainChannels, layout.ShardedChannels),
	} {
		ways[l.Lock.RegistryName] = l.Channels
	}
	require.Len(t, ways, 6)
	require.Zero(t, layout.Redisson().Channels)
	require.Equal(t, layout.PlainChannels, layout.Redisson(layout.PlainChannels).Channels)
	require.Equal(t, layout.PlainChannels|layout.ShardedChannels, layout.Redisson(layout.PlainChannels, layout.ShardedChannels).Channels)
}

// P1, P9: a hand-off of one kind cannot find the tickets of another, even after the holder key is lost.
func TestKindsOfOneNameShareNoQueue(t *testing.T) {
	t.Parallel()
	n, err := names.Make(names.DefaultPrefix, "a")
	require.NoError(t, err)
	l := layout.Native()
	kinds := map[string]string{n.Holder: "the holder key, which all locks share"}
	for _, g := range []layout.Kind{l.Fair.Kind, l.RWLock.Kind, l.Semaphore.Kind} {
		keys := g.Keys(n, nil)
		require.Contains(t, []string{n.HeartbeatsKey(), n.RWHeartbeats(), n.PermitsHeartbeats()}, keys.All[len(keys.All)-1], "the last key has the heartbeats")
		for _, key := range keys.All {
			if key != n.Holder {
				require.Empty(t, kinds[key], "%s of %s", key, g.RegistryName)
				kinds[key] = g.RegistryName
			}
		}
	}
}

// Fair locks of clients with another fairLockWaitTimeout have a layout of their own, and no other kind has
// it.
func TestFairLockHasItsOwnTimeout(t *testing.T) {
	t.Parallel()
	usual, short := layout.Redisson(layout.PlainChannels), layout.RedissonFair(4*time.Second, layout.PlainChannels)
	require.Equal(t, []string{"300000"}, usual.Fair.Retry.Args)
	require.Equal(t, []string{"4000"}, short.Fair.Retry.Args)
	require.NotEqual(t, usual.Fair.RegistryName, short.Fair.RegistryName)
	require.Equal(t, usual.Channels, short.Channels)
	require.Same(t, usual.Fair, layout.RedissonFair(layout.FairWait, layout.PlainChannels).Fair)
	all := reflect.ValueOf(*short)
	for i := range all.NumField() {
		if field := all.Type().Field(i); field.Type.Kind() == reflect.Pointer && field.Name != "Describe" {
			require.Equal(t, field.Name != "Fair", all.Field(i).IsNil(), field.Name)
		}
	}
}
