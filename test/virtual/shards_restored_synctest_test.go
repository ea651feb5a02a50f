// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
	"github.com/signalbox-go/signalbox/test"
)

// A failover to a replica that was behind: the server knows the group as it was. Within seconds each shard has one live owner again,
// and the loads are even.
func TestServerThatLostTheNewestWritesGivesNoShardTwoOwners(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{3 * time.Second, time.Minute, 200 * time.Millisecond, 10 * time.Second}[:redistest.Rounds(2, 4)] {
		for _, what := range []string{"join", "leave", "kill", "move"} {
			bubbleOfUsers(t, func(w *fixture) {
				const n = 16
				l := newShardLog(w)
				set := shards.Count(n)
				a, b, c := l.member(set, shardDrain), l.member(set, shardDrain), l.member(set, shardDrain)
				all := []*shardMember{a, b, c}
				l.untilEven(n, all...)
				time.Sleep(2 * time.Minute)
				kept := backupOf(w.redis)
				switch what {
				case "join":
					all = append(all, l.member(set, shardDrain))
				case "leave":
					go c.cancel()
					all = all[:2]
				case "kill":
					c.kill()
					all = all[:2]
				case "move":
					go c.cancel()
					all = []*shardMember{a, b, l.member(set, shardDrain)}
				}
				time.Sleep(age)
				kept.Restore(w.redis)
				time.Sleep(5 * time.Second)
				for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(250 * time.Millisecond) {
					require.Empty(w, l.ownedTwice(), "%s, %v", what, age)
				}
				l.untilEven(n, all...)
				require.Empty(w, l.ownedTwice(), "%s, %v", what, age)
			})
		}
	}
}

// A failover that lost that a member leaves, and what it has released since: the server hears both again while the member's last function
// still runs. So it deals nothing to that member, and the shards that it had released go to others.
func TestAServerThatForgotALeaveHearsItAgain(t *testing.T) {
	t.Parallel()
	for _, isCut := range []bool{true, false} { // whether connections break, so that members know of another server
		bubbleOfUsers(t, func(w *fixture) {
			const n = 9
			l := newShardLog(w)
			a := l.newMember(shards.Count(n), shardDrain)
			var first atomic.Bool
			a.run(func(ctx context.Context, _ shards.Shard) error {
				if <-ctx.Done(); first.CompareAndSwap(false, true) {
					<-a.over
				}
				return nil
			})
			b, c := l.member(shards.Count(n), shardDrain), l.member(shards.Count(n), shardDrain)
			l.untilEven(n, a, b, c)
			time.Sleep(time.Minute)
			kept := backupOf(w.redis)
			a.cancel()
			time.Sleep(2 * time.Second)
			require.Equal(w, []int{1, n - 1}, []int{a.load(), b.load() + c.load()})
			kept.Restore(w.redis)
			if isCut {
				for _, m := range []*shardMember{a, b, c} {
					m.wire.cut()
				}
			}
			time.Sleep(10 * time.Second)
			require.Equal(w, []int{1, n - 1}, []int{a.load(), b.load() + c.load()})
			c.kill()
			time.Sleep(20 * time.Second)
			require.Equal(w, []int{1, n - 1}, []int{a.load(), b.load()})
			require.NoError(w, b.group.Health(w.Context()))
			time.Sleep(time.Minute)
			require.ErrorIs(w, b.group.Health(w.Context()), signalbox.ErrHeld, "a drain of more than a minute")
			require.Empty(w, l.ownedTwice())
		})
	}
}

// keySets returns each key of a group, each pair, and all but one.
func keySets() (all [][]string) {
	keys := groupKeys()
	for n, key := range keys {
		all = append(all, []string{key})
		for _, other := range keys[n+1:] {
			all = append(all, []string{key, other})
		}
		all = append(all, slices.Concat(keys[:n], keys[n+1:]))
	}
	return all
}

// groupChange is what happens to a group of two members between the copy of its keys and the moment at which some are restored. It returns
// the members that live, and how many shards each has then if that is not an even part.
type groupChange func(l *shardLog, members []*shardMember, n int) (after []*shardMember, loads []int)

