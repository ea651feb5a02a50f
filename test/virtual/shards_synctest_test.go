// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/shards"
)

// shardDrain is how long functions need to return, unless a test says otherwise.
const shardDrain = 50 * time.Millisecond

// Guarantees 4, 5 and 6 of package shards: a join moves the share of the new member, and a leave the shards of that member alone,
// each in some milliseconds.
func TestShardsMoveAsFewAsTheLoadsNeed(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n, latency = 64, time.Millisecond
		l := newShardLog(w)
		join := func() *shardMember {
			m := l.newMember(shards.Count(n), shardDrain)
			m.wire.latency.Store(int64(latency))
			m.run(m.wait)
			return m
		}
		members := []*shardMember{join()}
		l.untilEven(n, members...)
		l.reset()
		for len(members) < 5 {
			time.Sleep(20 * time.Second)
			members = append(members, join())
			took := l.untilEven(n, members...)
			moves, gaps := l.reset()
			t.Logf("%d members: even %v after the join, %d moves, gap p50 %v p99 %v", len(members), took, moves, at(gaps, .5), at(gaps, .99))
			require.Equal(w, n/len(members), moves)
			require.LessOrEqual(w, at(gaps, .99), 10*time.Millisecond)
		}
		for len(members) > 1 {
			time.Sleep(20 * time.Second)
			load := members[0].load()
			members[0].leave()
			members = members[1:]
			took := l.untilEven(n, members...)
			moves, gaps := l.reset()
			t.Logf("%d members: even %v after the leave, %d moves, gap p50 %v p99 %v", len(members), took, moves, at(gaps, .5), at(gaps, .99))
			require.Equal(w, load, moves)
			require.LessOrEqual(w, at(gaps, .99), 10*time.Millisecond)
		}
		l.requireSound()
	})
}

// P2: a member that loses touch with the server ends its contexts a third of the lease before the server can give
// its shards away, which it does within a lease and a second. A short outage ends none.
func TestShardContextsEndBeforeTheLeaseCan(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 16
		l := newShardLog(w)
		a := l.member(shards.Count(n), shardDrain)
		b := l.member(shards.Count(n), shardDrain)
		l.untilEven(n, a, b)
		time.Sleep(time.Minute)
		l.reset()
		a.wire.goSilent()
		time.Sleep(8 * time.Second)
		require.Equal(w, n, l.owned(), "a server that is away for 8 s ends nothing")
		a.wire.heal()
		time.Sleep(time.Minute)
		moves, _ := l.reset()
		require.Zero(w, moves)
		began := time.Now()
		a.wire.goSilent()
		for l.owned() == n {
			time.Sleep(10 * time.Millisecond)
		}
		ended := time.Since(began)
		l.untilEven(n, b)
		taken := time.Since(began)
		t.Logf("the contexts ended %v after the silence began, and all was taken after %v", ended, taken)
		require.Greater(w, ended, 8*time.Second)
		require.Less(w, ended, 10*time.Second)
		require.LessOrEqual(w, taken, 16*time.Second)
		for _, cause := range l.mu.causes {
			require.ErrorIs(w, cause, signalbox.ErrLost)
		}
		a.wire.heal()
		l.untilEven(n, a, b)
		l.requireSound()
	})
}

// P6: the shards of a member that was killed have new owners within its lease and a second; those of a young one sooner.
func TestShardsOfTheDeadAreTakenWithinALease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ age, most time.Duration }{{time.Minute, 16 * time.Second}, {4 * time.Second, 9 * time.Second}} {
		bubbleOfUsers(t, func(w *fixture) {
			const n = 32
			l := newShardLog(w)
			a := l.member(shards.Count(n), shardDrain)
			l.untilEven(n, a)
			time.Sleep(time.Minute)
			b := l.member(shards.Count(n), shardDrain, shards.RebalanceDelay(0))
			time.Sleep(c.age)
			l.untilEven(n, a, b)
			b.kill()
			l.reset()
			took := l.untilEven(n, a)
			moves, _ := l.reset()
			t.Logf("killed at the age of %v: all owned after %v, %d moves", c.age, took, moves)
			require.LessOrEqual(w, took, c.most)
			require.Equal(w, n/2, moves)
			l.requireSound()
		})
	}
}

