// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/shards"
)

// memberEvents are the events of the members of a session, in order.
type memberEvents struct {
	mu  sync.Mutex
	all []string
}

// observer returns an observer that writes them down.
func (m *memberEvents) observer() signalbox.Observer {
	note := func(word string) func(context.Context, signalbox.Event) {
		return func(_ context.Context, e signalbox.Event) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.all = append(m.all, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", word, e.Shard, e.Outcome)), " "))
			if e.Kind != "shards" || e.Name != "a" || (e.Shard == "") == (e.Token != 0) {
				m.all = append(m.all, fmt.Sprintf("not as it must be: %+v", e))
			}
		}
	}
	return signalbox.Observer{
		Names: true, MemberJoined: note("joined"), MemberLeft: note("member"), ShardGranted: note("granted"),
		ShardDraining: note("draining"), ShardSlow: note("slow"), ShardReleased: note("released"),
	}
}

// take returns the events since the last call.
func (m *memberEvents) take() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, m.all = m.all, nil
	return all
}

// Watch yields what a read of several pages says, also if the last page is empty, and a new set that has no row.
func TestWatchYieldsWhatAllPagesSay(t *testing.T) {
	t.Parallel()
	for _, n := range []int{512, 600} {
		bubbleOfUsers(t, func(w *fixture) {
			g := shards.New(w.user().Session, "a", shards.Count(n))
			l := newShardLog(w)
			shown := l.watches(g)
			m, err := shards.New(w.user().Session, "a", shards.Count(n)).Join(w.Context())
			require.NoError(w, err)
			go locktest.TakeUp(m)
			time.Sleep(time.Minute)
			require.Equal(w, n, m.Owned())
			require.Zero(w, shown.Load().Unowned, "%d shards", n)
			require.NoError(w, m.SetWeight(w.Context(), 0))
			time.Sleep(10 * time.Second)
			require.Equal(w, n, shown.Load().Unowned, "%d shards", n)
			require.NoError(w, g.Resize(w.Context(), 10))
			time.Sleep(10 * time.Second)
			require.Equal(w, 10, shown.Load().Count, "%d shards", n)
			require.Equal(w, 10, shown.Load().Unowned, "%d shards", n)
			require.NoError(w, m.Leave(w.Context()))
		})
	}
}

// What happens to a member and its shards is reported, in order: a grant, a move, a drain that is slow, a lost lease, a leave.
func TestObserverOfAMember(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		var events memberEvents
		user := w.user(signalbox.WithObserver(events.observer()))
		drain := make(chan struct{})
		ctx, cancel := context.WithCancel(w.Context())
		returned := make(chan error, 1)
		go func() {
			returned <- shards.New(user.Session, "a", shards.Names("x")).Run(ctx, func(ctx context.Context, _ shards.Shard) error {
				<-ctx.Done()
				time.Sleep(time.Millisecond) // the member learns of the end as well
				if errors.Is(context.Cause(ctx), shards.ErrRemoved) {
					<-drain
				}
				return nil
			})
		}()
		time.Sleep(5 * time.Second)
		require.Equal(w, []string{"joined", "granted x"}, events.take())

		other := shards.New(w.user().Session, "a", shards.Names())
		require.NoError(w, other.Sync(w.Context(), nil))
		time.Sleep(2 * time.Minute)
		require.Equal(w, []string{"draining x removed", "slow x removed"}, events.take(), "slow is reported once")
		close(drain)
		time.Sleep(time.Second)
		require.Equal(w, []string{"released x removed"}, events.take())
		require.NoError(w, other.Sync(w.Context(), []string{"y"}))
		time.Sleep(time.Second)
		require.Equal(w, []string{"granted y"}, events.take())

		user.wire.goSilent()
		time.Sleep(20 * time.Second)
		require.Equal(w, []string{"member expired", "draining y expired", "released y expired"}, events.take())
		user.wire.heal()
		time.Sleep(10 * time.Second)
		require.Equal(w, []string{"joined", "granted y"}, events.take())
		cancel()
		require.ErrorIs(w, <-returned, context.Canceled)
		time.Sleep(time.Second)
		require.Equal(w, []string{"draining y left", "released y left", "member left"}, events.take())
	})
}

