// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/shards"
)

// What hurt the users of other programs that divide shards. librdkafka#4783 and argo-cd#29476 are in shards_more_synctest_test.go.

// all-chat#887: a shard that a member gave away came back to it, and a gate that waits for quiet never opened: 43 of 48 stayed on one.
func TestReleasedShardsStayAwayAndJoinsDoNotStarve(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 48
		l := newShardLog(w)
		a := l.newMember(shards.Count(n), shardDrain)
		gives := make(chan struct{})
		given := make(map[string]time.Time)
		a.run(func(ctx context.Context, s shards.Shard) error {
			l.mu.Lock()
			if at, is := given[s.Name()]; is && time.Since(at) < 30*time.Second {
				l.violatedLocked("shard %s came back after %v", s.Name(), time.Since(at))
			}
			l.mu.Unlock()
			select {
			case <-ctx.Done():
				return nil
			case <-gives:
			}
			l.mu.Lock()
			given[s.Name()] = time.Now()
			l.mu.Unlock()
			return shards.Elsewhere(errShardWork, 30*time.Second)
		})
		l.untilEven(n, a)
		members := []*shardMember{a}
		began := time.Now()
		for range 13 { // one more each second: it is never quiet for RebalanceDelay
			members = append(members, l.member(shards.Count(n), shardDrain))
			time.Sleep(time.Second)
		}
		require.Less(w, a.load(), n, "the first five times RebalanceDelay were not over")
		l.untilEven(n, members...)
		t.Logf("14 members, of which one came each second: even %v after the first", time.Since(began))
		require.Less(w, time.Since(began), 25*time.Second)
		close(gives)
		time.Sleep(25 * time.Second)
		require.Zero(w, a.load())
		require.Equal(w, n, l.owned())
		l.requireSound()
	})
}

// backbeat#2818: a shard that was asked for, and granted again before its drain ended, was idle for 2.6 h.
func TestChangesWhileShardsDrainLeaveNoneIdle(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 12
		l := newShardLog(w)
		a := l.member(shards.Count(n), 20*time.Second)
		l.untilEven(n, a)
		b := l.member(shards.Count(n), 20*time.Second)
		time.Sleep(5 * time.Second) // a drains
		b.leave()
		time.Sleep(2 * time.Second)
		c := l.member(shards.Count(n), 20*time.Second)
		time.Sleep(6 * time.Second)
		d := l.member(shards.Count(n), 20*time.Second)
		took := l.untilEven(n, a, c, d)
		moves, gaps := l.reset()
		t.Logf("even %v after the last change, %d moves, longest gap %v", took, moves, at(gaps, 1))
		require.LessOrEqual(w, took, time.Minute)
		require.LessOrEqual(w, at(gaps, 1), 1100*time.Millisecond)
		l.requireSound()
	})
}

// kafka#13920: a member that came and went caused 200 rebalances in ten minutes.
func TestFlappingMemberMovesFewShards(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 64
		l := newShardLog(w)
		var members []*shardMember
		for range 4 {
			members = append(members, l.member(shards.Count(n), shardDrain))
		}
		l.untilEven(n, members...)
		time.Sleep(time.Minute)
		l.reset()
		lived := 0
		for range 30 { // five minutes
			m := l.member(shards.Count(n), shardDrain)
			time.Sleep(10 * time.Second)
			lived += m.load()
			m.kill()
		}
		l.untilEven(n, members...)
		moves, gaps := l.reset()
		t.Logf("30 members that died after 10 s each: %d moves, longest gap %v; they had %d shards", moves, at(gaps, 1), lived)
		require.Less(w, moves, 813)
		require.LessOrEqual(w, at(gaps, 1), 16*time.Second) // a lease of 13 s, and what a shard waits for a member to be heard
		l.requireSound()
	})
}

// KCL#708: one shard moved in six minutes. KCL#265: stolen shards were worked on twice.
func TestManyShardsMoveInSecondsAndNoneIsStolen(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 500
		l := newShardLog(w)
		a := l.member(shards.Count(n), shardDrain)
		l.untilEven(n, a)
		l.reset()
		b := l.member(shards.Count(n), shardDrain)
		took := l.untilEven(n, a, b)
		moves, gaps := l.reset()
		t.Logf("%d shards: even %v after the join, %d moves, gap p50 %v p99 %v", n, took, moves, at(gaps, .5), at(gaps, .99))
		require.Equal(w, n/2, moves)
		require.LessOrEqual(w, took, 10*time.Second)
		l.requireSound()
	})
}