// P1: a server that comes back empty grants nothing to others before the members of the lost group know.
func TestEmptyServerGivesNoShardTwoOwners(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 100
		l := newShardLog(w)
		a, b := l.member(shards.Count(n), shardDrain), l.member(shards.Count(n), shardDrain)
		l.untilEven(n, a, b)
		time.Sleep(time.Minute)
		l.reset()
		began := time.Now()
		w.redis.FlushAll()
		c := l.member(shards.Count(n), shardDrain)
		for l.owned() > 0 {
			time.Sleep(time.Millisecond)
		}
		lost := time.Since(began)
		took := l.untilEven(n, a, b, c)
		moves, gaps := l.reset()
		t.Logf("ErrLost within %v, even %v later, %d moves, longest gap %v", lost, took, moves, at(gaps, 1))
		require.LessOrEqual(w, lost, 1100*time.Millisecond)
		l.requireSound()
	})
}

// Guarantee 8: a function that hangs keeps its shard, and delays no other. DrainLimit takes the shard from it.
func TestHungDrainDelaysItsShardAlone(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"None": 0, "Limit": 20 * time.Second} {
		bubbleOfUsers(t, func(w *fixture) {
			const n = 16
			var options []signalbox.LockOption
			if limit > 0 {
				options = append(options, shards.DrainLimit(limit))
			}
			l := newShardLog(w)
			a := l.newMember(shards.Count(n), shardDrain, options...)
			hangs, first := make(chan struct{}), make(chan struct{}, 1)
			a.run(func(ctx context.Context, s shards.Shard) error {
				<-ctx.Done()
				select {
				case first <- struct{}{}:
					select {
					case <-hangs:
					case <-a.over:
					}
				default:
				}
				return nil
			})
			l.untilEven(n, a)
			b := l.member(shards.Count(n), shardDrain, options...)
			time.Sleep(10 * time.Second)
			require.Equal(w, n/2-1, b.load())
			time.Sleep(90 * time.Second)
			if limit > 0 {
				require.Equal(w, n/2, b.load())
			} else {
				require.Equal(w, n/2-1, b.load())
				err := b.group.Health(w.Context())
				t.Log(err)
				require.ErrorIs(w, err, signalbox.ErrHeld)
				l.requireSound()
			}
			close(hangs)
			time.Sleep(10 * time.Second)
			require.Equal(w, n/2, b.load())
			require.Equal(w, n/2, a.load())
			require.NoError(w, b.group.Health(w.Context()))
			t.Logf("%s: even", name)
		})
	}
}

var errShardWork = errors.New("the work failed")

// Guarantee 9: after nil and an error the function is called again, and the server hears nothing. After Elsewhere, and if the function ends its
// goroutine, another member gets the shard, with a greater token. After Finished there is no such shard any more.
func TestWhatAShardFunctionReturns(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		calls := make(map[string]int)
		a := l.newMember(shards.Names("nil", "error", "elsewhere", "exit", "finished"), shardDrain)
		mayReturn := make(chan struct{})
		a.run(func(ctx context.Context, s shards.Shard) error {
			<-mayReturn
			l.mu.Lock()
			calls[s.Name()]++
			l.mu.Unlock()
			switch s.Name() {
			case "nil":
				return nil
			case "error":
				return errShardWork
			case "elsewhere":
				return shards.Elsewhere(errShardWork, 40*time.Second)
			case "finished":
				return shards.Finished
			default:
				runtime.Goexit()
				return nil
			}
		})
		l.untilEven(5, a)
		b := l.member(shards.Names(), shardDrain, shards.Weight(1), shards.Limit(5))
		time.Sleep(time.Second)
		close(mayReturn)
		time.Sleep(20 * time.Second)
		l.mu.Lock()
		counted := maps.Clone(calls)
		l.mu.Unlock()
		t.Log(counted, b.shards())
		require.Greater(w, counted["nil"], 100)
		require.LessOrEqual(w, counted["error"], 10)
		require.Contains(w, b.shards(), "elsewhere")
		require.Contains(w, b.shards(), "exit")
		require.ErrorIs(w, no(b.group.Owner(w.Context(), "finished")), signalbox.ErrNotHeld)
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

// A member that no reader has made an owner gives shards back as if it had not had them: that no member works on them is reported also if such
// members come and go.
func TestShardsThatAreNotTakenUpHaveNoOwner(t *testing.T) {
	t.Parallel()
	for name, gives := range map[string]func(w *fixture, u queueUser, m *shards.Member) error{
		"Leave": func(w *fixture, _ queueUser, m *shards.Member) error { return m.Leave(w.Context()) },
		"Close": func(w *fixture, u queueUser, _ *shards.Member) error { return u.Close(w.Context()) },
		"Pause": func(w *fixture, _ queueUser, m *shards.Member) error { return m.SetWeight(w.Context(), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(w *fixture) {
				joins := func() (queueUser, *shards.Member) {
					u := w.user()
					m, err := shards.New(u.Session, "a", shards.Count(4)).Join(w.Context())
					require.NoError(w, err)
					return u, m
				}
				_, paused := joins()
				require.NoError(w, paused.SetWeight(w.Context(), 0))
				g, had := shards.New(w.user().Session, "a", shards.Count(4)), 0
				time.Sleep(5 * time.Second)
				for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Second) {
					u, m := joins()
					time.Sleep(3 * time.Second)
					had += m.Owned()
					require.NoError(w, gives(w, u, m))
					time.Sleep(1200 * time.Millisecond) // it hears at its next poll that they are wanted
					if time.Since(began) > shards.DefaultLease+3*time.Second {
						require.ErrorIs(w, g.Health(w.Context()), signalbox.ErrNotHeld)
					}
				}
				require.Positive(w, had)
			})
		})
	}
}