func groupChanges() map[string]groupChange {
	return map[string]groupChange{
		"moves": func(l *shardLog, members []*shardMember, n int) ([]*shardMember, []int) {
			members = append(members, l.member(shards.Count(n), shardDrain))
			l.untilEven(n, members...)
			return members, nil
		},
		"dies": func(l *shardLog, members []*shardMember, n int) ([]*shardMember, []int) {
			dies := l.member(shards.Count(n), shardDrain)
			l.untilEven(n, append(members, dies)...)
			dies.kill()
			return members, nil
		},
		"is away": func(_ *shardLog, members []*shardMember, _ int) ([]*shardMember, []int) {
			members[1].wire.goSilent()
			time.AfterFunc(20*time.Second, members[1].wire.heal)
			time.Sleep(20 * time.Second)
			return members, nil
		},
		"has another weight": func(l *shardLog, members []*shardMember, n int) ([]*shardMember, []int) {
			require.NoError(l.w, members[1].joined.Load().SetWeight(l.w.Context(), 3))
			time.Sleep(5 * time.Second)
			loads := []int{n / 4, 3 * n / 4}
			require.Equal(l.w, loads, []int{members[0].load(), members[1].load()})
			return members, loads
		},
		"all free": func(_ *shardLog, members []*shardMember, _ int) ([]*shardMember, []int) {
			for _, m := range members {
				m.leave()
			}
			time.Sleep(10 * time.Second)
			return nil, nil
		},
		"rests": func(_ *shardLog, members []*shardMember, _ int) ([]*shardMember, []int) {
			time.Sleep(time.Minute)
			return members, nil
		},
	}
}

// If another program deletes keys of a group, or restores them from an old copy, each shard has one live owner all the same, those that had
// none get one, and loads are even by the weights that the members have now.
func TestAnOldKeyOfAGroupStrandsNoShard(t *testing.T) {
	t.Parallel()
	all := slices.Sorted(maps.Keys(groupChanges()))
	for number, keys := range keySets() {
		for n, since := range all {
			for _, isLost := range []bool{false, true} {
				isOne := len(keys) == 1 && (!isLost || !redistest.Quick())
				if isOne || number%len(all) == n && number/len(all)%2 == 0 != isLost && !redistest.Quick() {
					t.Run(fmt.Sprint(number, since, isLost), func(t *testing.T) {
						t.Parallel()
						bubbleOfUsers(t, func(w *fixture) { oldKeys(w, keys, groupChanges()[since], isLost) })
					})
				}
			}
		}
	}
}

func oldKeys(w *fixture, keys []string, change groupChange, isLost bool) { //nolint:revive // a fact, not a switch
	const n = 16
	l := newShardLog(w)
	members := []*shardMember{l.member(shards.Count(n), shardDrain), l.joins(shards.Count(n), shardDrain)}
	l.untilEven(n, members...)
	time.Sleep(time.Minute)
	kept := backupOf(w.redis)
	members, loads := change(l, members, n)
	now := backupOf(w.redis)
	for _, key := range keys {
		delete(now, key)
		if one, is := kept[key]; is && !isLost {
			now[key] = one
		}
	}
	now.Restore(w.redis)
	if members == nil {
		members = []*shardMember{l.member(shards.Count(n), shardDrain), l.member(shards.Count(n), shardDrain)}
	}
	for until := time.Now().Add(40 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		require.Empty(w, l.ownedTwice(), "%q", keys)
	}
	got := make([]int, len(members))
	for i, m := range members {
		got[i] = m.load()
	}
	if loads == nil {
		require.True(w, even(n, members...), "%q: %v", keys, got)
	} else {
		require.Equal(w, loads, got, "%q", keys)
	}
	require.NoError(w, members[0].group.Health(w.Context()))
}

// If the clock of the server that takes over is behind as well, members know of greater tokens than its time is. They take what it grants
// all the same, since the group's time continues from what they know.
func TestServerThatLostWritesAndTimeGrantsWhatMembersTake(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 16
		ahead := w.skewed()
		l := newShardLog(w)
		members := l.some(n, 3)
		kept := backupOf(w.redis)
		time.Sleep(10 * time.Minute)
		members[2].leave()
		l.untilEven(n, members[:2]...)
		time.Sleep(time.Second)
		ahead.Store(-int64(20 * time.Minute))
		kept.Restore(w.redis)
		time.Sleep(30 * time.Second)
		require.LessOrEqual(w, l.untilEven(n, members[:2]...), 10*time.Second)
		l.requireSound()
		require.NoError(w, members[0].group.Health(w.Context()))
	})
}

