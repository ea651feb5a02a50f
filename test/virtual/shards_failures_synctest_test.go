// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/shards"
	"github.com/signalbox-go/signalbox/test"
)

// The rows of "Failure" in package shards that no other test shows.

// some starts as many members, and waits until they are even and all have their whole lease.
func (l *shardLog) some(total, n int) (members []*shardMember) {
	l.w.Helper()
	for range n {
		members = append(members, l.member(shards.Count(total), shardDrain))
	}
	l.untilEven(total, members...)
	time.Sleep(time.Minute)
	l.reset()
	return members
}

// ends returns why contexts ended since the last reset.
func (l *shardLog) ends() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error(nil), l.mu.causes...)
}

// P6: a call of a member that fails each time delays no other call. What the server calls wrong is not sent for ever: a caller that
// waits gets the error, and a shard that a release cannot give away for so long is released all the same.
func TestAShardCallThatFailsStarvesNoOther(t *testing.T) {
	t.Parallel()
	const n, full, wrong = 8, "OOM command not allowed when used memory > 'maxmemory'.", "ERR bad argument script: 0a1b, on @user_script:12."
	isGivenAway := func(args []string) bool { return strings.Contains(args[len(args)-3], "e00000") }
	for name, c := range map[string]struct {
		script  *scripts.Script
		is      func(args []string) bool // whether a call is refused
		refusal string
		result  error // what SetValue returns
	}{
		"NoMemoryForSettings": {proto.ShardsSetScript, nil, full, context.DeadlineExceeded},
		"WrongSettings":       {proto.ShardsSetScript, nil, wrong, errWrong},
		"DeniedSettings":      {proto.ShardsSetScript, nil, "NOPERM this user has no permissions to run the 'evalsha' command", signalbox.ErrDenied},
		"WrongRelease":        {proto.ShardsReleaseScript, isGivenAway, wrong, nil},
		"WrongLeave":          {proto.ShardsLeaveScript, nil, wrong, nil},
		"NoMemoryForRelease":  {proto.ShardsReleaseScript, isGivenAway, full, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(w *fixture) {
				l := newShardLog(w)
				var refuses atomic.Bool
				w.refusesScripts(func(command string, args []string) string {
					if !refuses.Load() || !runs(c.script, command, args) || c.is != nil && !c.is(args) {
						return ""
					}
					return c.refusal
				})
				a := shards.New(w.user().Session, "a", shards.Count(n))
				m, err := a.Join(w.Context())
				require.NoError(w, err)
				var mayEnd sync.WaitGroup
				mayEnd.Go(func() {
					for change := range m.Changes() {
						switch {
						case change.Kind != shards.Granted:
							_ = change.Shard.Release()
						case change.Shard.Index() == 3 && refuses.CompareAndSwap(false, true):
							_ = change.Shard.Release() // unasked: for elsewhere
						}
					}
				})
				time.Sleep(5 * time.Second)
				refuses.Store(true)
				ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
				defer cancel()
				err = m.SetValue(ctx, "v")
				if c.result == nil {
					require.NoError(w, err)
				} else if c.result == errWrong { //nolint:errorlint // it stands for the server's words
					require.ErrorContains(w, err, "bad argument")
				} else {
					require.ErrorIs(w, err, c.result)
				}
				b := l.member(shards.Count(n), shardDrain)
				time.Sleep(10 * time.Second)
				t.Log(m.Owned(), b.load(), a.Health(w.Context()))
				require.GreaterOrEqual(w, b.load(), n/2-1, "shard 3 may wait")
				require.NoError(w, a.Health(w.Context()))
				require.NoError(w, m.Leave(w.Context()))
				l.untilEven(n, b)
				mayEnd.Wait()
			})
		})
	}
}