// skewed returns by how many nanoseconds the server's clock is ahead from here on: 0 until a test stores another number.
func (f *fixture) skewed() *atomic.Int64 {
	ahead := new(atomic.Int64)
	f.redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if strings.HasPrefix(command, "EVAL") { // not for the commands of a script, which has the server's lock
			f.redis.SetTime(time.Now().Add(time.Duration(ahead.Load())))
		}
		return false
	})
	return ahead
}

// A clock that is set forward or back moves nothing.
func TestClockStepsMoveNoShards(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{20 * time.Second, -20 * time.Second} {
		bubbleOfUsers(t, func(w *fixture) {
			const n = 16
			ahead := w.skewed()
			time.AfterFunc(time.Minute, func() { ahead.Store(int64(step)) })
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
		died := redistest.Rounds(10, 30) // ten seconds each
		for range died {
			m := l.member(shards.Count(n), shardDrain)
			time.Sleep(10 * time.Second)
			lived += m.load()
			m.kill()
		}
		l.untilEven(n, members...)
		moves, gaps := l.reset()
		t.Logf("%d members that died after 10 s each: %d moves, longest gap %v; they had %d shards", died, moves, at(gaps, 1), lived)
		require.Less(w, moves, 813*died/30)
		require.LessOrEqual(w, at(gaps, 1), 16*time.Second) // a lease of 13 s, and what a shard waits for a member to be heard
		l.requireSound()
	})
}

// P7: an idle member costs the server and the process the same, whatever the number of its shards.
func TestIdleShardMemberCostsTheSameForAnyNumber(t *testing.T) {
	t.Parallel()
	var polls, goroutinesOf [2]int64
	minutes := redistest.Rounds(2, 10)
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
			time.Sleep(time.Duration(minutes) * time.Minute)
			polls[i], goroutinesOf[i] = w.scripts.Load()-before, int64(resting())
			go func() {
				for c := range m.Changes() {
					_ = c.Shard.Release()
				}
			}()
			require.NoError(w, m.Leave(w.Context()))
		})
	}
	t.Logf("8 and 800 shards: %v requests in %d minutes, %v goroutines", polls, minutes, goroutinesOf)
	require.InDelta(t, polls[0], polls[1], 20+2*float64(minutes))
	require.LessOrEqual(t, polls[1], int64(80*minutes))
	require.Equal(t, goroutinesOf[0], goroutinesOf[1])
}

// A shard that is moved by hand has the other owner, with a greater token, and another shard goes back for it. A member that has given a
// shard away does not get it by hand either: nothing is asked for, and the owner keeps working.
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
		before, err := a.group.Owner(w.Context(), name)
		require.NoError(w, err)
		require.NoError(w, a.group.Move(w.Context(), name, b.ID()))
		time.Sleep(5 * time.Minute)
		require.Contains(w, b.shards(), name)
		after, err := a.group.Owner(w.Context(), name)
		require.NoError(w, err)
		require.Equal(w, []string{a.ID(), b.ID()}, []string{before.Session, after.Session})
		require.Greater(w, after.Token, before.Token)
		moves, _ = l.reset()
		require.Equal(w, 2, moves)
		require.ErrorContains(w, a.group.Move(w.Context(), "4", b.ID()), "there is no shard")
		require.ErrorContains(w, a.group.Move(w.Context(), name, "nobody"), "no member")
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

