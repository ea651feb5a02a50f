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
func leads(w *fixture, e *election.Election) election.Term {
	w.Helper()
	term, err := e.Campaign(w.Context())
	require.NoError(w, err)
	return term
}

// candidate campaigns on another goroutine, and says when it leads.
func candidate(w *fixture, e *election.Election) <-chan election.Term {
	led := make(chan election.Term, 1)
	go func() {
		term, err := e.Campaign(w.Context())
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
			bubbleOfUsers(t, func(w *fixture) {
				user, other := w.user(), w.user()
				if queued { // its lease is short at first
					first := leads(w, election.New(other.Session, "a"))
					led := candidate(w, election.New(user.Session, "a", c.options...))
					require.NoError(w, first.Resign())
					w.steps(user, <-led, c.lease, c.before, name)
					return
				}
				w.steps(user, leads(w, election.New(user.Session, "a", c.options...)), c.lease, c.before, name)
			})
		}
	}
}

// steps cuts a leader off after a while, and requires that its term ends in time.
func (w *fixture) steps(user queueUser, term election.Term, lease, before time.Duration, name string) {
	w.Helper()
	ctx := term.Bind(w.Context())
	time.Sleep(10*lease + lease/7)
	require.NoError(w, term.Err(), name)
	user.wire.goSilent()
	deadline := term.Deadline()
	<-ctx.Done()
	left := w.left("a")
	require.ErrorIs(w, term.Err(), signalbox.ErrLost, name)
	require.ErrorIs(w, context.Cause(ctx), signalbox.ErrLost, name)
	require.WithinDuration(w, deadline, time.Now(), 2*time.Millisecond, name)
	require.GreaterOrEqual(w, left, before, name)
	require.Less(w, left, before+lease/50+50*time.Millisecond, name)
	require.Zero(w, term.Deadline())
	began := time.Now()
	require.ErrorIs(w, term.Resign(), signalbox.ErrLost)
	require.LessOrEqual(w, time.Since(began), time.Second)
}

// P2: a leader that stepped down keeps the lease until its work has returned, if the server is back before the lease has
// ended. Then Run resigns, and campaigns again behind the others.
func TestLeaderThatSteppedDownKeepsTheLeaseUntilItReturns(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		user, other := w.user(), w.user()
		e := election.New(user.Session, "a")
		terms, stops, mayStop := make(chan election.Term, 10), make(chan struct{}, 10), make(chan struct{})
		ctx, cancel := context.WithCancel(w.Context())
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
		next := candidate(w, election.New(other.Session, "a"))
		user.wire.goSilent()
		<-stops
		user.wire.heal()
		time.Sleep(time.Minute) // four leases
		require.Empty(w, next)
		require.ErrorIs(w, first.Err(), signalbox.ErrLost)
		require.ErrorIs(w, e.Health(w.Context()), signalbox.ErrLost, "its work still runs")
		mayStop <- struct{}{}
		second := <-next
		require.Greater(w, second.Token(), first.Token())
		require.NoError(w, e.Health(w.Context()))
		require.Empty(w, terms)
		require.NoError(w, second.Resign())
		third := <-terms
		require.Greater(w, third.Token(), second.Token())
		cancel()
		close(mayStop)
		require.ErrorIs(w, <-returned, context.Canceled)
	})
}