// P2: a member that joins again says of the membership that it lost when nothing of it runs any more. Shards that were granted to that
// one in replies that were lost have an owner at once, and not after a lease.
func TestWhatALostMembershipNeverHeardOfIsFree(t *testing.T) {
	t.Parallel()
	const n = 8
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		members := l.some(n, 2)
		dead, cut := members[0], members[1]
		dead.kill()
		time.Sleep(shards.DefaultLease - time.Second)
		cut.wire.swallowsReplies.Store(true) // it takes the shards of the dead, and does not hear of that
		time.Sleep(shards.DefaultLease - 2*time.Second)
		require.Zero(w, cut.load(), "its lease is lost")
		cut.wire.heal()
		l.untilEven(n, cut)
		time.Sleep(time.Minute)
		_, gaps := l.reset()
		require.Less(w, at(gaps, 1), 2*shards.DefaultLease, "the lease of the dead, and the time in which no reply came")
	})
}

// configured is a group of three members, one of which changes a setting.
type configuredGroup struct {
	w       *fixture
	log     *shardLog
	g       *shards.Group
	m       *shards.Member // the member whose wire is that of the first of members
	members []*shardMember
	before  test.Backup // the server's data before the setting was changed
}

func (cg *configuredGroup) view() *shards.View {
	v, err := cg.g.View(cg.w.Context())
	require.NoError(cg.w, err)
	return v
}

// info returns what observers read of the member that changed it.
func (cg *configuredGroup) info() (found shards.MemberInfo) {
	for _, m := range cg.view().Members {
		if m.Session == cg.members[0].ID() && !m.Leaving {
			found = m
		}
	}
	return found
}

// What the server loses comes back from the members: each setting of a member or a group is so again after the server has
// lost all data, and after one member was away for longer than its lease.
func TestSettingsOfAGroupOutliveItsData(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set    shards.Set
		change func(x *configuredGroup) // changes the setting
		is     func(x *configuredGroup) // requires that it is so
	}{
		"Pause": {shards.Count(12), func(x *configuredGroup) { require.NoError(x.w, x.m.SetWeight(x.w.Context(), 0)) }, func(x *configuredGroup) {
			require.Zero(x.w, x.m.Owned())
			require.Equal(x.w, 0, x.info().Weight)
		}},
		"Weight": {shards.Count(12), func(x *configuredGroup) { require.NoError(x.w, x.m.SetWeight(x.w.Context(), 2)) }, func(x *configuredGroup) {
			require.Equal(x.w, 6, x.m.Owned())
			require.Equal(x.w, 2, x.info().Weight)
		}},
		"Value": {shards.Count(12), func(x *configuredGroup) { require.NoError(x.w, x.m.SetValue(x.w.Context(), "v2")) }, func(x *configuredGroup) {
			require.Equal(x.w, "v2", x.info().Value)
		}},
		"Limit": {shards.Count(12), func(*configuredGroup) {}, func(x *configuredGroup) {
			require.Equal(x.w, 5, x.info().Limit)
		}},
		"Resize": {shards.Count(12), func(x *configuredGroup) { require.NoError(x.w, x.g.Resize(x.w.Context(), 20)) }, func(x *configuredGroup) {
			require.Equal(x.w, 20, x.view().Count)
		}},
		"Sync": {shards.Names(), func(x *configuredGroup) { require.NoError(x.w, x.g.Sync(x.w.Context(), strings.Split("abcdef", ""))) }, func(x *configuredGroup) {
			require.Equal(x.w, strings.Split("abcdef", ""), x.view().Names())
		}},
		"SyncOfMoreThanNew": {shards.Names("a", "z"), func(x *configuredGroup) { require.NoError(x.w, x.g.Sync(x.w.Context(), strings.Split("abcdef", ""))) }, func(x *configuredGroup) {
			require.Equal(x.w, strings.Split("abcdef", ""), x.view().Names())
		}},
	} {
		for fault, strike := range map[string]func(x *configuredGroup){
			"DataLost": func(x *configuredGroup) { x.w.redis.FlushAll() },
			"NewestLost": func(x *configuredGroup) { // a failover: the server is another one
				x.before.Restore(x.w.redis)
				for _, m := range x.members {
					m.wire.cut()
				}
			},
			"NewestLostBehindAnEndpoint": func(x *configuredGroup) { x.before.Restore(x.w.redis) },
			"LeaseLost": func(x *configuredGroup) {
				x.members[0].wire.goSilent()
				time.Sleep(30 * time.Second)
				x.members[0].wire.heal()
			},
		} {
			if name == "SyncOfMoreThanNew" && strings.HasPrefix(fault, "NewestLost") {
				continue // a name that left the set is there again
			}
			t.Run(name+fault, func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(w *fixture) {
					x := &configuredGroup{w: w, log: newShardLog(w)}
					first := x.log.newMember(c.set, shardDrain) // its session is that of the member
					x.g = shards.New(first.Session, "a", c.set, shards.Limit(5))
					if name != "Limit" {
						x.g = shards.New(first.Session, "a", c.set)
					}
					var err error
					x.m, err = x.g.Join(w.Context())
					require.NoError(w, err)
					var reads sync.WaitGroup
					reads.Go(func() { locktest.TakeUp(x.m) })
					x.members = []*shardMember{first, x.log.member(c.set, shardDrain), x.log.member(c.set, shardDrain)}
					time.Sleep(10 * time.Second)
					x.before = backupOf(w.redis)
					c.change(x)
					time.Sleep(10 * time.Second)
					c.is(x)
					strike(x)
					time.Sleep(30 * time.Second)
					c.is(x)
					require.NoError(w, x.g.Health(w.Context()))
					require.NoError(w, x.m.Leave(w.Context()))
					reads.Wait()
				})
			})
		}
	}
}