// A failover that lost a Sync: names that had an owner are set again. One that had none leaves the views of Watch, too, and a name that
// left the set is there again.
func TestNamesOfASyncThatTheServerLost(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		set := shards.Names("a", "b", "c")
		a, b := l.member(set, shardDrain, shards.Limit(2)), l.member(set, shardDrain, shards.Limit(2))
		l.untilEven(3, a, b)
		shown := l.watches(a.group)
		time.Sleep(time.Minute)
		kept := backupOf(w.redis)
		require.NoError(w, a.group.Sync(w.Context(), []string{"b", "c", "d", "e", "f"}))
		time.Sleep(10 * time.Second)
		require.Equal(w, 5, shown.Load().Count)
		require.Equal(w, 1, shown.Load().Unowned)
		had := append([]string{"a"}, append(a.shards(), b.shards()...)...)
		kept.Restore(w.redis)
		time.Sleep(30 * time.Second)
		v, err := a.group.View(w.Context())
		require.NoError(w, err)
		require.ElementsMatch(w, had, v.Names())
		require.ElementsMatch(w, v.Names(), shown.Load().Names())
		for _, name := range v.Names() {
			is, _ := v.Owner(name)
			was, _ := shown.Load().Owner(name)
			require.Equal(w, is, was)
		}
	})
}

// A member that was away while a Sync removed its names does not set them again if the server loses its data soon after it has joined again.
func TestNamesThatASyncRemovedDoNotComeBack(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		set := shards.Names("a", "b", "c", "d")
		away, b := l.member(set, shardDrain), l.member(set, shardDrain)
		l.untilEven(4, away, b)
		time.Sleep(time.Minute)
		away.wire.goSilent()
		time.Sleep(20 * time.Second)
		require.NoError(w, b.group.Sync(w.Context(), []string{"e"}))
		time.Sleep(5 * time.Second)
		away.wire.heal()
		time.Sleep(5 * time.Second)
		w.redis.FlushAll()
		time.Sleep(20 * time.Second)
		v, err := b.group.View(w.Context())
		require.NoError(w, err)
		require.Equal(w, []string{"e"}, v.Names())
	})
}

// Names that the server has lost, and that members could not set yet, undo no Sync that came meanwhile; and come back also if the members
// lose their leases meanwhile.
func TestNamesThatComeBackLate(t *testing.T) {
	t.Parallel()
	losses := map[string]func(w *fixture, older test.Backup){
		"data":          func(w *fixture, _ test.Backup) { w.redis.FlushAll() },
		"newest writes": func(w *fixture, older test.Backup) { older.Restore(w.redis) },
		"data, twice": func(w *fixture, _ test.Backup) {
			w.redis.FlushAll()
			time.Sleep(time.Second)
			w.redis.FlushAll()
		},
	}
	for what, meanwhile := range map[string]func(w *fixture, names []string, members ...*shardMember) []string{
		"another set": func(w *fixture, _ []string, members ...*shardMember) []string {
			require.NoError(w, members[0].group.Sync(w.Context(), []string{"d", "e"}))
			time.Sleep(5 * time.Second)
			return []string{"d", "e"}
		},
		"lost leases": func(_ *fixture, names []string, members ...*shardMember) []string {
			for range 2 {
				for _, m := range members {
					m.wire.goSilent()
				}
				time.Sleep(time.Minute)
				for _, m := range members {
					m.wire.heal()
				}
				time.Sleep(5 * time.Second)
			}
			return names
		},
	} {
		for loss, lose := range losses {
			t.Run(what+", "+loss, func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(w *fixture) {
					l := newShardLog(w)
					a, b := l.member(shards.Names(), shardDrain), l.member(shards.Names(), shardDrain)
					time.Sleep(5 * time.Second)
					older := backupOf(w.redis)
					names := []string{"a", "b", "c", "d"}
					require.NoError(w, a.group.Sync(w.Context(), names))
					l.untilEven(len(names), a, b)
					time.Sleep(time.Minute)
					var refuses atomic.Bool
					refuses.Store(true)
					w.refusesScripts(func(command string, args []string) string {
						if refuses.Load() && runs(proto.ShardsSyncScript, command, args) && args[len(args)-4] == "a" {
							return slotMoves
						}
						return ""
					})
					lose(w, older)
					time.Sleep(5 * time.Second)
					names = meanwhile(w, names, a, b)
					refuses.Store(false)
					time.Sleep(20 * time.Second)
					v, err := a.group.View(w.Context())
					require.NoError(w, err)
					require.Equal(w, names, v.Names())
					l.untilEven(len(names), a, b)
					require.NoError(w, a.group.Health(w.Context()))
				})
			})
		}
	}
}

