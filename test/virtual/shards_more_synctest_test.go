// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/shards"
)

// Guarantees 5 and 6 with weights: each member has its part, and nothing moves once the loads are even. librdkafka#4783 moved for
// ever.
func TestWeightedShardsAreEvenAndThenRest(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 100
		l := newShardLog(w)
		var members []*shardMember
		for _, weight := range []int{1, 2, 3, 4} {
			members = append(members, l.member(shards.Count(n), shardDrain, shards.Weight(weight)))
		}
		time.Sleep(time.Minute)
		loads := make([]int, len(members))
		for i, m := range members {
			loads[i] = m.load()
			require.InDelta(w, n*(i+1)/10, loads[i], 1)
		}
		l.reset()
		time.Sleep(10 * time.Minute)
		moves, _ := l.reset()
		t.Log("weights 1 2 3 4 own", loads, "and", moves, "shards moved in 10 minutes of rest")
		require.Zero(w, moves)
		l.requireSound()
	})
}

// A member that pauses owns nothing and stays; a value and a weight are seen by others. Guarantee 13 (Seen) for members.
func TestShardMemberPausesAndChanges(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 12
		l := newShardLog(w)
		a := l.member(shards.Count(n), shardDrain)
		l.untilEven(n, a)
		g := shards.New(w.user().Session, "a", shards.Count(n), shards.Value("v1"))
		m, err := g.Join(w.Context())
		require.NoError(w, err)
		require.NoError(w, m.SetWeight(w.Context(), 0))
		time.Sleep(20 * time.Second)
		require.Equal(w, n, a.load())
		require.NoError(w, m.SetValue(w.Context(), "v2"))
		require.NoError(w, m.SetWeight(w.Context(), 2))
		time.Sleep(20 * time.Second)
		v, err := g.View(w.Context())
		require.NoError(w, err)
		require.Len(w, v.Members, 2)
		require.Equal(w, 8, v.Members[1].Owned)
		require.Equal(w, "v2", v.Members[1].Value)
		require.Equal(w, 2, v.Members[1].Weight)
		_, owns := m.Own("0")
		o, is := v.Owner("0")
		require.True(w, is)
		require.Equal(w, owns, o.Value == "v2")
		_, err = g.Owner(w.Context(), "12")
		require.ErrorIs(w, err, signalbox.ErrNotHeld)
		require.NoError(w, m.SetWeight(w.Context(), 0))
		for c := range m.Changes() { // the reader comes late: what is not his any more is left out
			if c.Kind == shards.Wanted {
				require.ErrorIs(w, c.Shard.Err(), shards.ErrMoved)
				require.NoError(w, c.Shard.Release())
			}
			if m.Owned() == 0 {
				break
			}
		}
		time.Sleep(20 * time.Second)
		require.Equal(w, n, a.load())
		require.NoError(w, m.Leave(w.Context()))
		require.ErrorIs(w, m.Err(), shards.ErrLeft)
		l.requireSound()
	})
}

// Guarantee 10: a shard that kills its owners waits alone, longer each time; the others have owners.
func TestPoisonousShardWaitsAlone(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 8
		l := newShardLog(w)
		start := func() *shardMember {
			m := l.newMember(shards.Count(n), shardDrain)
			m.run(func(ctx context.Context, s shards.Shard) error {
				if s.Name() == "5" {
					time.Sleep(100 * time.Millisecond)
					m.kill()
				}
				return m.wait(ctx, s)
			})
			return m
		}
		began, losses := time.Now(), make(chan int, 1)
		for range 8 {
			m := start()
			for !m.isStopped() && time.Since(began) < 10*time.Minute {
				time.Sleep(100 * time.Millisecond)
			}
		}
		last := l.newMember(shards.Count(n), shardDrain)
		last.run(func(ctx context.Context, s shards.Shard) error {
			if s.Name() == "5" {
				losses <- s.Losses()
			}
			return last.wait(ctx, s)
		})
		l.untilEven(n, last)
		learned := <-losses
		t.Logf("8 members died of shard 5 in %v, whose next owner learns of %d losses", time.Since(began).Round(time.Second), learned)
		require.GreaterOrEqual(w, learned, 3)
		l.requireSound()
	})
}