// groupEntry returns the entry of the group "a", as Name and Names have it.
func groupEntry(w *fixture, s *signalbox.Session) inspect.Entry {
	w.Helper()
	entries, err := inspect.Name(w.Context(), s, "a")
	require.NoError(w, err)
	require.Len(w, entries, 1)
	for e, err := range inspect.Names(w.Context(), s, "a") {
		require.NoError(w, err)
		require.Equal(w, []any{entries[0].Kind, entries[0].HolderCount, entries[0].Unowned}, []any{e.Kind, e.HolderCount, e.Unowned})
	}
	return entries[0]
}

// The members of a group are listed with what they own, and what no member owns.
func TestMembersOfAGroupAreListed(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l, s := newShardLog(w), w.user().Session
		began := time.Now()
		a := l.member(shards.Count(8), shardDrain, shards.Value("10.0.0.7"))
		time.Sleep(time.Second)
		e := groupEntry(w, s)
		require.Equal(w, []any{"a", inspect.Shards, 8, 8, 1}, []any{e.Name, e.Kind, e.Shards, e.Unowned, e.HolderCount})
		require.WithinDuration(w, began, e.UnownedSince, 100*time.Millisecond, "no shard ever had an owner: since the first member joined")

		b := l.member(shards.Count(8), time.Hour)
		l.untilEven(8, a, b)
		e = groupEntry(w, s)
		require.Equal(w, []any{8, 0, 0, 2}, []any{e.Shards, e.Unowned, e.Draining, e.HolderCount})
		require.Zero(w, e.UnownedSince)
		of := map[string]inspect.Holder{e.Holders[0].Session: e.Holders[0], e.Holders[1].Session: e.Holders[1]}
		require.Equal(w, []any{4, "10.0.0.7", false}, []any{of[a.ID()].Shards, of[a.ID()].Value, of[a.ID()].Leaving})
		require.Equal(w, 4, of[b.ID()].Shards)
		require.True(w, of[a.ID()].Until.After(time.Now()))

		// b drains for an hour, and then nothing renews a.
		b.cancel()
		time.Sleep(2 * time.Second)
		e = groupEntry(w, s)
		require.Equal(w, 4, e.Draining)
		require.WithinDuration(w, time.Now().Add(-2*time.Second), e.DrainingSince, 100*time.Millisecond)
		killed := time.Now()
		a.kill()
		b.kill()
		time.Sleep(20 * time.Second)
		e = groupEntry(w, s)
		require.Equal(w, []any{8, 8, 2}, []any{e.Shards, e.Unowned, e.HolderCount}, "no member is left that could take them")
		require.True(w, killed.Before(e.UnownedSince) && e.UnownedSince.Before(time.Now()), e.UnownedSince)
	})
}

// A member that is ended by force loses its shards as soon as it hears of it, and its process joins again.
func TestAMemberThatIsEndedLosesItsShards(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		l, s := newShardLog(w), w.user().Session
		a, b := l.member(shards.Count(40), shardDrain), l.member(shards.Count(40), shardDrain)
		l.untilEven(40, a, b)
		l.reset()
		e := groupEntry(w, s)
		for _, h := range e.Holders {
			if h.Session == b.ID() {
				e.Holders = []inspect.Holder{h}
			}
		}
		require.NoError(w, inspect.BreakSeen(w.Context(), s, e))
		time.Sleep(time.Millisecond)
		e.Holders[0].Hold = "another"
		require.ErrorIs(w, inspect.BreakSeen(w.Context(), s, e), signalbox.ErrHeld)
		time.Sleep(time.Second)
		moves, _ := l.reset()
		require.Equal(w, 20, moves, "those of b, and none of a")
		l.untilEven(40, a, b)
		require.NoError(w, inspect.Break(w.Context(), s, "a", inspect.Shards))
		l.untilEven(40, a, b)
		l.requireSound()
		require.ErrorIs(w, inspect.Break(w.Context(), s, "b"), signalbox.ErrNotHeld)
	})
}

// A name that is a number is a name: its shard has no index, and its work can be finished.
func TestNameThatIsANumberIsNoIndex(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		g := shards.New(w.user().Session, "a", shards.Names("7"))
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		returned := make(chan error, 1)
		go func() {
			returned <- g.Run(ctx, func(_ context.Context, s shards.Shard) error {
				require.Equal(w, []any{"7", -1, 0}, []any{s.Name(), s.Index(), s.Count()})
				return shards.Finished
			})
		}()
		time.Sleep(5 * time.Second)
		view, err := g.View(w.Context())
		require.NoError(w, err)
		require.Empty(w, view.Names())
		cancel()
		require.ErrorIs(w, <-returned, context.Canceled)
	})
}
