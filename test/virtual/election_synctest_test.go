// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
)

// valueOf is the key of the value that the leader of an election has set.
func valueOf(name string) string { return "sb:{" + name + "}:leader" }

// leads campaigns, and returns the term.
func leads(f *fixture, e *election.Election) election.Term {
	f.Helper()
	term, err := e.Campaign(f.Context())
	require.NoError(f, err)
	return term
}

// candidate campaigns on another goroutine, and says when it leads.
func candidate(f *fixture, e *election.Election) <-chan election.Term {
	led := make(chan election.Term, 1)
	go func() {
		term, err := e.Campaign(f.Context())
		if err == nil {
			led <- term
		}
	}()
	time.Sleep(100 * time.Millisecond)
	return led
}

// leaderChange is something that an observer saw.
type leaderChange struct {
	election.Leader

	err error
	at  time.Time
}

// observing observes until the context ends.
func observing(ctx context.Context, e *election.Election) <-chan leaderChange {
	seen := make(chan leaderChange, 1000)
	go func() {
		defer close(seen)
		for l, err := range e.Observe(ctx) {
			seen <- leaderChange{l, err, time.Now()}
		}
	}()
	return seen
}

// P2: a leader that loses touch with the server steps down StepDown before its lease can end there, and its context with
// it. The lease is not given away before it ends.
func TestLeaderStepsDownBeforeItsLeaseCanEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		lease   time.Duration
		before  time.Duration
	}{
		"Default": {nil, 15 * time.Second, 5 * time.Second},
		"Half":    {[]signalbox.LockOption{election.StepDown(7500 * time.Millisecond)}, 15 * time.Second, 7500 * time.Millisecond},
		"None":    {[]signalbox.LockOption{election.StepDown(0)}, 15 * time.Second, 0},
		"Minute":  {[]signalbox.LockOption{signalbox.WithRenewedLease(time.Minute)}, time.Minute, 20 * time.Second},
	} {
		for _, queued := range []bool{false, true} {
			bubbleOfUsers(t, func(f *fixture) {
				user, other := f.user(), f.user()
				if queued { // its lease is short at first
					first := leads(f, election.New(other.Session, "a"))
					led := candidate(f, election.New(user.Session, "a", c.options...))
					require.NoError(f, first.Resign())
					f.steps(user, <-led, c.lease, c.before, name)
					return
				}
				f.steps(user, leads(f, election.New(user.Session, "a", c.options...)), c.lease, c.before, name)
			})
		}
	}
}

// steps cuts a leader off after a while, and requires that its term ends in time.
func (f *fixture) steps(user queueUser, term election.Term, lease, before time.Duration, name string) {
	f.Helper()
	ctx := term.Bind(f.Context())
	time.Sleep(10*lease + lease/7)
	require.NoError(f, term.Err(), name)
	user.wire.goSilent()
	deadline := term.Deadline()
	<-ctx.Done()
	left := f.left("a")
	require.ErrorIs(f, term.Err(), signalbox.ErrLost, name)
	require.ErrorIs(f, context.Cause(ctx), signalbox.ErrLost, name)
	require.WithinDuration(f, deadline, time.Now(), 2*time.Millisecond, name)
	require.GreaterOrEqual(f, left, before, name)
	require.Less(f, left, before+lease/50+50*time.Millisecond, name)
	require.Zero(f, term.Deadline())
	began := time.Now()
	require.ErrorIs(f, term.Resign(), signalbox.ErrLost)
	require.LessOrEqual(f, time.Since(began), time.Second)
}

// P2: a leader that stepped down keeps the lease until its work has returned, if the server is back before the lease has
// ended. Then Run resigns, and campaigns again behind the others.
func TestLeaderThatSteppedDownKeepsTheLeaseUntilItReturns(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		user, other := f.user(), f.user()
		e := election.New(user.Session, "a")
		terms, stops, mayStop := make(chan election.Term, 10), make(chan struct{}, 10), make(chan struct{})
		ctx, cancel := context.WithCancel(f.Context())
		returned := make(chan error, 1)
		go func() {
			returned <- e.Run(ctx, func(ctx context.Context, term election.Term) error {
				terms <- term
				<-ctx.Done()
				stops <- struct{}{}
				<-mayStop
				return nil
			})
		}()
		first := <-terms
		next := candidate(f, election.New(other.Session, "a"))
		user.wire.goSilent()
		<-stops
		user.wire.heal()
		time.Sleep(time.Minute) // four leases
		require.Empty(f, next)
		require.ErrorIs(f, first.Err(), signalbox.ErrLost)
		require.ErrorIs(f, e.Health(f.Context()), signalbox.ErrLost, "its work still runs")
		mayStop <- struct{}{}
		second := <-next
		require.Greater(f, second.Token(), first.Token())
		require.NoError(f, e.Health(f.Context()))
		require.Empty(f, terms)
		require.NoError(f, second.Resign())
		third := <-terms
		require.Greater(f, third.Token(), second.Token())
		cancel()
		close(mayStop)
		require.ErrorIs(f, <-returned, context.Canceled)
	})
}

