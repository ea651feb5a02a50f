// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// runsElection lets a session lead by Run, whose function needs a while to stop, and returns the causes with which its terms ended.
func (f *fixture) runsElection(s *signalbox.Session, stops time.Duration) <-chan error {
	causes := make(chan error, 10)
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = election.New(s, "a").Run(ctx, func(ctx context.Context, _ election.Term) error {
			<-ctx.Done()
			time.Sleep(stops)
			causes <- context.Cause(ctx)
			return nil
		})
	}()
	f.ends = append(f.ends, func() {
		cancel()
		<-done
	})
	time.Sleep(time.Second)
	return causes
}

// P1, P6: a leader that is asked hands over when its work has stopped, to the first candidate or to the one that is named; its term ends with
// a cause of its own, and Run campaigns again.
func TestLeaderHandsOverWhenItIsAsked(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(4, time.Millisecond)
		a, b, c, operator := users[0].Session, users[1].Session, users[2].Session, users[3].Session
		e := election.New(operator, "a")
		_, err := e.Handover(f.Context(), "")
		require.ErrorIs(f, err, signalbox.ErrNotHeld)
		causes := f.runsElection(a, 300*time.Millisecond)
		_, err = e.Handover(f.Context(), "")
		require.ErrorIs(f, err, election.ErrNoCandidate)
		f.runsElection(b, 300*time.Millisecond)
		f.runsElection(c, 300*time.Millisecond)
		for _, next := range []struct{ named, leads string }{{"", b.ID()}, {a.ID(), a.ID()}, {"", c.ID()}, {"", b.ID()}, {c.ID(), c.ID()}, {a.ID(), a.ID()}} {
			before, err := e.Leader(f.Context())
			require.NoError(f, err)
			began := time.Now()
			l, err := e.Handover(f.Context(), next.named)
			require.NoError(f, err)
			require.Equal(f, next.leads, l.Session)
			require.Greater(f, l.Token, before.Token)
			require.InDelta(f, 300*time.Millisecond, time.Since(began), float64(250*time.Millisecond))
			time.Sleep(2 * time.Second) // the leader before campaigns again
		}
		require.ErrorIs(f, <-causes, election.ErrHandover)
		_, err = e.Handover(f.Context(), operator.ID())
		require.ErrorIs(f, err, election.ErrNoCandidate)
		l, err := e.Leader(f.Context())
		require.NoError(f, err)
		require.Equal(f, a.ID(), l.Session)
	})
}

// P6: a request whose messages are lost, or whose leader polls, is heard; it is bound to the term and forgotten soon; a forged message is a question.
func TestHandoverDoesNotDependOnAMessage(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(3, time.Millisecond)
		a, b := users[0], users[1]
		e := election.New(users[2].Session, "a")
		term := leads(f, election.New(a.Session, "a"))
		candidate(f, election.New(b.Session, "a"))
		time.Sleep(time.Second)
		value, err := f.redis.Get("sb:{a}:lock")
		require.NoError(f, err)
		forge := func() {
			f.redis.Publish("sb:session:"+a.ID(), "recall:"+value[20+22:20+41])
			time.Sleep(100 * time.Millisecond)
		}
		forge() // the server learns the script
		questions := f.counts(proto.ElectionRequestedScript)
		forge()
		require.EqualValues(f, 1, questions.Load())
		require.NoError(f, term.Err())

		a.losesMessages.Store(true)
		ctx, cancel := context.WithTimeout(f.Context(), 1500*time.Millisecond)
		defer cancel()
		_, err = e.Handover(ctx, "")
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.NoError(f, term.Err(), "it has heard nothing")
		a.losesMessages.Store(false)
		time.Sleep(6 * time.Second)
		forge()
		require.NoError(f, term.Err(), "the request is forgotten")
		ctx, cancel = context.WithTimeout(f.Context(), 5*time.Second)
		defer cancel()
		_, err = e.Handover(ctx, "")
		require.ErrorIs(f, err, context.DeadlineExceeded, "the leader does not resign")
		require.ErrorIs(f, term.Err(), election.ErrHandover)
		require.ErrorIs(f, term.SetValue(f.Context(), "x"), election.ErrHandover)
		require.NoError(f, term.Resign())
	})
	bubbleOfUsers(t, func(f *fixture) {
		polling := f.user(signalbox.WithPolling()).Session
		f.runsElection(polling, 0)
		f.handsOverWithinALease()
	})
	bubbleOfUsers(t, func(f *fixture) {
		f.refusesSubscriptions()
		f.runsElection(f.user().Session, 0)
		f.handsOverWithinALease()
	})
}

// handsOverWithinALease asks a leader that gets no messages to hand over to a candidate.
func (f *fixture) handsOverWithinALease() {
	f.Helper()
	candidate(f, election.New(f.user().Session, "a"))
	began := time.Now()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	_, err := election.New(f.user().Session, "a").Handover(ctx, "")
	require.NoError(f, err)
	require.Less(f, time.Since(began), election.DefaultLease+time.Second)
}

// P6: a request that a leader has not heard of, and whose caller gave up, is forgotten also if the server's clock is set back.
func TestARequestIsForgottenAfterAClockStep(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(3, time.Millisecond)
		a := users[0]
		term := leads(f, election.New(a.Session, "a"))
		candidate(f, election.New(users[1].Session, "a"))
		ahead := f.skewed()
		time.Sleep(time.Second)
		value, err := f.redis.Get("sb:{a}:lock")
		require.NoError(f, err)
		a.losesMessages.Store(true)
		ctx, cancel := context.WithTimeout(f.Context(), 1500*time.Millisecond)
		defer cancel()
		_, err = election.New(users[2].Session, "a").Handover(ctx, "")
		require.ErrorIs(f, err, context.DeadlineExceeded)
		f.stepsClock(ahead, -2*time.Hour)
		a.losesMessages.Store(false)
		time.Sleep(time.Minute)
		f.redis.Publish("sb:session:"+a.ID(), "recall:"+value[20+22:20+41]) // makes the leader ask
		time.Sleep(100 * time.Millisecond)
		require.NoError(f, term.Err(), "the caller gave up a minute ago")
		require.NoError(f, term.Resign())
	})
}

