// SPDX-License-Identifier: Apache-2.0

package redisson

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// tableOf returns the layout with these options.
func tableOf(t *testing.T, options ...Option) *proto.Layout {
	t.Helper()
	l, err := session.LayoutHandle(Layout(options...)).Layout()
	require.NoError(t, err)
	return l
}

// P9: no two holds are one, also not those of two copies of a process. Scripts cut the hold out by its length, and Java's threads are numbers of 63 bits.
func TestHoldIsAClientAndAThread(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for n := range uint64(1000) {
		hold := tableOf(t).Hold("AAECAwQFBgcICQoLDA0ODw", n/2)
		require.Equal(t, "AAECAwQFBgcICQoLDA0ODw", tableOf(t).Session(hold))
		require.Len(t, hold, holdSize)
		require.False(t, seen[hold])
		seen[hold] = true
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
	l := tableOf(t)
	require.Equal(t, "AAECAwQFBgcICQoLDA0ODw", l.Session("00010203-0405-0607-0809-0a0b0c0d0e0f:77"))
	for field, want := range map[string]string{"somebody:1": "somebody", "": "", "mode": "mode", "00-11:2": "00-11"} {
		require.Equal(t, want, l.Session(field))
	}
}

// Of a name with a counter there is one kind of lock.
func TestOnlyReentrantLockHasACounter(t *testing.T) {
	t.Parallel()
	all := reflect.ValueOf(*tableOf(t, Fenced))
	for i := range all.NumField() {
		if field := all.Type().Field(i); field.Type.Kind() == reflect.Pointer && field.Name != "Describe" && field.Name != "Reader" {
			require.Equal(t, field.Name != "Lock", all.Field(i).IsNil(), field.Name)
		}
	}
}

// Locks that publish on different channels are different locks in a session; if the channels are the same, so is the layout.
func TestVariantIsOneLayout(t *testing.T) {
	t.Parallel()
	require.Same(t, tableOf(t), tableOf(t, ShardedChannels))
	require.Same(t, tableOf(t, Fenced), tableOf(t, ShardedChannels, Fenced))
	ways := make(map[string]proto.Channels)
	for _, l := range []*proto.Layout{
		tableOf(t), tableOf(t, PlainChannels), tableOf(t, PlainChannels, ShardedChannels),
		tableOf(t, Fenced), tableOf(t, Fenced, PlainChannels), tableOf(t, Fenced, PlainChannels, ShardedChannels),
	} {
		ways[l.Lock.RegistryName] = l.Channels
	}
	require.Len(t, ways, 6)
	require.Zero(t, tableOf(t).Channels)
	require.Equal(t, proto.PlainChannels, tableOf(t, PlainChannels).Channels)
	require.Equal(t, proto.PlainChannels|proto.ShardedChannels, tableOf(t, PlainChannels, ShardedChannels).Channels)
}

// Fair locks of clients with another fairLockWaitTimeout have a layout of their own, and no other kind has
// it.
func TestFairLockHasItsOwnTimeout(t *testing.T) {
	t.Parallel()
	usual, short := tableOf(t, PlainChannels), tableOf(t, FairLockWaitTimeout(4*time.Second), PlainChannels)
	require.Equal(t, []string{"300000"}, usual.Fair.Retry.Args)
	require.Equal(t, []string{"4000"}, short.Fair.Retry.Args)
	require.NotEqual(t, usual.Fair.RegistryName, short.Fair.RegistryName)
	require.Equal(t, usual.Channels, short.Channels)
	require.Same(t, usual.Fair, tableOf(t, FairLockWaitTimeout(defaultFairWait), PlainChannels).Fair)
	all := reflect.ValueOf(*short)
	for i := range all.NumField() {
		if field := all.Type().Field(i); field.Type.Kind() == reflect.Pointer && field.Name != "Describe" && field.Name != "Reader" {
			require.Equal(t, field.Name != "Fair", all.Field(i).IsNil(), field.Name)
		}
	}
}

func TestKeyIsTheName(t *testing.T) {
	t.Parallel()
	for name, channel := range map[string]string{
		"order/42":    "redisson_lock__channel:{order/42}",
		"{map}:a:rw":  "redisson_lock__channel:{map}:a:rw",
		"a{b":         "redisson_lock__channel:a{b",
		"größer *?\n": "redisson_lock__channel:{größer *?\n}",
	} {
		set, err := makeNames(proto.NamingOptions{Prefix: "sb:"}, name)
		require.NoError(t, err)
		require.Equal(t, proto.NewSet(name, channel), set)
	}
}

func TestNamesAreValid(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", strings.Repeat("x", proto.MaxBytes+1)} {
		_, err := makeNames(proto.NamingOptions{}, bad)
		require.Error(t, err)
	}
}

// P9: in a cluster a name whose key and channel would be in two slots is refused; without a cluster it is
// valid.
func TestCluster_NameThatIsSplitIsRefused(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"a": true, "{a}": true, "a{b}c": true, "{a}{b}": true, "a{b}c}": true,
		"a{b": false, "a{}b": false, "a}b": false, "{": false, "}": false, "{}": false, "a{}{b}": false,
	} {
		_, err := makeNames(proto.NamingOptions{}, name)
		require.NoError(t, err, name)
		_, err = makeNames(proto.NamingOptions{Clustered: true}, name)
		if good {
			require.NoError(t, err, name)
		} else {
			require.Error(t, err, name)
		}
	}
}

// P9: two names have two keys; channels they may share, and that is said.
func FuzzNamesNeverMeet(f *testing.F) {
	f.Add("a", "b")
	f.Add("a", "{a}")
	f.Add("a}b", "a")
	f.Fuzz(func(t *testing.T, a, b string) {
		setOfA, errOfA := makeNames(proto.NamingOptions{Clustered: true}, a)
		setOfB, errOfB := makeNames(proto.NamingOptions{Clustered: true}, b)
		if errOfA != nil || errOfB != nil {
			return
		}
		require.Equal(t, a == b, setOfA.Holder == setOfB.Holder)
		require.Equal(t, wire.Tag(setOfA.Holder), wire.Tag(setOfA.More), "one slot")
	})
}

func TestChannelMayBeSharedByTwoNames(t *testing.T) {
	t.Parallel()
	a, err := makeNames(proto.NamingOptions{}, "a")
	require.NoError(t, err)
	braced, err := makeNames(proto.NamingOptions{}, "{a}")
	require.NoError(t, err)
	require.Equal(t, a.More, braced.More)
	require.NotEqual(t, a.Holder, braced.Holder)
}
