// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
)

// running is a member that runs until the test ends.
type running struct {
	*shards.Group

	cancel   context.CancelFunc
	began    chan shards.Shard
	ended    chan error // the causes
	returned chan error
}

// run starts a member. Its functions wait for the end of their contexts.
func run(t *testing.T, g *shards.Group) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{g, cancel, make(chan shards.Shard, 100), make(chan error, 100), make(chan error, 1)}
	go func() {
		r.returned <- g.Run(ctx, func(ctx context.Context, s shards.Shard) error {
			r.began <- s
			<-ctx.Done()
			r.ended <- context.Cause(ctx)
			return nil
		})
	}()
	t.Cleanup(cancel)
	return r
}

// owns waits until the functions of n shards have begun, and returns them by their names.
func (r *running) owns(t *testing.T, n int) map[string]shards.Shard {
	t.Helper()
	all := make(map[string]shards.Shard)
	for len(all) < n {
		s := redistest.Receive(t, "a shard", r.began)
		all[s.Name()] = s
	}
	return all
}

// await waits until an observer sees what it is to see.
func (r *running) await(t *testing.T, isSeen func(*shards.View) bool) {
	t.Helper()
	for v, err := range r.Watch(locktest.Context(t)) {
		if err == nil && isSeen(v) {
			return
		}
	}
	require.Fail(t, "an observer never saw it")
}

// requireMoved requires that a context ended because its shard moved, or because a busy machine lost the lease of a young member.
func (r *running) requireMoved(t *testing.T) {
	t.Helper()
	if cause := redistest.Receive(t, "the end of a context", r.ended); !errors.Is(cause, signalbox.ErrLost) {
		require.ErrorIs(t, cause, shards.ErrMoved)
	}
}

// P3: a shard moves with a greater token when its function has returned.
func TestShardMovesWhenItsFunctionHasReturned(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a new group grants nothing for two seconds")
	server := redistest.Start(t)
	a := run(t, shards.New(locktest.Session(t, server), "a", shards.Count(8), shards.RebalanceDelay(0)))
	all := a.owns(t, 8)
	for _, s := range all { // bound for each piece of work, an ownership of days keeps nothing for those that are over
		require.Equal(t, s.Bind(t.Context()).Done(), s.Bind(context.WithValue(t.Context(), s, 1)).Done())
	}
	b := run(t, shards.New(locktest.Session(t, server), "a", shards.Count(8), shards.RebalanceDelay(0)))
	for name, s := range b.owns(t, 4) {
		a.requireMoved(t)
		require.Greater(t, s.Token(), all[name].Token())
		require.Error(t, all[name].Err())
		require.False(t, s.Deadline().IsZero())
	}
	a.cancel()
	require.ErrorIs(t, redistest.Receive(t, "the return of Run", a.returned), context.Canceled)
	a.await(t, func(v *shards.View) bool { return len(v.Members) == 1 && v.Members[0].Owned == 8 })
	b.cancel()
	require.ErrorIs(t, redistest.Receive(t, "the return of Run", b.returned), context.Canceled)
	a.await(t, func(v *shards.View) bool { return len(v.Members) == 0 && v.Unowned == 8 })
}

// A member of a session that closes just when it was counted in begins no membership.
func TestAMemberOfASessionThatClosesDoesNotJoin(t *testing.T) {
	t.Parallel()
	joins, err := shards.StartsAfterClose(shards.New(locktest.Session(t, redistest.Start(t)), "a", shards.Count(8)))
	require.NoError(t, err)
	require.False(t, joins)
}

// P9: a key of another program is no group, and a member with another count joins the group that exists unless it must not.
func TestForeignKeysAndOtherCounts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Session(t, server)
	server.MustDo(t, "SET", "sb:{b}:shards", "x")
	_, err := shards.New(s, "b", shards.Count(2)).Join(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	m, err := shards.New(s, "a", shards.Count(2)).Join(t.Context())
	require.NoError(t, err)
	_, err = shards.New(s, "a", shards.Exact(shards.Count(3))).Join(t.Context())
	var mismatch *shards.MismatchError
	require.True(t, errors.As(err, &mismatch), err)
	require.Equal(t, shards.MismatchError{Want: 3, Have: 2}, *mismatch)
	require.EqualError(t, err, `signalbox: join "a": the group has 2 shards, and not 3 shards`)
	_, err = shards.New(s, "a", shards.Names("x")).Join(t.Context())
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	_, err = shards.New(s, "none", shards.Count(2)).View(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotHeld)
	require.EqualError(t, err, `signalbox: view "none": the server has no such group: no member has joined for a week, or its data was lost`)
	named := shards.New(s, "named", shards.Names("x"))
	other, err := named.Join(t.Context())
	require.NoError(t, err)
	require.EqualError(t, named.Resize(t.Context(), 7), `signalbox: resize "named": the group has named shards, and not 7 shards`)
	require.NoError(t, other.Leave(t.Context()))
	counted := shards.New(s, "a", shards.Count(2))
	require.EqualError(t, counted.Sync(t.Context(), []string{"x"}), `signalbox: sync "a": the group has 2 shards, and not named shards`)
	err = counted.Move(t.Context(), strings.Repeat("a", 10_000), s.ID())
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.Less(t, len(err.Error()), 200)

	lines := new(bytes.Buffer)
	logs := locktest.Session(t, server, signalbox.WithLogger(slog.New(slog.NewTextHandler(lines, nil))))
	group := shards.New(logs, "a", shards.Count(64))
	for range 2 {
		joined, err := group.Join(t.Context())
		require.NoError(t, err)
		require.NoError(t, joined.Leave(t.Context()))
	}
	require.NoError(t, logs.Close(t.Context()))
	require.Contains(t, lines.String(), "kind=shards name=a shards=2 set=64 events=1", "once")
	require.NoError(t, m.Leave(t.Context()))
	require.ErrorIs(t, m.Err(), shards.ErrLeft)
	_, err = shards.New(s, "none", shards.Count(2)).View(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotHeld)
}

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

// A kind of change prints as it is named.
func TestChangesAreNamed(t *testing.T) {
	t.Parallel()
	require.Equal(t, "none granted wanted lost", fmt.Sprint(shards.ChangeKind(0), " ", shards.Granted, " ", shards.Wanted, " ", shards.Lost))
}

// A server that lost its data ends all contexts, and grants anew.
func TestServerThatLostItsDataGrantsAnew(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a new group grants nothing for two seconds")
	server := redistest.Start(t)
	a := run(t, shards.New(locktest.Session(t, server), "a", shards.Names("x", "y", "z")))
	before := a.owns(t, 3)
	server.MustDo(t, "FLUSHALL")
	for range 3 {
		require.ErrorIs(t, redistest.Receive(t, "the end of a context", a.ended), signalbox.ErrLost)
	}
	for name, s := range a.owns(t, 3) {
		require.Greater(t, s.Token(), before[name].Token())
	}
}
