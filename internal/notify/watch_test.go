// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// A Watched that wants no poll gets none until a message asks for one.
func TestWatchedWithoutCallsIsNotPolled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newRegistry(t, server.Client(t, locktest.Steady))
	w, beside := r.join(t, "a"), r.join(t, "b")
	defer w.subject.Leave()
	defer beside.subject.Leave()
	w.until(t, "")
	redistest.Await(t, "the subscription", func() bool { return locktest.Listeners(t, server, channel) == 1 })
	r.locked(func() { w.silent = true })
	number, turns := r.nextPoll(w), r.nextPoll(beside)+2
	redistest.Await(t, "the polls of another name", func() bool { return r.nextPoll(beside) > turns })
	require.Equal(t, number, r.nextPoll(w))
	r.locked(func() { w.silent, w.pollOnMessage = false, true })
	put(t, server, "a", "x")
	server.MustDo(t, "PUBLISH", channel, "")
	require.Equal(t, number, w.until(t, "x").poll.Number)
}

// A poll that is due twice is sent once. Nothing reaches a Watched whose observers have left.
func TestSubjectWithoutObserversIsLeftAlone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newPollingRegistry(t, server.Client(t, locktest.Steady))
	w := r.joinWithoutPoll(t, "a")
	require.Equal(t, 1, r.Prepare(&w.subject, &w.subject))
	number := r.nextPoll(w)
	server.MustDo(t, "CLIENT", "PAUSE", 1_500, "ALL") // the poll fails before that is over
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		r.PollAll(&w.subject)
	}()
	redistest.Await(t, "the poll", func() bool { return r.nextPoll(w) > number })
	w.subject.Leave()
	<-polled
	require.Empty(t, w.replies)
	require.Empty(t, w.failures)
	require.Zero(t, r.Prepare(&w.subject))
	w.subject.Receive("late")
	require.Empty(t, w.messages)
}

// A missing right is final, unless a poll had it before.
func TestMissingRightIsFinalBeforeTheFirstReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rights := func(keys string) {
		server.MustDo(t, "ACL", "SETUSER", "limited", "on", ">secret", "resetkeys", keys, "&*", "+@all")
	}
	rights("~a")
	r := newRegistry(t, locktest.ClientAs(t, server, "limited", "secret"))
	denied := r.join(t, "b")
	defer denied.subject.Leave()
	got := redistest.Receive(t, "a failure", denied.failures)
	require.ErrorIs(t, got.Err, errs.ErrDenied)
	require.True(t, got.Final)

	w := r.join(t, "a")
	defer w.subject.Leave()
	w.until(t, "")
	require.NoError(t, w.subject.Refusal())
	rights("~b")
	got = redistest.Receive(t, "a failure", w.failures)
	require.ErrorIs(t, got.Err, errs.ErrDenied)
	require.False(t, got.Final)
	require.ErrorIs(t, w.subject.Refusal(), errs.ErrDenied)
	rights("~a")
	put(t, server, "a", "x")
	w.until(t, "x")
	require.NoError(t, w.subject.Refusal())
}

func TestRefuseEndsEveryObservationOnce(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, redistest.Start(t).Client(t, locktest.Steady))
	a, b := r.join(t, "a"), r.join(t, "b")
	require.False(t, locktest.IsClosed(r.Refused()))
	r.Refuse(errs.ErrClosed)
	r.Refuse(errs.ErrReleased)
	require.True(t, locktest.IsClosed(r.Refused()))
	for _, w := range []*watchedKey{a, b} {
		require.ErrorIs(t, redistest.Receive(t, "the end", w.closed), errs.ErrClosed)
		require.Empty(t, w.closed)
		w.subject.Leave()
	}
	_, err := r.tryJoin("a")
	require.ErrorIs(t, err, errs.ErrClosed)
	require.NoError(t, r.Context().Err())
	r.Close()
	require.Error(t, r.Context().Err())
}