// P6: after a crash of the leader the first candidate leads when the lease has ended. Observers learn
// within a poll that there is no leader, and then the new one.
func TestNextLeaderComesWithinALeaseOfACrash(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{3 * time.Second, election.DefaultLease, time.Minute} {
		bubbleOfUsers(t, func(f *fixture) {
			option := signalbox.WithRenewedLease(lease)
			crashed, observer := f.user(), f.user()
			term := leads(f, election.New(crashed.Session, "a", option, election.Value("crashed")))
			led := candidate(f, election.New(f.user().Session, "a", option, election.Value("next")))
			seen := observing(f.Context(), election.New(observer.Session, "a"))
			time.Sleep(lease * 10 / 3)
			require.Equal(f, "crashed", (<-seen).Value)
			crashed.wire.goSilent()
			began := time.Now()
			next := <-led
			require.LessOrEqual(f, time.Since(began), lease+1100*time.Millisecond)
			require.Greater(f, next.Token(), term.Token())
			began = time.Now()
			for s := range seen {
				require.NoError(f, s.err)
				if s.Value == "next" {
					require.Equal(f, next.Token(), s.Token)
					require.LessOrEqual(f, s.at.Sub(began), 1100*time.Millisecond)
					break
				}
			}
			require.NoError(f, next.Resign())
			require.Zero(f, (<-seen).Token)
		})
	}
}

// P6: without a candidate in the queue, observers learn within a poll that a crashed leader's lease has
// ended.
func TestObserverLearnsOfACrashWithoutACandidate(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		crashed := f.user()
		leads(f, election.New(crashed.Session, "a", election.Value("x")))
		time.Sleep(100 * time.Millisecond) // its value is written just after Campaign has returned
		seen := observing(f.Context(), election.New(f.user().Session, "a"))
		time.Sleep(time.Minute)
		require.Equal(f, "x", (<-seen).Value)
		crashed.wire.goSilent()
		ends := time.Now().Add(f.left("a"))
		s := <-seen
		require.NoError(f, s.err)
		require.Equal(f, election.Leader{}, s.Leader)
		require.LessOrEqual(f, s.at.Sub(ends), 1100*time.Millisecond)
		time.Sleep(time.Minute)
		require.False(f, f.redis.Exists(valueOf("a")), "the value ends by itself")
	})
}

// P6: observers find each change by a poll if all messages are lost, within a second.
func TestObserverFindsALostMessageByAPoll(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		unsubscribed := f.user()
		seen := observing(f.Context(), election.New(unsubscribed.Session, "a"))
		require.Zero(f, (<-seen).Token)
		unsubscribed.wire.losesMessages.Store(true)
		e := election.New(f.user().Session, "a")
		for i := range 20 {
			term := leads(f, e)
			require.Equal(f, term.Token(), (<-seen).Token)
			time.Sleep(time.Duration(i) * 77 * time.Millisecond)
			began := time.Now()
			require.NoError(f, term.SetValue(f.Context(), fmt.Sprint(i)))
			require.Equal(f, fmt.Sprint(i), (<-seen).Value)
			require.LessOrEqual(f, time.Since(began), 1100*time.Millisecond)
			began = time.Now()
			require.NoError(f, term.Resign())
			require.Zero(f, (<-seen).Token)
			require.LessOrEqual(f, time.Since(began), 1100*time.Millisecond)
		}
	})
}

// P10: an observer whose server is silent says so after 15 s, and continues when the server is back.
func TestObserverSaysThatTheServerIsSilent(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		term := leads(f, election.New(f.user().Session, "a", election.Value("x")))
		time.Sleep(100 * time.Millisecond) // its value is written just after Campaign has returned
		user := f.user()
		ctx, cancel := context.WithCancel(f.Context())
		seen := observing(ctx, election.New(user.Session, "a"))
		require.Equal(f, term.Token(), (<-seen).Token)
		for range 3 {
			time.Sleep(10 * time.Second)
			began := time.Now()
			user.wire.goSilent()
			s := <-seen
			require.ErrorIs(f, s.err, signalbox.ErrNoReply)
			require.Equal(f, election.Leader{}, s.Leader)
			require.InDelta(f, 15, s.at.Sub(began).Seconds(), 4)
			time.Sleep(time.Minute)
			require.Empty(f, seen, "once")
			user.wire.heal()
			require.Equal(f, term.Token(), (<-seen).Token)
		}
		cancel()
		require.ErrorIs(f, (<-seen).err, context.Canceled)
		_, more := <-seen
		require.False(f, more)
	})
}