// Guarantee 11: no shard of the new set is granted before all of the old one are released.
func TestResizeGrantsNothingBeforeAllIsReleased(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		a, b := l.newMember(shards.Count(8), 3*time.Second), l.newMember(shards.Count(8), 3*time.Second)
		for _, m := range []*shardMember{a, b} {
			m.run(func(ctx context.Context, s shards.Shard) error {
				l.mu.Lock()
				for name, runs := range l.mu.running {
					for _, r := range runs {
						if r.shard.Count() != s.Count() {
							l.violatedLocked("shard %s of %d beside %s of %d", s.Name(), s.Count(), name, r.shard.Count())
						}
					}
				}
				l.mu.Unlock()
				return m.wait(ctx, s)
			})
		}
		l.untilEven(8, a, b)
		time.Sleep(time.Minute)
		began := time.Now()
		l.reset()
		require.NoError(w, a.group.Resize(w.Context(), 12))
		resized := time.Since(began)
		l.untilEven(12, a, b)
		t.Logf("resized after %v, with drains of 3s; even after %v", resized, time.Since(began))
		for _, cause := range l.mu.causes {
			require.ErrorIs(w, cause, shards.ErrResized)
		}
		require.ErrorIs(w, shards.New(a.Session, "a", shards.Exact(shards.Count(8))).Run(w.Context(), a.wait), signalbox.ErrCapacity)
		l.requireSound()
	})
}

// What a function gave away was a shard of the old set: that of another count with its name is granted at once.
func TestWhatWasGivenAwayBeforeAResizeIsGranted(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		a := l.newMember(shards.Count(8), 0)
		a.run(func(ctx context.Context, s shards.Shard) error {
			if s.Count() == 8 && s.Index() == 3 {
				return shards.Elsewhere(nil, time.Hour)
			}
			return a.wait(ctx, s)
		})
		time.Sleep(30 * time.Second)
		require.Equal(w, 7, a.load())
		require.NoError(w, a.group.Resize(w.Context(), 16))
		require.LessOrEqual(w, l.untilEven(16, a), 5*time.Second)
		require.NoError(w, a.group.Resize(w.Context(), 8))
		time.Sleep(30 * time.Second)
		require.Equal(w, 7, a.load())
		l.requireSound()
	})
}

// Guarantee 9 of names: Sync touches the names that differ alone.
func TestSyncTouchesTheNamesThatDiffer(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		names := make([]string, 300)
		for i := range names {
			names[i] = fmt.Sprint("tenant-", i)
		}
		a, b := l.member(shards.Names(names...), shardDrain), l.member(shards.Names(names...), shardDrain)
		l.untilEven(300, a, b)
		time.Sleep(time.Minute)
		l.reset()
		require.NoError(w, a.group.Sync(w.Context(), names))
		require.NoError(w, a.group.Sync(w.Context(), append(names[10:], "new-1", "new-2")))
		l.untilEven(292, a, b)
		time.Sleep(10 * time.Second)
		causes := l.mu.causes
		moves, _ := l.reset()
		t.Logf("10 names removed and 2 added: %d shards moved beside, %d contexts ended", moves, len(causes))
		require.LessOrEqual(w, moves, 10)
		v, err := b.group.View(w.Context())
		require.NoError(w, err)
		require.Equal(w, 292, v.Count)
		l.requireSound()
	})
}