var errWrong = errors.New("the server's words for a wrong argument")

// A reply that is lost delays a move by a second.
func TestLostRepliesDelayAMoveByASecond(t *testing.T) {
	t.Parallel()
	for name, loser := range map[string]int{"Donor": 0, "Taker": 1} {
		for _, after := range []time.Duration{300 * time.Millisecond, 500 * time.Millisecond, 700 * time.Millisecond} {
			bubbleOfUsers(t, func(w *fixture) {
				l := newShardLog(w)
				members := append(l.some(16, 1), l.member(shards.Count(16), shardDrain))
				time.Sleep(shards.DefaultRebalanceDelay + after)
				link := members[loser].wire
				link.swallowsReplies.Store(true)
				time.Sleep(100 * time.Millisecond)
				link.heal()
				took := l.untilEven(16, members...)
				moves, gaps := l.reset()
				t.Logf("%s, lost after %v: even %v later, longest gap %v", name, after, took, at(gaps, 1))
				require.Equal(w, 8, moves)
				require.LessOrEqual(w, at(gaps, 1), 1200*time.Millisecond)
				l.requireSound()
			})
		}
	}
}

// The server is away for longer than the lease: all contexts end, and all shards are granted anew within 3 s of its return.
func TestServerThatIsAwayForLongMovesEachShardOnce(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 100
		l := newShardLog(w)
		members := l.some(n, 4)
		for _, m := range members {
			m.wire.goSilent()
		}
		time.Sleep(40 * time.Second)
		require.Zero(w, l.owned())
		for _, cause := range l.ends() {
			require.ErrorIs(w, cause, signalbox.ErrLost)
		}
		for _, m := range members {
			m.wire.heal()
		}
		took := l.untilEven(n, members...)
		moves, gaps := l.reset()
		t.Logf("away for 40s: even %v later, %d moves of %d shards, longest gap %v", took, moves, n, at(gaps, 1))
		require.LessOrEqual(w, took, 5*time.Second)
		l.requireSound()
	})
}

