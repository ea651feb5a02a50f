// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/shards"
)

// What happens between two steps of a member, and what it has yet to say when it loses its lease.

// requireNames requires that these are the names of the group.
func (m *shardMember) requireNames(names ...string) {
	m.log.w.Helper()
	v, err := m.group.View(m.log.w.Context())
	require.NoError(m.log.w, err)
	require.Equal(m.log.w, names, v.Names())
}

// A reply that grants shards while the lease ends here gives the reader of Changes none that it is never told to stop: it would keep those
// from this process for ever.
func TestWhatIsGrantedWhileTheLeaseEndsIsNotKept(t *testing.T) {
	t.Parallel()
	const bound = 1000
	bubbleOfUsers(t, func(w *fixture) {
		names := make([]string, 64)
		for i := range names {
			names[i] = fmt.Sprintf("a%02d", i)
		}
		g := shards.New(w.user().Session, "a", shards.Names(names...))
		m, err := g.Join(w.Context())
		require.NoError(w, err)
		var reading sync.WaitGroup
		var mu sync.Mutex
		owned := make(map[string]shards.Shard)
		reading.Go(func() {
			for c := range m.Changes() {
				mu.Lock()
				if c.Kind == shards.Granted {
					owned[c.Shard.Name()] = c.Shard
				} else {
					delete(owned, c.Shard.Name())
					_ = c.Shard.Release()
				}
				mu.Unlock()
			}
		})
		time.Sleep(30 * time.Second)
		// The contexts take a while to end, and the poll is executed as soon as the first has.
		var isFirst sync.Once
		ends, first := time.Time{}, make(chan struct{})
		mu.Lock()
		before := maps.Clone(owned)
		mu.Unlock()
		require.Len(w, before, len(names))
		for _, s := range before {
			for range bound {
				parent, cancel := context.WithCancel(context.Background())
				defer cancel()
				s.Bind(parent)
			}
			context.AfterFunc(s.Bind(context.Background()), func() { isFirst.Do(func() { close(first) }) })
			ends = s.Deadline()
		}
		var isOver atomic.Bool
		w.refusesScripts(func(command string, args []string) string {
			isPoll := runs(proto.ShardsPollScript, command, args)
			switch {
			case isOver.Load() || !isPoll && !runs(proto.HoldsRenewScript, command, args):
				return ""
			case isPoll && time.Until(ends) < 990*time.Millisecond:
				<-first
				return ""
			}
			return slotMoves
		})
		other := shards.New(w.user().Session, "a", shards.Names())
		names = append(names, "b0", "b1", "b2", "b3")
		require.NoError(w, other.Sync(w.Context(), names))
		<-first
		isOver.Store(true)
		time.Sleep(10 * time.Second)
		mu.Lock()
		last := maps.Clone(owned) // a test that fails under the lock would keep it
		mu.Unlock()
		for _, name := range names {
			require.NoError(w, last[name].Err(), name)
		}
		require.NoError(w, m.Leave(w.Context()))
		reading.Wait()
	})
}

// A name whose owner has released it comes back if the server loses its data before it has heard that, unless it has left the set.
func TestNamesWhoseReleaseIsNotHeardComeBack(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		m := l.newMember(shards.Names("a", "b", "c", "d"), 0)
		goes := make(chan struct{})
		m.run(func(ctx context.Context, s shards.Shard) error {
			select {
			case <-goes:
			case <-ctx.Done():
				return nil
			}
			switch s.Name() {
			case "a":
				return shards.Elsewhere(nil, time.Minute)
			case "b":
				return shards.Finished
			}
			<-ctx.Done()
			return nil
		})
		time.Sleep(30 * time.Second)
		require.Equal(w, 4, m.load())
		var refuses atomic.Bool
		refuses.Store(true)
		w.refusesScripts(func(command string, args []string) string {
			if refuses.Load() && runs(proto.ShardsReleaseScript, command, args) {
				return slotMoves
			}
			return ""
		})
		close(goes)
		time.Sleep(time.Second)
		require.NoError(w, m.group.Sync(w.Context(), []string{"a", "b", "d"}))
		time.Sleep(2 * time.Second)
		require.Equal(w, []string{"d"}, m.shards())
		w.redis.FlushAll()
		time.Sleep(5 * time.Second)
		refuses.Store(false)
		time.Sleep(5 * time.Second)
		m.requireNames("a", "d")
	})
}