// Owned is served: shards that a reader of Changes does not take up go to other members after a minute, and no other shard moves. The
// member takes no more until it reads again. The log, the observer and Health of its session say so.
func TestUnreadShardsGoToOtherMembers(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 24
		l := newShardLog(w)
		var events memberEvents
		logger, lines := logged()
		g := shards.New(w.user(signalbox.WithLogger(logger), signalbox.WithObserver(events.observer())).Session, "a", shards.Count(n))
		m, err := g.Join(w.Context())
		require.NoError(w, err)
		may := make(chan struct{})
		reads := sync.OnceFunc(func() { close(may) })
		defer reads()
		var read, ended atomic.Int64 // the shards that its reader has taken up, and those that had to stop
		go func() {
			for c := range m.Changes() {
				context.AfterFunc(c.Shard.Bind(context.Background()), func() { ended.Add(1) })
				if c.Kind != shards.Granted {
					read.Add(-1)
					_ = c.Shard.Release()
				} else if read.Add(1) > 3 {
					<-may
				}
			}
		}()
		b := l.member(shards.Count(n), shardDrain)
		time.Sleep(55 * time.Second)
		require.Equal(w, n/2, b.load())
		require.NoError(w, g.Health(w.Context()))
		events.take()
		time.Sleep(10 * time.Second)
		require.Equal(w, n-4, b.load(), "the four that were read stay")
		require.Equal(w, 4, m.Owned())
		require.Zero(w, ended.Load())
		moves, _ := l.reset()
		require.Zero(w, moves, "b stops nothing for those that it gets")
		err = g.Health(w.Context())
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

		reads()
		time.Sleep(30 * time.Second)
		require.Equal(w, int64(n/2), read.Load())
		require.NoError(w, g.Health(w.Context()))
		require.Len(w, matching(lines.String(), "level=INFO msg=\"signalbox: the changes of a member are read again"), 1)
		v, err = b.group.View(w.Context())
		require.NoError(w, err)
		require.Equal(w, shards.MaxShards, v.Members[0].Limit)
		l.requireSound()
	})
}

// A reader that takes up a shard a minute gets few more than that: not its whole share each time that it has read all there is.
func TestAReaderThatReadsNowAndThenGetsFewShards(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 40
		l := newShardLog(w)
		b := l.member(shards.Count(n), shardDrain)
		time.Sleep(20 * time.Second)
		m, err := shards.New(w.user().Session, "a", shards.Count(n)).Join(w.Context())
		require.NoError(w, err)
		may, over := make(chan struct{}), make(chan struct{})
		defer close(over)
		var read atomic.Int64
		go func() {
			for c := range m.Changes() {
				read.Add(1)
				if c.Kind != shards.Granted {
					read.Add(-2)
					_ = c.Shard.Release()
				}
				select {
				case <-may:
				case <-over:
				}
			}
		}()
		for round := range 5 {
			time.Sleep(50 * time.Second)
			t.Log(read.Load(), m.Owned(), b.load())
			require.True(w, round == 0 || m.Owned() <= int(read.Load())+3, "shards that it has not read")
			time.Sleep(15 * time.Second) // they go to b
			for more := true; more; {
				select {
				case may <- struct{}{}:
				case <-time.After(10 * time.Millisecond): // it waits for more
					more = false
				}
			}
		}
		l.requireSound()
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

// A shard that Own does not return has not been taken up, also if Own is the first call after the host was suspended: the member
// releases it, and gets it again.
func TestOwnTakesUpNothingThatIsLost(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	bubbleOfUsers(t, func(w *fixture) {
		defer timers.Skew(0)
		m, err := shards.New(w.user().Session, "a", shards.Count(1)).Join(w.Context())
		require.NoError(w, err)
		time.Sleep(10 * time.Second)
		require.Equal(w, 1, m.Owned())
		suspendedFor(time.Minute)
		_, is := m.Own("0")
		require.False(w, is)
		time.Sleep(10 * time.Second)
		_, is = m.Own("0")
		require.True(w, is)
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		go func() {
			for c := range m.Changes() {
				_ = c.Shard.Release()
			}
		}()
		require.NoError(w, m.Leave(ctx))
	})
}