// A clock that is set back makes a death cost one lease more at most, however far it was set, also if a key of the group was lost just
// before that.
func TestClockThatIsSetBackDelaysTheDeadByOneLease(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"none", "ends", "donors", "takers", "proven"} {
		bubbleOfUsers(t, func(w *fixture) {
			const n, step = 16, time.Hour
			ahead := w.skewed()
			l := newShardLog(w)
			members := l.some(n, 2)
			time.Sleep(time.Minute)
			members[1].kill()
			w.redis.Del("sb:{a}:shards:" + lost)
			ahead.Store(-int64(step))
			took := l.untilEven(n, members[0])
			moves, _ := l.reset()
			t.Logf("killed, and the clock set back by %v: all owned after %v, %d moves", step, took, moves)
			require.LessOrEqual(w, took, 2*16*time.Second, lost)
			require.Equal(w, n/2, moves, lost)
			l.requireSound()
		})
	}
}

// Half of the members are killed: the others keep what they have, and take the rest within a lease and a second, none more than its
// limit.
func TestHalfOfTheMembersDie(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n, m, limit = 100, 10, 20
		l := newShardLog(w)
		var members []*shardMember
		for range m {
			members = append(members, l.member(shards.Count(n), shardDrain, shards.Limit(limit)))
		}
		l.untilEven(n, members...)
		time.Sleep(time.Minute)
		l.reset()
		for _, dead := range members[:m/2] {
			dead.kill()
		}
		began, most := time.Now(), 0
		for !even(n, members[m/2:]...) {
			time.Sleep(100 * time.Millisecond)
			for _, alive := range members[m/2:] {
				most = max(most, alive.load())
			}
		}
		took := time.Since(began)
		moves, _ := l.reset()
		t.Logf("half of %d members died: all owned after %v, %d moves, never more than %d at one", m, took, moves, most)
		require.LessOrEqual(w, took, 16*time.Second)
		require.LessOrEqual(w, most, limit)
		require.Equal(w, n/2, moves)
		l.requireSound()
	})
}

// Members that start at about the same time, as in a deployment, poll at different times. A crash moves the shards of the dead one
// alone, whatever their ages are then.
func TestACrashMovesTheShardsOfTheDeadAlone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(6, 10)) {
		bubbleOfUsers(t, func(w *fixture) {
			const n = 64
			random := rand.New(rand.NewPCG(4, seed))
			l := newShardLog(w)
			var members []*shardMember
			for range 4 {
				time.Sleep(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
				members = append(members, l.member(shards.Count(n), shardDrain))
			}
			l.untilEven(n, members...)
			time.Sleep(10*time.Second + time.Duration(random.Int64N(int64(6*time.Second)))) // reaped when the others become 30 s old
			l.reset()
			orphans := members[3].load()
			members[3].kill()
			l.untilEven(n, members[:3]...)
			time.Sleep(5 * time.Second)
			moves, _ := l.reset()
			require.Equal(w, orphans, moves, "seed %d", seed)
			l.requireSound()
		})
	}
}

// Guarantee 1: a limit of a drain, and an end by force, count from when the member can know of it. One that is cut off meanwhile has live
// contexts.
func TestAMemberThatDoesNotHearKeepsItsContexts(t *testing.T) {
	t.Parallel()
	for _, take := range []func(w *fixture, cut *shardMember){
		func(*fixture, *shardMember) {},
		func(w *fixture, _ *shardMember) {
			require.NoError(w, inspect.Break(w.Context(), w.user().Session, "a", inspect.Shards))
		},
	} {
		for away := 3 * time.Second; away < 16*time.Second; away += 4 * time.Second {
			bubbleOfUsers(t, func(w *fixture) {
				l := newShardLog(w)
				a := l.member(shards.Count(16), 0, shards.DrainLimit(time.Second), shards.RebalanceDelay(0))
				l.untilEven(16, a)
				time.Sleep(20 * time.Second)
				a.wire.goSilent()
				take(w, a)
				b := l.member(shards.Count(16), 0, shards.DrainLimit(time.Second), shards.RebalanceDelay(0))
				time.Sleep(away)
				a.wire.heal()
				l.untilEven(16, a, b)
				l.requireSound()
			})
		}
	}
}

