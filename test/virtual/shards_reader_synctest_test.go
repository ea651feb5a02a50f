// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/shards"
)

// heldReader is a member whose reader of Changes takes some shards up, and then reads nothing until it may.
type heldReader struct {
	queueUser

	group  *shards.Group
	member *shards.Member
	may    chan struct{} // closed when it reads again
	read   atomic.Int64  // how many shards it has taken up that are not released
	ended  atomic.Int64  // how many had to stop
}

// heldReader starts a member of the group "a" in a session of its own, which takes so many shards up before it is stuck with one more.
func (l *shardLog) heldReader(set shards.Set, takes int64, options ...signalbox.SessionOption) *heldReader {
	l.w.Helper()
	h := &heldReader{queueUser: l.w.user(options...), may: make(chan struct{})}
	h.group = shards.New(h.Session, "a", set)
	var err error
	h.member, err = h.group.Join(l.w.Context())
	require.NoError(l.w, err)
	go func() {
		for c := range h.member.Changes() {
			if c.Kind != shards.Granted {
				h.read.Add(-1)
				_ = c.Shard.Release()
				continue
			}
			context.AfterFunc(c.Shard.Bind(context.Background()), func() { h.ended.Add(1) })
			if h.read.Add(1) > takes {
				<-h.may
			}
		}
	}()
	l.w.ends = append(l.w.ends, func() {
		select {
		case <-h.may:
		default:
			close(h.may)
		}
	})
	return h
}

// Owned is served: shards that a reader of Changes does not take up go to other members after a minute, and no other shard moves. The
// member takes no more until it reads again. The log, the observer and Health of its session say so.
func TestUnreadShardsGoToOtherMembers(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 24
		l := newShardLog(w)
		var events memberEvents
		logger, lines := logged()
		h := l.heldReader(shards.Count(n), 3, signalbox.WithLogger(logger), signalbox.WithObserver(events.observer()))
		b := l.member(shards.Count(n), shardDrain)
		time.Sleep(55 * time.Second)
		require.Equal(w, n/2, b.load())
		require.NoError(w, h.group.Health(w.Context()))
		events.take()
		time.Sleep(10 * time.Second)
		require.Equal(w, n-4, b.load(), "the four that were read stay")
		require.Equal(w, 4, h.member.Owned())
		require.Zero(w, h.ended.Load())
		moves, _ := l.reset()
		require.Zero(w, moves, "b stops nothing for those that it gets")
		err := h.group.Health(w.Context())
		t.Log(err)
		require.ErrorIs(w, err, signalbox.ErrNotHeld)
		require.NoError(w, b.group.Health(w.Context()), "each shard is served")
		all := events.take()
		require.Len(w, all, 2*(n/2-4))
		require.Contains(w, all, "slow 22 unread")
		require.Contains(w, all, "released 22 released")

		time.Sleep(5 * time.Minute)
		require.Equal(w, n-4, b.load())
		moves, _ = l.reset()
		require.Zero(w, moves)
		v, err := b.group.View(w.Context())
		require.NoError(w, err)
		require.Equal(w, 4, v.Members[0].Limit)
		require.Len(w, matching(lines.String(), "no goroutine has read"), 1)

		close(h.may)
		time.Sleep(30 * time.Second)
		require.Equal(w, int64(n/2), h.read.Load())
		require.NoError(w, h.group.Health(w.Context()))
		require.Len(w, matching(lines.String(), "level=INFO msg=\"signalbox: the changes of a member are read again"), 1)
		v, err = b.group.View(w.Context())
		require.NoError(w, err)
		require.Equal(w, shards.MaxShards, v.Members[0].Limit)
		l.requireSound()
	})
}

// Shards of a dead member that a stuck reader gets are released. Those that it works on stay, and so do those of others.
func TestUnreadShardsOfTheDeadMoveAlone(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 24
		l := newShardLog(w)
		h := l.heldReader(shards.Count(n), n)
		b, c := l.member(shards.Count(n), shardDrain), l.member(shards.Count(n), shardDrain)
		time.Sleep(time.Minute)
		require.Equal(w, int64(n/3), h.read.Load())
		h.read.Store(n) // the next one is one too many
		require.True(w, even(2*n/3, b, c))
		l.reset()
		c.kill()
		time.Sleep(30 * time.Second)
		require.Equal(w, n/2, h.member.Owned())
		time.Sleep(time.Minute)
		require.Zero(w, h.ended.Load())
		require.Equal(w, n/3+1, h.member.Owned())
		require.Equal(w, 2*n/3-1, b.load())
		moves, _ := l.reset()
		t.Log(moves, "moves")
		require.Equal(w, n/3-1, moves, "those of the dead alone")
		l.requireSound()
	})
}

// If no other member takes them, Health of every session says that they have no owner. A member whose lease was lost takes no more for it.
func TestUnreadShardsAreReported(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 6
		l := newShardLog(w)
		h := l.heldReader(shards.Count(n), 1)
		g := shards.New(w.user().Session, "a", shards.Count(n))
		time.Sleep(90 * time.Second)
		err := g.Health(w.Context())
		t.Log(err)
		require.ErrorIs(w, err, signalbox.ErrNotHeld)
		require.Equal(w, 2, h.member.Owned())
		require.Zero(w, h.ended.Load())

		before := w.scripts.Load()
		time.Sleep(10 * time.Minute)
		require.Less(w, w.scripts.Load()-before, int64(700), "it polls, and nothing more")
		h.wire.goSilent()
		time.Sleep(20 * time.Second)
		h.wire.heal()
		time.Sleep(30 * time.Second)
		require.Equal(w, 2, h.member.Owned(), "its last membership drains, and the next one takes nothing")
		require.ErrorIs(w, g.Health(w.Context()), signalbox.ErrNotHeld)
		close(h.may)
		time.Sleep(30 * time.Second)
		require.Equal(w, int64(n), h.read.Load())
		require.NoError(w, g.Health(w.Context()))
	})
}

// A reader that is slow keeps its shards, and so does a program that asks for each shard by Own alone. One that does neither has no shard.
func TestSlowReadersAndCallersOfOwnKeepTheirShards(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 9
		join := func() (queueUser, *shards.Member) {
			user := w.user()
			m, err := shards.New(user.Session, "a", shards.Count(n)).Join(w.Context())
			require.NoError(w, err)
			return user, m
		}
		_, slow := join()
		_, owns := join()
		user, idle := join()
		ctx, cancel := context.WithCancel(w.Context())
		w.ends = append(w.ends, cancel)
		go func() {
			for c := range slow.Changes() {
				select {
				case <-time.After(50 * time.Second):
				case <-ctx.Done():
				}
				if c.Kind != shards.Granted {
					_ = c.Shard.Release()
				}
			}
		}()
		_, is := owns.Own("none")
		require.False(w, is)
		time.Sleep(50 * time.Second)
		require.Equal(w, []int{3, 3, 3}, []int{slow.Owned(), owns.Owned(), idle.Owned()})
		time.Sleep(2 * time.Minute)
		user.wire.goSilent() // its lease is lost
		time.Sleep(20 * time.Second)
		user.wire.heal()
		time.Sleep(2 * time.Minute)
		t.Log(slow.Owned(), owns.Owned(), idle.Owned())
		require.Zero(w, idle.Owned())
		require.Equal(w, n, slow.Owned()+owns.Owned())
		require.LessOrEqual(w, slow.Owned(), 5)
		_, is = idle.Own("none")
		require.False(w, is)
		time.Sleep(3 * time.Minute)
		require.Equal(w, 3, idle.Owned(), "the first call of Own says that the program serves")
	})
}