// P2: a leader that stops because it was asked is healthy while its hold lasts, and one that has lost its hold meanwhile is not.
func TestALeaderThatHandsOverIsHealthy(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(3, time.Millisecond)
		e := election.New(users[0].Session, "a")
		term := leads(f, e)
		candidate(f, election.New(users[1].Session, "a"))
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		_, err := election.New(users[2].Session, "a").Handover(ctx, "")
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.ErrorIs(f, term.Err(), election.ErrHandover)
		require.NoError(f, e.Health(f.Context()), "it stops in order")
		require.NoError(f, fair.New(users[2].Session, "a").ForceUnlock(f.Context()))
		time.Sleep(100 * time.Millisecond)
		require.ErrorIs(f, e.Health(f.Context()), signalbox.ErrLost, "another leads, and its work still runs")
		require.Error(f, term.Resign())
		require.NoError(f, e.Health(f.Context()))
	})
}

// P6: a leader that is asked hands over to another session, also if further candidates of its own session wait before that.
func TestALeaderHandsOverToAnotherSession(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(3, time.Millisecond)
		a, b, operator := users[0].Session, users[1].Session, users[2].Session
		f.runsElection(a, 0)
		f.runsElection(a, 0)
		f.runsElection(b, 0)
		e := election.New(operator, "a")
		for _, leads := range []string{b.ID(), a.ID(), b.ID()} {
			l, err := e.Handover(f.Context(), "")
			require.NoError(f, err)
			require.Equal(f, leads, l.Session)
			time.Sleep(2 * time.Second) // the leader before campaigns again
		}
	})
}

// P6: who asks the holder of a reentrant lock, which hears of no request, learns that; who asks that of a fair lock waits. No waiter of the
// lock is overtaken.
func TestALockHandsNothingOver(t *testing.T) {
	t.Parallel()
	unordered := func(options ...signalbox.LockOption) func(s *signalbox.Session) locktest.Lock {
		return func(s *signalbox.Session) locktest.Lock { return reentrant.New(s, "a", options...) }
	}
	ordered := func(s *signalbox.Session) locktest.Lock { return fair.New(s, "a") }
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(4, time.Millisecond)
		for _, c := range []struct {
			held, waited func(s *signalbox.Session) locktest.Lock
			is           error
		}{
			{unordered(), unordered(), signalbox.ErrWrongKind},
			{unordered(signalbox.WithWanted()), unordered(), signalbox.ErrWrongKind},
			{unordered(signalbox.WithKeepWarm(time.Minute)), unordered(), signalbox.ErrWrongKind},
			{ordered, ordered, context.DeadlineExceeded},
		} {
			lease := atOnce(f.T, c.held(users[0].Session))
			first := queued(f.Context(), c.waited(users[1].Session))
			time.Sleep(100 * time.Millisecond)
			second := queued(f.Context(), c.waited(users[2].Session))
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(f.Context(), 5*time.Second)
			defer cancel()
			_, err := election.New(users[3].Session, "a").Handover(ctx, users[2].Session.ID())
			require.ErrorIs(f, err, c.is)
			require.NoError(f, lease.Unlock())
			time.Sleep(time.Second)
			require.Empty(f, second, "it was overtaken")
			require.NoError(f, (<-first).lease.Unlock())
			require.NoError(f, (<-second).lease.Unlock())
		}
	})
}

// P6: a leader whose value was lost is asked when it is written again.
func TestALeaderWhoseValueWasLostHandsOver(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(3, time.Millisecond)
		f.runsElection(users[0].Session, 0)
		f.runsElection(users[1].Session, 0)
		f.redis.Del("sb:{a}:leader")
		ctx, cancel := context.WithTimeout(f.Context(), election.DefaultLease+time.Second)
		defer cancel()
		l, err := election.New(users[2].Session, "a").Handover(ctx, "")
		require.NoError(f, err)
		require.Equal(f, users[1].Session.ID(), l.Session)
	})
}

// P5: a request that the server executes long after its caller gave up asks no leader.
func TestALateRequestAsksNoLeader(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(3, time.Millisecond)
		term := leads(f, election.New(users[0].Session, "a"))
		candidate(f, election.New(users[1].Session, "a"))
		time.Sleep(time.Second)
		operator := users[2]
		_, err := election.New(operator.Session, "a").Handover(f.Context(), operator.Session.ID())
		require.ErrorIs(f, err, election.ErrNoCandidate)
		late := make(chan []string, 100)
		f.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
			if command != "EVALSHA" || args[0] != proto.ElectionMoveScript.SHA1 {
				return false
			}
			late <- append([]string{command}, args...)
			c.Close()
			return true
		})
		ctx, cancel := context.WithTimeout(f.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = election.New(operator.Session, "a").Handover(ctx, "")
		require.ErrorIs(f, err, context.DeadlineExceeded)
		time.Sleep(10 * time.Second)
		f.redis.Server().SetPreHook(nil)
		require.Contains(f, run(f.redis.Server(), <-late), ":-1")
		time.Sleep(time.Second)
		require.NoError(f, term.Err())
	})
}