// KAFKA-12495: members that join while others drain cause storms: each round revokes again what the one before had moved.
func TestJoinsDuringDrainsMoveNoShardTwice(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 60
		l := newShardLog(w)
		members := []*shardMember{l.member(shards.Count(n), 5*time.Second), l.member(shards.Count(n), 5*time.Second)}
		l.untilEven(n, members...)
		time.Sleep(time.Minute)
		l.reset()
		for range 4 {
			members = append(members, l.member(shards.Count(n), 5*time.Second))
			time.Sleep(3 * time.Second)
		}
		took := l.untilEven(n, members...)
		moves, _ := l.reset()
		t.Logf("4 joins, 3 s apart, with drains of 5 s: even %v after the last, %d moves", took, moves)
		require.LessOrEqual(w, moves, 60) // 20 + 15 + 12 + 10 if each was alone
		l.requireSound()
	})
}

// P4: close makes members leave: their functions are notified, and their shards are handed over before it returns.
func TestCloseHandsShardsOver(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 10
		l := newShardLog(w)
		a, b := l.member(shards.Count(n), shardDrain), l.member(shards.Count(n), shardDrain)
		l.untilEven(n, a, b)
		l.reset()
		began := time.Now()
		require.NoError(w, a.Close(w.Context()))
		t.Logf("closed after %v, with drains of %v", time.Since(began), shardDrain)
		require.ErrorIs(w, <-a.returned, signalbox.ErrClosed)
		l.untilEven(n, b)
		require.Less(w, time.Since(began), time.Second)
		for _, cause := range l.mu.causes {
			require.ErrorIs(w, cause, signalbox.ErrClosed)
			require.ErrorIs(w, cause, shards.ErrLeft)
		}
		_, err := a.group.Join(w.Context())
		require.ErrorIs(w, err, signalbox.ErrClosed)
		l.requireSound()
	})
}

// A Close that does not wait ends the leases.
func TestCloseThatDoesNotWaitEndsShards(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		a := l.member(shards.Count(4), 30*time.Second)
		b := l.member(shards.Count(4), shardDrain)
		l.untilEven(4, a, b)
		ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		require.Error(w, a.Close(ctx))
		require.LessOrEqual(w, time.Since(began), 4*time.Second)
		require.Equal(w, 2, a.load(), "they still drain")
		err := <-a.returned
		t.Log(err, "after", time.Since(began))
		require.ErrorIs(w, err, signalbox.ErrClosed)
		l.untilEven(4, b) // beside a's functions: Close has ended its leases
	})
}

// P4: a member whose context ends before the server has replied to its join leaves nothing behind.
func TestCancelledJoinOwnsNothing(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		m := l.newMember(shards.Count(4), shardDrain)
		m.wire.swallowsReplies.Store(true)
		ctx, cancel := context.WithTimeoutCause(w.Context(), 5*time.Second, errShardWork)
		defer cancel()
		_, err := m.group.Join(ctx)
		t.Log(err)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.ErrorIs(w, err, errShardWork)
		m.wire.heal()
		time.Sleep(10 * time.Second)
		a := l.member(shards.Count(4), shardDrain)
		l.untilEven(4, a)
		require.False(w, errors.Is(m.group.Check(), signalbox.ErrClosed))
		l.requireSound()
	})
}

// P7: an idle member costs the server and the process the same, whatever the number of its shards.
func TestIdleShardMemberCostsTheSameForAnyNumber(t *testing.T) {
	t.Parallel()
	var polls, goroutinesOf [2]int64
	for i, n := range []int{8, 800} {
		bubbleOfUsers(t, func(w *fixture) {
			user := w.user()
			m, err := shards.New(user.Session, "a", shards.Count(n)).Join(w.Context())
			require.NoError(w, err)
			granted := 0
			for c := range m.Changes() {
				require.Equal(w, shards.Granted, c.Kind)
				if granted++; granted == n {
					break
				}
			}
			time.Sleep(time.Minute)
			before := w.scripts.Load()
			time.Sleep(10 * time.Minute)
			polls[i], goroutinesOf[i] = w.scripts.Load()-before, int64(resting())
			go func() {
				for c := range m.Changes() {
					_ = c.Shard.Release()
				}
			}()
			require.NoError(w, m.Leave(w.Context()))
		})
	}
	t.Logf("8 and 800 shards: %v requests in ten minutes, %v goroutines", polls, goroutinesOf)
	require.InDelta(t, polls[0], polls[1], 40)
	require.LessOrEqual(t, polls[1], int64(800))
	require.Equal(t, goroutinesOf[0], goroutinesOf[1])
}