// Guarantee 13: observers see every change that lasts, and a shard without an owner is an error of Health. argo-cd#29476 had none
// for 57 hours in silence.
func TestShardWithoutAnOwnerIsReported(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 10
		l := newShardLog(w)
		a := l.member(shards.Count(n), shardDrain, shards.Limit(7), shards.Value("a"))
		g := shards.New(w.user().Session, "a", shards.Count(n))
		var last *shards.View
		ctx, cancel := context.WithCancel(w.Context())
		seen := make(chan struct{})
		go func() {
			defer close(seen)
			for v, err := range g.Watch(ctx) {
				if err == nil {
					last = v
				}
			}
		}()
		time.Sleep(5 * time.Second)
		require.Equal(w, 7, a.load())
		require.NoError(w, g.Health(w.Context()), "they may get an owner yet")
		time.Sleep(time.Minute)
		err := g.Health(w.Context())
		t.Log(err)
		require.ErrorIs(w, err, signalbox.ErrNotHeld)
		require.Equal(w, 3, last.Unowned)
		b := l.member(shards.Count(n), shardDrain, shards.Value("b"))
		time.Sleep(time.Minute)
		require.NoError(w, g.Health(w.Context()))
		require.Zero(w, last.Unowned)
		owned := make(map[string]int)
		for _, name := range last.Names() {
			o, _ := last.Owner(name)
			require.Equal(w, shards.Owned, o.State)
			owned[o.Value]++
		}
		require.Equal(w, map[string]int{"a": a.load(), "b": b.load()}, owned)
		require.NotEmpty(w, last.OwnerOf("some key").Session)
		cancel()
		<-seen
		l.requireSound()
	})
}

// A shard is not moved to the member that gave it away, and has had no owner all the time. That it never had one is reported also if
// the first member has left.
func TestUnownedShardIsReportedAllTheTime(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		m := l.newMember(shards.Count(1), 0)
		calls := 0
		m.run(func(context.Context, shards.Shard) error {
			calls++
			return shards.Elsewhere(errShardWork, time.Hour)
		})
		g := shards.New(w.user().Session, "a", shards.Count(1))
		time.Sleep(30 * time.Second)
		for range 10 {
			require.ErrorIs(w, g.Health(w.Context()), signalbox.ErrNotHeld)
			require.ErrorIs(w, g.Move(w.Context(), "0", m.ID()), signalbox.ErrNotHeld)
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(w, 1, calls)
		l.requireSound()
	})
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		first := l.member(shards.Count(3), 0, shards.Limit(1))
		time.Sleep(25 * time.Second)
		l.member(shards.Count(3), 0, shards.Limit(1))
		time.Sleep(5 * time.Second)
		first.leave()
		require.ErrorIs(w, shards.New(w.user().Session, "a", shards.Count(3)).Health(w.Context()), signalbox.ErrNotHeld)
		l.requireSound()
	})
}

// skewed makes the server's clock wrong by what ahead returns.
func (f *fixture) skewed(ahead func() time.Duration) {
	f.redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if strings.HasPrefix(command, "EVAL") { // not for the commands of a script, which has the server's lock
			f.redis.SetTime(time.Now().Add(ahead()))
		}
		return false
	})
}

// A clock that is set forward or back moves nothing.
func TestClockStepsMoveNoShards(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{20 * time.Second, -20 * time.Second} {
		bubbleOfUsers(t, func(w *fixture) {
			const n = 16
			began := time.Now()
			w.skewed(func() time.Duration {
				if time.Since(began) > time.Minute {
					return step
				}
				return 0
			})
			l := newShardLog(w)
			a, b := l.member(shards.Count(n), shardDrain), l.member(shards.Count(n), shardDrain)
			l.untilEven(n, a, b)
			time.Sleep(50 * time.Second)
			l.reset()
			time.Sleep(2 * time.Minute)
			moves, _ := l.reset()
			t.Logf("a step of %v: %d moves", step, moves)
			require.Zero(w, moves)
			require.Equal(w, n, l.owned())
			l.requireSound()
		})
	}
}