// P6: after a crash of the leader the first candidate leads when the lease has ended. Observers learn
// within a poll that there is no leader, and then the new one.
func TestNextLeaderComesWithinALeaseOfACrash(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{3 * time.Second, election.DefaultLease, time.Minute} {
		bubbleOfUsers(t, func(w *fixture) {
			option := signalbox.WithRenewedLease(lease)
			crashed, observer := w.user(), w.user()
			term := leads(w, election.New(crashed.Session, "a", option, election.Value("crashed")))
			led := candidate(w, election.New(w.user().Session, "a", option, election.Value("next")))
			seen := observing(w.Context(), election.New(observer.Session, "a"))
			time.Sleep(lease * 10 / 3)
			require.Equal(w, "crashed", (<-seen).Value)
			crashed.wire.goSilent()
			began := time.Now()
			next := <-led
			require.LessOrEqual(w, time.Since(began), lease+1100*time.Millisecond)
			require.Greater(w, next.Token(), term.Token())
			began = time.Now()
			for s := range seen {
				require.NoError(w, s.err)
				if s.Value == "next" {
					require.Equal(w, next.Token(), s.Token)
					require.LessOrEqual(w, s.at.Sub(began), 1100*time.Millisecond)
					break
				}
			}
			require.NoError(w, next.Resign())
			require.Zero(w, (<-seen).Token)
		})
	}
}

// P6: without a candidate in the queue, observers learn within a poll that a crashed leader's lease has
// ended.
func TestObserverLearnsOfACrashWithoutACandidate(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		crashed := w.user()
		leads(w, election.New(crashed.Session, "a", election.Value("x")))
		time.Sleep(100 * time.Millisecond) // its value is written just after Campaign has returned
		seen := observing(w.Context(), election.New(w.user().Session, "a"))
		time.Sleep(time.Minute)
		require.Equal(w, "x", (<-seen).Value)
		crashed.wire.goSilent()
		ends := time.Now().Add(w.left("a"))
		s := <-seen
		require.NoError(w, s.err)
		require.Equal(w, election.Leader{}, s.Leader)
		require.LessOrEqual(w, s.at.Sub(ends), 1100*time.Millisecond)
		time.Sleep(time.Minute)
		require.False(w, w.redis.Exists(valueOf("a")), "the value ends by itself")
	})
}

// P6: observers find each change by a poll if all messages are lost, within a second.
func TestObserverFindsALostMessageByAPoll(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		unsubscribed := w.user()
		seen := observing(w.Context(), election.New(unsubscribed.Session, "a"))
		require.Zero(w, (<-seen).Token)
		unsubscribed.wire.losesMessages.Store(true)
		e := election.New(w.user().Session, "a")
		for i := range 20 {
			term := leads(w, e)
			require.Equal(w, term.Token(), (<-seen).Token)
			time.Sleep(time.Duration(i) * 77 * time.Millisecond)
			began := time.Now()
			require.NoError(w, term.SetValue(w.Context(), fmt.Sprint(i)))
			require.Equal(w, fmt.Sprint(i), (<-seen).Value)
			require.LessOrEqual(w, time.Since(began), 1100*time.Millisecond)
			began = time.Now()
			require.NoError(w, term.Resign())
			require.Zero(w, (<-seen).Token)
			require.LessOrEqual(w, time.Since(began), 1100*time.Millisecond)
		}
	})
}

// P10: an observer whose server is silent says so after 15 s, and continues when the server is back.
func TestObserverSaysThatTheServerIsSilent(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		term := leads(w, election.New(w.user().Session, "a", election.Value("x")))
		time.Sleep(100 * time.Millisecond) // its value is written just after Campaign has returned
		user := w.user()
		ctx, cancel := context.WithCancel(w.Context())
		seen := observing(ctx, election.New(user.Session, "a"))
		require.Equal(w, term.Token(), (<-seen).Token)
		for range 3 {
			time.Sleep(10 * time.Second)
			began := time.Now()
			user.wire.goSilent()
			s := <-seen
			require.ErrorIs(w, s.err, signalbox.ErrNoReply)
			require.Equal(w, election.Leader{}, s.Leader)
			require.InDelta(w, 15, s.at.Sub(began).Seconds(), 4)
			time.Sleep(time.Minute)
			require.Empty(w, seen, "once")
			user.wire.heal()
			require.Equal(w, term.Token(), (<-seen).Token)
		}
		cancel()
		require.ErrorIs(w, (<-seen).err, context.Canceled)
		_, more := <-seen
		require.False(w, more)
	})
}