// P10: a member waits while the server refuses, and its error has the server's words.
func TestShardMemberWaitsWhileTheServerRefuses(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const words = "LOADING Redis is loading the dataset in memory"
		l := newShardLog(w)
		m := l.newMember(shards.Count(4), shardDrain)
		w.redis.SetError(words)
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		_, err := m.group.Join(ctx)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.ErrorIs(w, err, signalbox.ErrRefused)
		require.ErrorContains(w, err, words)
		m.run(m.wait)
		time.Sleep(10 * time.Second)
		require.Zero(w, m.load())
		w.redis.SetError("")
		l.untilEven(4, m)
		time.Sleep(time.Minute)
		l.reset()
		w.redis.SetError(words)
		time.Sleep(7 * time.Second)
		w.redis.SetError("")
		time.Sleep(20 * time.Second)
		require.Empty(w, l.mu.causes, "a short outage ends nothing")
		l.requireSound()
	})
}

// A member that has given a shard away does not get it by hand either: nothing is asked for, and the owner keeps working.
func TestMoveDisturbsNoOwnerForAMemberThatGaveTheShardAway(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n, away = 4, 3 * time.Minute
		l := newShardLog(w)
		a, b := l.newMember(shards.Count(n), 0), l.newMember(shards.Count(n), 0)
		var moved atomic.Value
		moved.Store("")
		a.run(a.wait)
		b.run(func(ctx context.Context, s shards.Shard) error {
			if s.Name() == moved.Load() {
				return shards.Elsewhere(nil, away)
			}
			return b.wait(ctx, s)
		})
		l.untilEven(n, a, b)
		time.Sleep(time.Minute)
		name := a.shards()[0]
		moved.Store(name)
		require.NoError(w, a.group.Move(w.Context(), name, b.ID()))
		time.Sleep(time.Minute)
		l.untilEven(n, a, b)
		require.Contains(w, a.shards(), name)
		moved.Store("")
		l.reset()
		require.ErrorIs(w, a.group.Move(w.Context(), name, b.ID()), signalbox.ErrNotHeld)
		time.Sleep(time.Minute)
		moves, _ := l.reset()
		require.Zero(w, moves)
		time.Sleep(away)
		require.NoError(w, a.group.Move(w.Context(), name, b.ID()))
		time.Sleep(time.Minute)
		require.Contains(w, b.shards(), name)
		l.requireSound()
	})
}

// A member with more shards than it can release within a second leaves all the same: Run returns when the server has confirmed all of
// them. A process that ends before keeps the others until its lease is over.
func TestRunReleasesManyShardsBeforeItReturns(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 1000
		l := newShardLog(w)
		a := l.member(shards.Count(n), 0)
		l.untilEven(n, a)
		time.Sleep(time.Minute)
		a.wire.latency.Store(int64(50 * time.Millisecond)) // how many go together is a matter of when their functions return
		began := time.Now()
		a.cancel()
		require.EqualError(w, <-a.returned, `signalbox: run "a": context canceled`)
		t.Logf("%d shards are released after %v", n, time.Since(began))
		require.Greater(w, time.Since(began), time.Second)
		v, err := shards.New(w.user().Session, "a", shards.Count(n)).View(w.Context())
		require.NoError(w, err)
		require.Equal(w, n, v.Unowned)
		require.Empty(w, v.Members)
		l.requireSound()
	})
}

// While the server is away Run waits for a second.
func TestRunReturnsASecondAfterTheServerIsAway(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 100
		l := newShardLog(w)
		a := l.member(shards.Count(n), 0)
		l.untilEven(n, a)
		time.Sleep(time.Minute)
		a.wire.goSilent()
		began := time.Now()
		a.cancel()
		require.ErrorIs(w, <-a.returned, signalbox.ErrUnconfirmed)
		require.InDelta(w, time.Second, time.Since(began), float64(100*time.Millisecond))
		l.requireSound()
	})
}
