// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
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

// P6: without messages a shard is without an owner for a second more.
func TestShardMovesWithinASecondWithoutItsMessage(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l := newShardLog(w)
		a := l.member(shards.Count(16), shardDrain)
		l.untilEven(16, a)
		b := l.newMember(shards.Count(16), shardDrain)
		a.wire.losesMessages.Store(true)
		b.wire.losesMessages.Store(true)
		l.reset()
		b.run(b.wait)
		took := l.untilEven(16, a, b)
		moves, gaps := l.reset()
		t.Logf("even after %v, %d moves, longest gap %v", took, moves, at(gaps, 1))
		require.LessOrEqual(w, at(gaps, 1), 1100*time.Millisecond)
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

// P8: a member that lost its lease, and joined again, does not start a function beside its own last one of the shard. It releases
// what it had under its old number alone.
func TestNoShardHasTwoFunctionsInAMember(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const n = 8
		l := newShardLog(w)
		a := l.member(shards.Count(n), 2*time.Minute)
		l.untilEven(n, a)
		time.Sleep(time.Minute)
		a.wire.goSilent()
		time.Sleep(30 * time.Second)
		require.Zero(w, l.owned())
		require.Equal(w, n, a.load(), "they drain")
		a.wire.heal()
		time.Sleep(time.Minute)
		require.Zero(w, l.owned(), "none begins before the last one has returned")
		began := time.Now()
		for l.owned() < n {
			time.Sleep(10 * time.Millisecond)
		}
		t.Logf("all owned %v after the lost server was back, with drains of 2m0s", time.Since(began)+time.Minute)
		require.Less(w, time.Since(began), 50*time.Second)
		l.requireSound()
	})
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

// Guarantee 7.
func TestRollingRestartMovesEachShardOnceOrTwice(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"JoinFirst": true, "LeaveFirst": false} {
		bubbleOfUsers(t, func(w *fixture) {
			const n, m = 65, 5 // if members cannot have equal loads, up to m - 1 shards more may move
			l := newShardLog(w)
			var members []*shardMember
			for range m {
				members = append(members, l.member(shards.Count(n), shardDrain))
			}
			l.untilEven(n, members...)
			time.Sleep(time.Minute)
			l.reset()
			for i := range members {
				old := members[i]
				if first {
					members[i] = l.member(shards.Count(n), shardDrain)
					time.Sleep(time.Second)
					old.leave()
				} else {
					old.leave()
					members[i] = l.member(shards.Count(n), shardDrain)
				}
				time.Sleep(30 * time.Second)
			}
			l.untilEven(n, members...)
			moves, gaps := l.reset()
			t.Logf("%s: %d moves of %d shards, longest gap %v", name, moves, n, at(gaps, 1))
			if first {
				require.Equal(w, n, moves)
			} else {
				require.LessOrEqual(w, moves, 2*n+2*m)
			}
			l.requireSound()
		})
	}
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
		_, err := b.group.Owner(w.Context(), "finished")
		require.ErrorIs(w, err, signalbox.ErrNotHeld)
		l.requireSound()
	})
}
