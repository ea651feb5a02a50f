// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
)

// The vectors are for other languages, too: the first four bytes of the key's SHA-256, as a number, modulo n.
func TestIndexIsTheSameInEveryRelease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key  string
		n    int
		want int
	}{
		{"", 1, 0},
		{"", 64, 0xe3b0c442 % 64},
		{"abc", 64, 0xba7816bf % 64},
		{"abc", 65_536, 0xba7816bf % 65_536},
		{"abc", 7, 0xba7816bf % 7},
	} {
		require.Equal(t, c.want, shards.Index(c.key, c.n), c)
	}
	for _, n := range []int{2, 7, 64, 1000} {
		counts := make([]int, n)
		const keys = 20_000
		for i := range keys {
			counts[shards.Index(fmt.Sprintf("order-%d", 2*i), n)]++
		}
		for i, count := range counts {
			require.InDelta(t, keys/n, count, float64(keys/n)/5+25, "shard %d of %d", i, n)
		}
	}
	require.Panics(t, func() { shards.Index("a", 0) })
}

func TestSetsAndOptionsThatAreNotValid(t *testing.T) {
	t.Parallel()
	s := locktest.Session(t, redistest.Start(t))
	set := shards.Count(1)
	for name, g := range map[string]*shards.Group{
		"zero set":       shards.New(s, "a", shards.Set{}),
		"count 0":        shards.New(s, "a", shards.Count(0)),
		"many":           shards.New(s, "a", shards.Count(65_537)),
		"exact of many":  shards.New(s, "a", shards.Exact(shards.Count(-1))),
		"exact names":    shards.New(s, "a", shards.Exact(shards.Names("a"))),
		"empty name":     shards.New(s, "a", shards.Names("a", "")),
		"long name":      shards.New(s, "a", shards.Names(strings.Repeat("a", 65))),
		"weight 0":       shards.New(s, "a", set, shards.Weight(0)),
		"weight 1001":    shards.New(s, "a", set, shards.Weight(1001)),
		"limit 0":        shards.New(s, "a", set, shards.Limit(0)),
		"long value":     shards.New(s, "a", set, shards.Value(strings.Repeat("a", 257))),
		"settle -1":      shards.New(s, "a", set, shards.RebalanceDelay(-1)),
		"no moves":       shards.New(s, "a", set, shards.Moves(0)),
		"drain at once":  shards.New(s, "a", set, shards.DrainLimit(time.Millisecond)),
		"retry backward": shards.New(s, "a", set, shards.Retry(time.Second, time.Millisecond)),
		"short lease":    shards.New(s, "a", set, signalbox.WithRenewedLease(time.Second)),
		"replicas":       shards.New(s, "a", set, signalbox.WithReplicas(1, time.Second)),
		"fixed lease":    shards.New(s, "a", set, signalbox.WithFixedLease(time.Minute)),
	} {
		require.ErrorIs(t, g.Check(), signalbox.ErrBadOption, name)
		_, err := g.Join(t.Context())
		require.ErrorIs(t, err, signalbox.ErrBadOption, name)
	}
	for name, g := range map[string]*shards.Group{
		"no names yet":   shards.New(s, "a", shards.Names()),
		"a name twice":   shards.New(s, "a", shards.Names("a", "b", "a")),
		"the most":       shards.New(s, "a", shards.Exact(shards.Count(65_536)), shards.Weight(1000), shards.Limit(1)),
		"settle at once": shards.New(s, "a", set, shards.RebalanceDelay(0)),
	} {
		require.NoError(t, g.Check(), name)
	}
}

// The zero values own nothing, and say so.
func TestZeroValues(t *testing.T) {
	t.Parallel()
	var s shards.Shard
	require.ErrorIs(t, s.Err(), signalbox.ErrNotHeld)
	require.ErrorIs(t, s.Release(), signalbox.ErrNotHeld)
	<-s.Done()
	require.Error(t, s.Bind(t.Context()).Err())
	require.Zero(t, s.Deadline())
	var m *shards.Member
	require.ErrorIs(t, m.Err(), signalbox.ErrNotHeld)
	<-m.Done()
	require.ErrorIs(t, m.Leave(t.Context()), signalbox.ErrBadOption)
	require.ErrorIs(t, m.SetWeight(t.Context(), 1), signalbox.ErrBadOption)
	_, owns := m.Own("0")
	require.False(t, owns)
	for range m.Changes() {
		t.Error("a change of no member")
	}
	var g shards.Group
	require.ErrorIs(t, g.Run(t.Context(), nil), signalbox.ErrBadOption)
	require.ErrorIs(t, g.Health(t.Context()), signalbox.ErrBadOption)
	_, err := (*shards.Group)(nil).View(t.Context())
	require.ErrorIs(t, err, signalbox.ErrBadOption)
}

// A kind of change prints as it is named.
func TestChangesAreNamed(t *testing.T) {
	t.Parallel()
	require.Equal(t, "none granted wanted lost", fmt.Sprint(shards.ChangeKind(0), " ", shards.Granted, " ", shards.Wanted, " ", shards.Lost))
}