// A member that was away while the server lost the newest writes says its names when it joins again, also if others have said theirs.
func TestNamesOfAMemberThatWasAwayComeBackAfterAFailover(t *testing.T) {
	t.Parallel()
	names := strings.Split("abcdef", "")
	for _, away := range []int{1, 2} {
		t.Run(fmt.Sprint(away), func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(w *fixture) {
				l := newShardLog(w)
				members := []*shardMember{l.member(shards.Names(), shardDrain), l.member(shards.Names(), shardDrain)}
				time.Sleep(time.Minute)
				older := backupOf(w.redis)
				require.NoError(w, members[0].group.Sync(w.Context(), names))
				l.untilEven(len(names), members...)
				time.Sleep(time.Minute)
				for _, m := range members[:away] {
					m.wire.goSilent()
				}
				older.Restore(w.redis)
				time.Sleep(time.Minute)
				for _, m := range members[:away] {
					m.wire.heal()
				}
				time.Sleep(20 * time.Second)
				members[0].requireNames(names...)
				l.untilEven(len(names), members...)
				require.NoError(w, members[1].group.Health(w.Context()))
			})
		})
	}
}

// A name that has left the set, since its work is finished, does not come back from the membership before when the server loses its data.
func TestAFinishedNameDoesNotComeBack(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		m := l.newMember(shards.Names("a", "b", "c"), 0)
		finishes := make(chan struct{})
		m.run(func(ctx context.Context, s shards.Shard) error {
			select {
			case <-ctx.Done():
				return nil
			case <-finishes:
			}
			if s.Name() == "b" {
				return shards.Finished
			}
			<-ctx.Done()
			return nil
		})
		time.Sleep(time.Minute)
		w.redis.FlushAll()
		time.Sleep(6 * time.Second)
		m.requireNames("a", "b", "c")
		close(finishes)
		time.Sleep(2 * time.Second)
		m.requireNames("a", "c")
		w.redis.FlushAll()
		time.Sleep(6 * time.Second)
		m.requireNames("a", "c")
		require.Equal(w, []string{"a", "c"}, m.shards())
	})
}

// The names that all members request do not replace those of a Sync that began after a member was asked for them.
func TestRequestedNamesThatAreLateUndoNoSync(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		before := l.member(shards.Names("a", "b"), shardDrain)
		l.untilEven(2, before)
		after := l.member(shards.Names("a", "c"), shardDrain)
		l.untilEven(2, before, after)
		time.Sleep(time.Minute)
		var refuses atomic.Bool
		var refused atomic.Int64
		refuses.Store(true)
		w.refusesScripts(func(command string, args []string) string {
			if refuses.Load() && runs(proto.ShardsSyncScript, command, args) && strings.Contains(strings.Join(args, " "), after.ID()) {
				refused.Add(1)
				return slotMoves
			}
			return ""
		})
		before.leave()
		time.Sleep(2 * time.Second)
		require.Positive(w, refused.Load(), "it is asked for its names")
		caller := shards.New(w.user().Session, "a", shards.Names())
		require.NoError(w, caller.Sync(w.Context(), []string{"x", "y"}))
		refuses.Store(false)
		time.Sleep(time.Minute)
		after.requireNames("x", "y")
		l.untilEven(2, after)
	})
}

// Of two calls of Resize or Sync that one counts which began last, also if the first one is sent again later, because its reply was lost.
func TestACallWhoseReplyWasLostUndoesNoLaterOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set    shards.Set
		change func(ctx context.Context, g *shards.Group, n int) error
	}{
		"Resize": {shards.Count(1), func(ctx context.Context, g *shards.Group, n int) error { return g.Resize(ctx, n) }},
		"Sync":   {shards.Names(), syncTo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(w *fixture) {
				l := newShardLog(w)
				a := l.member(c.set, shardDrain)
				time.Sleep(30 * time.Second)
				first := w.user()
				g := shards.New(first.Session, "a", c.set)
				require.NoError(w, c.change(w.Context(), g, 1))
				first.wire.swallowsReplies.Store(true)
				result := make(chan error, 1)
				go func() { result <- c.change(w.Context(), g, 5) }()
				time.Sleep(20 * time.Second)
				require.Equal(w, 5, a.load(), "it was executed")
				require.NoError(w, c.change(w.Context(), a.group, 12))
				time.Sleep(20 * time.Second)
				first.wire.heal()
				require.NoError(w, <-result)
				time.Sleep(20 * time.Second)
				require.Equal(w, 12, a.load())
			})
		})
	}
}

func syncTo(ctx context.Context, g *shards.Group, n int) error {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return g.Sync(ctx, names)
}