// A server that loses its data again, before the names that it had lost have owners again, gets them again.
func TestNamesThatTheServerLosesTwice(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{700 * time.Millisecond, 1200 * time.Millisecond, 2 * time.Second} {
		bubbleOfUsers(t, func(w *fixture) {
			l := newShardLog(w)
			a, b := l.member(shards.Names(), shardDrain), l.member(shards.Names(), shardDrain)
			time.Sleep(5 * time.Second)
			names := []string{"a", "b", "c", "d", "e", "f"}
			require.NoError(w, a.group.Sync(w.Context(), names))
			l.untilEven(len(names), a, b)
			time.Sleep(time.Minute)
			w.redis.FlushAll()
			time.Sleep(after)
			w.redis.FlushAll()
			time.Sleep(20 * time.Second)
			l.untilEven(len(names), a, b)
			require.NoError(w, a.group.Health(w.Context()))
			time.Sleep(time.Minute)
			w.redis.FlushAll()
			time.Sleep(after)
			b.kill() // what it had alone is lost
			had := a.shards()
			w.redis.FlushAll()
			time.Sleep(time.Minute)
			require.Len(w, a.shards(), 3)
			require.Subset(w, names, had)
			require.ErrorContains(w, a.group.Health(w.Context()), "and 3 names that had no owner")
			require.NoError(w, a.group.Sync(w.Context(), names[1:]))
			time.Sleep(5 * time.Second)
			require.Equal(w, names[1:], a.shards())
			time.Sleep(time.Minute) // what left the set does not come back by a later loss
			w.redis.FlushAll()
			time.Sleep(10 * time.Second)
			require.Equal(w, names[1:], a.shards())
		})
	}
}

// All names come back of which the server has lost an owner, also if work returns, and releases its shard, in the instant in which its
// context ends.
func TestNamesOfWorkThatReturnsAtOnceComeBack(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		names := make([]string, 300)
		for i := range names {
			names[i] = fmt.Sprintf("n%03d", i)
		}
		m := l.newMember(shards.Names(names...), 0)
		m.start(func(ctx context.Context) error {
			return m.group.Run(ctx, func(ctx context.Context, _ shards.Shard) error {
				<-ctx.Done()
				return nil
			})
		})
		for range 3 {
			time.Sleep(time.Minute)
			w.redis.FlushAll()
		}
		time.Sleep(time.Minute)
		v, err := m.group.View(w.Context())
		require.NoError(w, err)
		require.Equal(w, names, v.Names())
	})
}

// The same, if the server loses its data just before it gets the release.
func TestNamesOfReleasesToAServerThatLostTheGroupComeBack(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		names := []string{"a", "b", "c", "d"}
		var gives, loses atomic.Bool
		w.refusesScripts(func(command string, args []string) string {
			if runs(proto.ShardsReleaseScript, command, args) && loses.CompareAndSwap(true, false) {
				w.redis.FlushAll()
			}
			return ""
		})
		m := l.newMember(shards.Names(names...), 0)
		m.run(func(ctx context.Context, s shards.Shard) error {
			for ctx.Err() == nil {
				if time.Sleep(100 * time.Millisecond); s.Name() == "a" && gives.CompareAndSwap(true, false) {
					return shards.Elsewhere(errShardWork, time.Second)
				}
			}
			return nil
		})
		l.untilEven(4, m)
		time.Sleep(time.Minute)
		loses.Store(true)
		gives.Store(true)
		time.Sleep(30 * time.Second)
		require.False(w, loses.Load())
		v, err := m.group.View(w.Context())
		require.NoError(w, err)
		require.Equal(w, names, v.Names())
		require.NoError(w, m.group.Health(w.Context()))
	})
}

// watches returns what Watch yielded last.
func (l *shardLog) watches(g *shards.Group) *atomic.Pointer[shards.View] {
	var shown atomic.Pointer[shards.View]
	ctx, cancel := context.WithCancel(l.w.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for v, err := range g.Watch(ctx) {
			if err == nil {
				shown.Store(v)
			}
		}
	}()
	l.w.ends = append(l.w.ends, func() { cancel(); <-over })
	return &shown
}