// A process that hangs at its end keeps its shards until it is killed; the others get them within a lease and a second.
func TestProcessThatHangsAtItsEndKeepsItsShards(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 16
		l := newShardLog(w)
		hung := l.member(shards.Count(n), time.Hour)
		l.untilEven(n, hung)
		b := l.member(shards.Count(n), shardDrain, shards.RebalanceDelay(time.Minute))
		time.Sleep(20 * time.Second)
		hung.cancel()
		time.Sleep(10 * time.Minute)
		require.Equal(w, n, hung.load(), "they drain")
		require.Zero(w, b.load())
		l.requireSound()
		hung.kill()
		took := l.untilEven(n, b)
		t.Logf("killed after 10 minutes: all owned %v later", took)
		require.LessOrEqual(w, took, 16*time.Second)
		l.requireSound()
	})
}

// While a slot moves, scripts of several keys are refused. Leases are renewed by one key: no shard is lost, and none moves.
func TestSlotThatMovesEndsNoShard(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 16
		l := newShardLog(w)
		members := l.some(n, 2)
		var isMoving atomic.Bool
		w.refusesScripts(func(_ string, args []string) string {
			if !isMoving.Load() || args[1] == "1" {
				return ""
			}
			return slotMoves
		})
		isMoving.Store(true)
		c := l.member(shards.Count(n), shardDrain)
		time.Sleep(5 * time.Minute)
		require.Empty(w, l.ends())
		require.Equal(w, n, l.owned())
		require.Zero(w, c.load())
		isMoving.Store(false)
		took := l.untilEven(n, append(members, c)...)
		moves, _ := l.reset()
		t.Logf("the slot moved for 5 minutes; even %v later, %d moves", took, moves)
		require.Equal(w, n/3, moves)
		l.requireSound()
	})
}

// Releases that the server refuses whatever they release go together: those of many shards cost as much as that of one.
func TestReleasesGoTogetherWhileASlotMoves(t *testing.T) {
	t.Parallel()
	for _, words := range []string{slotMoves, "ERR upstream failure", "LOADING Redis is loading the dataset in memory"} {
		for n, most := range map[int]int64{40: 50, 400: 80} { // those of 400 have no room in eight calls
			bubbleOfUsers(t, func(w *fixture) { releasesTogether(w, words, n, most) })
		}
	}
}

func releasesTogether(w *fixture, words string, n int, most int64) {
	var isMoving atomic.Bool
	var refused atomic.Int64
	w.refusesScripts(func(_ string, args []string) string {
		if !isMoving.Load() || args[1] == "1" || refused.Add(1) > 10_000 { // the clock would stand still
			return ""
		}
		return words
	})
	ctx, cancel := context.WithCancel(context.Background())
	s, link := w.open()
	group, returned := shards.New(s, "a", shards.Count(n)), make(chan error, 1)
	go func() {
		returned <- group.Run(ctx, func(ctx context.Context, s shards.Shard) error {
			<-ctx.Done()
			time.Sleep(time.Duration(s.Index()) * 4 * time.Second / time.Duration(n)) // each ends at a time of its own
			return nil
		})
	}()
	time.Sleep(time.Minute)
	isMoving.Store(true)
	cancel()
	time.Sleep(5 * time.Second)
	before := link.scripts.Load()
	time.Sleep(5 * time.Second)
	require.Less(w, link.scripts.Load()-before, most)
	require.Less(w, refused.Load(), int64(10_000))
	isMoving.Store(false)
	require.ErrorIs(w, <-returned, context.Canceled)
}