// Nothing is left of observers that come, leave, and are closed at the same time as messages arrive.
func TestObserversMayComeAndGoAtAnyTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newRegistry(t, server.Client(t, locktest.Steady))
	var observers, publishers sync.WaitGroup
	stop := make(chan struct{})
	publishers.Go(func() {
		for !locktest.IsClosed(stop) {
			server.MustDo(t, "PUBLISH", channel, "")
		}
	})
	for range 16 {
		observers.Go(func() {
			for {
				w, err := r.tryJoin(fmt.Sprint(rand.N(3)))
				if err != nil {
					return
				}
				r.locked(func() { w.pollOnMessage = rand.N(2) == 0 })
				if rand.N(10) == 0 {
					select {
					case <-w.replies:
					case <-r.Refused():
					}
				}
				w.subject.Leave()
			}
		})
	}
	for range redistest.Rounds(3, 30) {
		server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		w := r.join(t, "0")
		redistest.Receive(t, "a reply", w.replies)
		w.subject.Leave()
	}
	r.Refuse(errs.ErrClosed)
	observers.Wait()
	close(stop)
	publishers.Wait()
	require.Zero(t, r.Len())
}

func TestPipelinesHaveAtMost200Calls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ polls, calls int }{{1, 1}, {200, 1}, {201, 1}, {100, 2}, {101, 2}, {67, 3}} {
		polls := make([]int, c.polls)
		for i := range polls {
			polls[i] = c.calls
		}
		sum := 0
		for _, size := range notify.Pipelines(polls...) {
			require.LessOrEqual(t, size, 200)
			require.Zero(t, size%c.calls, "a poll is in one pipeline")
			sum += size
		}
		require.Equal(t, c.polls*c.calls, sum)
	}
	require.Equal(t, []int{200, 200, 1}, notify.Pipelines(append(slices.Repeat([]int{2}, 200), 1)...))
	require.Equal(t, []int{1, 500, 2}, notify.Pipelines(1, 500, 2), "a poll of more calls goes alone")
}

// shown returns what an observer is shown first, or the error that ends its observation.
func shown(t *testing.T, r *registry, l *notify.Latest[string], from uint64) (value string, err error) {
	t.Helper()
	w := r.joinWithoutPoll(t, "shown")
	defer w.subject.Leave()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err = l.Observe(ended, &w.subject, from, func(v string, _ error) bool {
		value = v
		return false
	})
	return value, err
}

// The replies to two polls may come in any order, and one may come after the end.
func TestOnlyALaterPollChangesWhatIsShown(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, redistest.Start(t).Client(t, locktest.Steady))
	l := notify.NewLatest[string](0)
	_, err := shown(t, r, &l, 1)
	require.ErrorIs(t, err, context.Canceled, "nothing is known")

	r.locked(func() {
		l.ShowLocked(notify.Poll{Number: 2}, "second", nil)
		l.ShowLocked(notify.Poll{Number: 1}, "first", nil)
		l.FailLocked(notify.Poll{Number: 1}, notify.Failure{Err: errs.ErrNoReply})
	})
	value, err := shown(t, r, &l, 1)
	require.NoError(t, err)
	require.Equal(t, "second", value)
	_, err = shown(t, r, &l, 3)
	require.ErrorIs(t, err, context.Canceled, "older than the observer")

	r.locked(func() {
		l.CloseLocked(errs.ErrClosed)
		l.ShowLocked(notify.Poll{Number: 3}, "third", nil)
		require.True(t, l.IsFinalLocked())
	})
	_, err = shown(t, r, &l, 1)
	require.ErrorIs(t, err, errs.ErrClosed, "a poll was under way when the session closed")
}

// A confirmed subscription polls, and so does a lost one, also if no poll is due.
func TestSubscriptionPollsWhenItBeginsAndEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all")
	r := newRegistry(t, locktest.ClientAs(t, server, "limited", "secret"))
	w := r.joinWithoutPoll(t, "a")
	defer w.subject.Leave()
	w.until(t, "")
	r.locked(func() { w.silent = true })
	other := r.joinWithoutPoll(t, "b")
	defer other.subject.Leave()
	turns := r.nextPoll(other) + 2
	redistest.Await(t, "polls of another name", func() bool { return r.nextPoll(other) > turns }) // and of this one no more
	r.locked(func() { w.silent = false })
	number := r.nextPoll(w)
	server.MustDo(t, "ACL", "SETUSER", "limited", "resetchannels") // ends the subscription
	redistest.Await(t, "a poll", func() bool { return r.nextPoll(w) > number })
}