// An observer knows what the server has lost: a version that is still to come, of a group that was made anew by members that knew less,
// or that a failover restored. It shows what View says all the same.
func TestObserversForgetWhatTheServerLost(t *testing.T) {
	t.Parallel()
	for _, loss := range []string{"data", "newest writes"} {
		for _, back := range []time.Duration{0, time.Second, 10 * time.Second, 2 * time.Hour} {
			t.Run(fmt.Sprintf("%s/%v", loss, back), func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(w *fixture) {
					const n = 16
					ahead := w.skewed()
					l := newShardLog(w)
					members := l.some(n, 3)
					g := shards.New(w.user().Session, "a", shards.Count(n))
					shown := l.watches(g)
					time.Sleep(time.Minute)
					kept := backupOf(w.redis)
					l.member(shards.Count(n), shardDrain).kill() // who knew the newest versions is no more
					time.Sleep(12 * time.Second)
					ahead.Store(-int64(back))
					if loss == "data" {
						for _, m := range members {
							m.kill()
						}
						w.redis.FlushAll()
						members = l.some(n, 2)
					} else {
						kept.Restore(w.redis)
					}
					for range 20 {
						time.Sleep(10 * time.Second)
						v, err := g.View(w.Context())
						require.NoError(w, err)
						require.NotNil(w, shown.Load())
						for _, name := range v.Names() {
							is, _ := v.Owner(name)
							was, _ := shown.Load().Owner(name)
							is.Since, was.Since = time.Time{}, time.Time{} // it comes nearer while the clock is behind the group's time
							require.Equal(w, is, was)
						}
					}
					l.untilEven(n, members...)
				})
			})
		}
	}
}

// What was asked for may be lost before its owner has heard of it, so no member knows better than the server.
func TestObserversForgetAMoveThatTheServerLost(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		a := l.member(shards.Count(8), shardDrain)
		b, err := shards.New(w.user().Session, "a", shards.Count(8)).Join(w.Context())
		require.NoError(w, err)
		go locktest.TakeUp(b)
		time.Sleep(time.Minute)
		require.Equal(w, 4, a.load())
		g := shards.New(w.user().Session, "a", shards.Count(8))
		shown := l.watches(g)
		v, err := g.View(w.Context())
		require.NoError(w, err)
		var to string
		for _, m := range v.Members {
			if m.Session != a.ID() {
				to = m.Session
			}
		}
		a.wire.goSilent()
		kept := backupOf(w.redis)
		require.NoError(w, g.Move(w.Context(), a.shards()[0], to))
		time.Sleep(1500 * time.Millisecond)
		require.Equal(w, 1, shown.Load().Draining)
		kept.Restore(w.redis)
		require.NoError(w, b.SetValue(w.Context(), "a later version than the observer knows"))
		a.wire.heal()
		time.Sleep(10 * time.Second)
		v, err = g.View(w.Context())
		require.NoError(w, err)
		require.Equal(w, 0, v.Draining)
		for _, name := range v.Names() {
			is, _ := v.Owner(name)
			was, _ := shown.Load().Owner(name)
			require.Equal(w, is, was)
		}
		require.NoError(w, b.Leave(w.Context()))
		l.untilEven(8, a)
	})
}

// A failover that lost a Resize: the members say it again, but not after a later one, of which one of them has not heard.
func TestALaterResizeThanTheOneThatTheServerLost(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		a, b := l.member(shards.Count(8), shardDrain), l.member(shards.Count(8), shardDrain)
		l.untilEven(8, a, b)
		time.Sleep(time.Minute)
		kept := backupOf(w.redis)
		require.NoError(w, a.group.Resize(w.Context(), 12))
		l.untilEven(12, a, b)
		kept.Restore(w.redis)
		b.wire.goSilent()
		require.NoError(w, shards.New(w.user().Session, "a", shards.Count(8)).Resize(w.Context(), 20))
		time.Sleep(20 * time.Second)
		b.wire.heal()
		l.untilEven(20, a, b)
		l.reset()
		time.Sleep(time.Minute)
		moves, _ := l.reset()
		require.Zero(w, moves)
		require.Empty(w, l.ownedTwice())
	})
}