// Guarantee 5: real loads follow within as many drains as Moves needs, and a second.
func TestLoadsAreEvenAfterTheDrainsThatMovesNeeds(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n, atOnce, drain = 120, 20, 2 * time.Second
		l := newShardLog(w)
		a := l.member(shards.Count(n), drain, shards.Moves(atOnce))
		l.untilEven(n, a)
		time.Sleep(time.Minute)
		l.reset()
		b := l.member(shards.Count(n), drain, shards.Moves(atOnce))
		took := l.untilEven(n, a, b)
		moves, gaps := l.reset()
		t.Logf("%d moves, %d at once, drains of %v: even %v after the join, longest gap %v", moves, atOnce, drain, took, at(gaps, 1))
		require.Equal(w, n/2, moves)
		require.LessOrEqual(w, took, shards.DefaultRebalanceDelay+n/2/atOnce*drain+time.Second)
		l.requireSound()
	})
}

// All members die: no member is left that takes their shards, and observers report that all the same. argo-cd#29476.
func TestGroupWhoseMembersAllDiedIsReported(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 10
		l := newShardLog(w)
		g := l.died(n)
		time.Sleep(14 * time.Second)
		v, err := g.View(w.Context())
		require.NoError(w, err)
		require.Len(w, v.Members, 2, "their leases last")
		began := time.Now()
		for v, err := range g.Watch(w.Context()) {
			require.NoError(w, err)
			if v.Unowned == n {
				require.Empty(w, v.Members)
				break
			}
		}
		require.LessOrEqual(w, time.Since(began), 3*time.Second)
		require.NoError(w, g.Health(w.Context()))
		time.Sleep(20 * time.Second)
		err = g.Health(w.Context())
		t.Log(err)
		require.ErrorIs(w, err, signalbox.ErrNotHeld)
		o, err := g.Owner(w.Context(), "3")
		require.NoError(w, err)
		require.Equal(w, shards.Unowned, o.State)
		require.Empty(w, o.Session)
		c := l.member(shards.Count(n), shardDrain)
		took := l.untilEven(n, c)
		require.LessOrEqual(w, took, 3*time.Second)
		require.NoError(w, g.Health(w.Context()))
		l.requireSound()
	})
}

// No member is left but one whose polls are refused. No script takes the shards of the dead for it, so their rows stay, and observers
// report all the same.
func TestShardsOfTheDeadAreReportedWhilePollsAreRefused(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 10
		l := newShardLog(w)
		g := l.died(n)
		var refuses atomic.Bool
		w.refusesScripts(func(command string, args []string) string {
			if !refuses.Load() || !runs(proto.ShardsPollScript, command, args) {
				return ""
			}
			return slotMoves
		})
		refuses.Store(true)
		alone := l.member(shards.Count(n), shardDrain)
		time.Sleep(time.Minute)
		v, err := g.View(w.Context())
		require.NoError(w, err)
		require.Len(w, v.Members, 1)
		require.Equal(w, n, v.Unowned)
		require.ErrorIs(w, g.Health(w.Context()), signalbox.ErrNotHeld)
		refuses.Store(false)
		l.untilEven(n, alone)
		require.NoError(w, g.Health(w.Context()))
		l.requireSound()
	})
}

// Guarantee 12: the clock is set back, and then the server loses its data. Members that were there before take no smaller token than they
// had: the group's time continues from that.
func TestTokensRiseIfDataIsLostAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 16
		ahead := w.skewed()
		l := newShardLog(w)
		members := l.some(n, 2)
		ahead.Store(-int64(2 * time.Hour))
		time.Sleep(time.Minute)
		w.redis.FlushAll()
		members = append(members, l.member(shards.Count(n), shardDrain)) // it knows of no token
		time.Sleep(2 * time.Second)
		took := l.untilEven(n, members...)
		t.Logf("set back by 2h, and lost: even %v later", took)
		require.LessOrEqual(w, took, 10*time.Second)
		l.requireSound()
	})
}