// Of two Resizes at once that one counts which began last, also if the other one still waits for the functions of the old set, and asks for
// what is left. One that the server has lost with its newest writes is set again.
func TestTheLastOfTwoResizesCounts(t *testing.T) {
	t.Parallel()
	for _, apart := range []time.Duration{time.Millisecond, 500 * time.Millisecond, 10 * time.Second} {
		t.Run(apart.String(), func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(w *fixture) {
				const drain = 20 * time.Second
				l := newShardLog(w)
				a, b := l.member(shards.Count(8), drain), l.member(shards.Count(8), drain)
				l.untilEven(8, a, b)
				results := make(chan error, 2)
				for _, n := range []int{4, 20} {
					g := shards.New(w.user().Session, "a", shards.Count(8))
					go func() { results <- g.Resize(w.Context(), n) }()
					time.Sleep(apart)
				}
				require.NoError(w, <-results)
				require.NoError(w, <-results)
				l.untilEven(20, a, b)
				l.reset()
				time.Sleep(time.Minute)
				moves, _ := l.reset()
				require.Zero(w, moves)

				kept := backupOf(w.redis)
				go func() { results <- a.group.Resize(w.Context(), 12) }()
				time.Sleep(100 * time.Millisecond)
				kept.Restore(w.redis) // no member has polled
				require.NoError(w, <-results)
				l.untilEven(12, a, b)
			})
		})
	}
}

// What the server calls wrong is not sent for ever: a set that a failover has lost is said once by each member.
func TestALostSetThatIsCalledWrongIsGivenUp(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		a, b := l.member(shards.Count(8), shardDrain), l.member(shards.Count(8), shardDrain)
		l.untilEven(8, a, b)
		kept := backupOf(w.redis)
		require.NoError(w, a.group.Resize(w.Context(), 12))
		l.untilEven(12, a, b)
		var calls atomic.Int64
		w.refusesScripts(func(command string, args []string) string {
			if !runs(proto.ShardsResizeScript, command, args) {
				return ""
			}
			calls.Add(1)
			return "ERR bad argument script: 0a1b, on @user_script:12."
		})
		kept.Restore(w.redis)
		time.Sleep(time.Minute)
		require.EqualValues(w, 2, calls.Load())
		l.untilEven(8, a, b)
		require.Empty(w, l.ownedTwice())
	})
}

// A member that owns another number of shards than the server says, here since DrainLimit ended a drain, reads all of them again once,
// in pages, and loses none.
func TestADifferenceCostsOneList(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 400
		var lists, polls atomic.Int64
		w.refusesScripts(func(command string, args []string) string {
			if runs(proto.ShardsPollScript, command, args) {
				polls.Add(1)
				if args[11] == "0000000000000000" {
					lists.Add(1)
				}
			}
			return ""
		})
		l := newShardLog(w)
		a := l.newMember(shards.Count(n), shardDrain, shards.DrainLimit(20*time.Second))
		var first atomic.Bool
		a.run(func(ctx context.Context, _ shards.Shard) error {
			if <-ctx.Done(); first.CompareAndSwap(false, true) {
				<-a.over
			}
			return nil
		})
		l.untilEven(n, a)
		b := l.member(shards.Count(n), shardDrain, shards.DrainLimit(20*time.Second))
		time.Sleep(15 * time.Second)
		require.Equal(w, n/2-1, b.load())
		lists.Store(0)
		time.Sleep(15 * time.Second)
		require.Equal(w, n/2, b.load(), "the drain has ended")
		require.Equal(w, n/2+1, a.load())
		require.EqualValues(w, 1, lists.Load())
		require.Equal(w, n, l.owned())
		c := l.member(shards.Count(n), shardDrain, shards.DrainLimit(20*time.Second)) // a is asked for more
		time.Sleep(20 * time.Second)
		require.Equal(w, n/3, c.load())
		lists.Store(0)
		polls.Store(0)
		time.Sleep(time.Minute)
		require.Zero(w, lists.Load())
		require.Less(w, polls.Load(), int64(3*75), "each member polls once a second")
		require.Equal(w, n, l.owned())
	})
}

// ownedTwice returns the shards that have two live contexts.
func (l *shardLog) ownedTwice() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, runs := range l.mu.running {
		live := 0
		for _, r := range runs {
			if r.ctx.Err() == nil && !r.member.isStopped() {
				live++
			}
		}
		if live > 1 {
			names = append(names, name)
		}
	}
	return names
}
