// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/scripts"
)

// The latch in the layout of Redisson, tested by Go alone. test/interop has the Java client on the other
// side.

// sharedChannel is the channel of the latch "a".
const sharedChannel = "redisson_countdownlatch__channel__{a}"

// shared returns the latch "a" of a session of its own.
func shared(t *testing.T, at redistest.Dialer, options ...signalbox.SessionOption) *countdown.Latch {
	t.Helper()
	return countdown.New(newSession(t, at, options...), "a", signalbox.WithLayout(redisson.Layout()))
}

// subscribe returns the messages that are published about the latch "a" from now on.
func subscribe(t *testing.T, server *redistest.Server) <-chan string {
	t.Helper()
	client, release := server.Client(t, nil).Dedicate()
	t.Cleanup(release)
	messages := make(chan string, 1024)
	client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { messages <- m.Message }})
	require.NoError(t, client.Do(t.Context(), client.B().Subscribe().Channel(sharedChannel).Build()).Error())
	return messages
}

// awaitFence returns when a poll has found the latch "a" running and published that, after all earlier
// messages.
func awaitFence(t *testing.T, messages <-chan string) {
	t.Helper()
	redistest.Await(t, "a fence", func() bool {
		select {
		case message := <-messages:
			n, err := strconv.ParseInt(message, 10, 64)
			require.NoError(t, err, "Redisson reads numbers alone")
			return n > 1
		default:
			return false
		}
	})
}

// One key, without an end, that is there until the latch opens.
func TestASharedLatchIsANumber(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l, other := shared(t, server), shared(t, server)
	r := mustStart(t, l, 2)
	require.Equal(t, "2", server.MustDo(t, "GET", "a"))
	require.Equal(t, []any{"a"}, server.MustDo(t, "KEYS", "*"))
	require.Equal(t, int64(-1), server.MustDo(t, "PTTL", "a"))
	_, err := other.Start(t.Context(), 2)
	require.ErrorIs(t, err, signalbox.ErrRunning)
	joined, err := other.Round(t.Context())
	require.NoError(t, err)
	require.Equal(t, r.ID(), joined.ID())
	mustCount(t, joined, 1, "x")
	left, err := r.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, left)
	mustCount(t, r, 0, "x")
	require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"))
	_, err = r.CountDown(t.Context(), "y")
	require.ErrorIs(t, err, signalbox.ErrRoundOver)
	require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"), "a count too many leaves nothing")
	left, err = r.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, left)
	require.NoError(t, r.Wait(t.Context()))
	joined, err = other.Round(t.Context())
	require.NoError(t, err)
	require.NoError(t, joined.Wait(t.Context()), "what is not there is open")
	require.NotZero(t, mustStart(t, l, 1).ID())
}

// P6: one message wakes all, in whatever session.
func TestASharedLatchIsOpenedByAMessage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l, messages := shared(t, server), subscribe(t, server)
	r := mustStart(t, l, 1)
	var waiting []<-chan error
	for range 2 {
		other, err := shared(t, server).Round(t.Context())
		require.NoError(t, err)
		for range 3 {
			waiting = append(waiting, waitLater(locktest.Context(t), other))
		}
	}
	awaitFence(t, messages)
	for _, returned := range waiting {
		require.Empty(t, returned)
	}
	mustCount(t, r, 0, "x")
	for _, returned := range waiting {
		require.NoError(t, redistest.Receive(t, "the end of the wait", returned))
	}
}

// P6: a waiter that receives the message that the round has opened continues, though the next one was started in the same
// instant.
func TestASharedRoundThatIsFollowedAtOnceIsOver(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	messages := subscribe(t, server)
	l := shared(t, server)
	returned := waitLater(locktest.Context(t), mustStart(t, l, 2))
	awaitFence(t, messages)
	server.MustDo(t, "EVAL", `
		redis.call('DEL', KEYS[1])
		redis.call('PUBLISH', ARGV[1], '0')
		redis.call('SET', KEYS[1], '2')
		redis.call('PUBLISH', ARGV[1], '1')`, "1", "a", sharedChannel)
	require.NoError(t, redistest.Receive(t, "the end of the wait", returned))
	left, err := l.RoundOf(1).Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, left)
}

// A round never opens early: a message before the poll that found it running may be about the end of the
// round before. Here no poll can publish that, since the session may not publish.
func TestASharedRoundIsNotOpenedByTheEndOfTheLast(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := mustStart(t, shared(t, as(t, server, server, "-publish")), 1)
	returned := waitLater(locktest.Context(t), r)
	redistest.Await(t, "a subscription", func() bool {
		reply, _ := server.MustDo(t, "PUBSUB", "NUMSUB", sharedChannel).([]any)
		return reply[1] == int64(1)
	})
	polls := func() int64 { return server.CommandStats()["get"].Calls }
	before := polls()
	server.MustDo(t, "PUBLISH", sharedChannel, "0")
	redistest.Await(t, "two polls behind it", func() bool {
		server.MustDo(t, "PUBLISH", sharedChannel, "1") // as of a start: a reason to poll at once
		return polls() > before+1
	})
	require.Empty(t, returned)
	mustCount(t, r, 0, "x")
	server.MustDo(t, "PUBLISH", sharedChannel, "1")
	require.NoError(t, redistest.Receive(t, "a poll", returned))
}

// The same if other waiters of the session have waited for the round before, and the message of its end is
// late: it is theirs alone. The session may not publish, so that the test controls the fences.
func TestALateEndOfASharedRoundIsThatOfItsWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetMatch(locktest.RunsScript(scripts.Load("redisson/latch-read", 1)))
	var passes, passed, known, polled atomic.Bool
	passes.Store(true)
	proxy.OnRequest(func(_ int, request []string) {
		fence := request[len(request)-3]
		if fence == "" {
			known.Store(passed.Load())
			return
		}
		if passes.Load() {
			if _, err := server.Do("PUBLISH", sharedChannel, fence); err != nil {
				t.Error(err)
			}
			passed.Store(true)
		} else {
			polled.Store(true) // for the late waiter: the other one has received its fence
		}
	})
	r := mustStart(t, shared(t, as(t, server, proxy, "-publish")), 2)
	early := waitLater(locktest.Context(t), r)
	redistest.Await(t, "a poll that needs no fence", func() bool {
		server.MustDo(t, "PUBLISH", sharedChannel, "1") // which makes the waiter poll
		return known.Load()
	})
	passes.Store(false)
	server.MustDo(t, "SET", "a", "2") // the round has opened, and the next has begun
	late := waitLater(locktest.Context(t), r)
	redistest.Await(t, "a poll for the late waiter", polled.Load)
	server.MustDo(t, "PUBLISH", sharedChannel, "0")
	passes.Store(true) // from here on, so that no poll of the late waiter can overtake the end
	server.MustDo(t, "PUBLISH", sharedChannel, "1")
	require.NoError(t, redistest.Receive(t, "the end of the round before", early))
	mustCount(t, r, 1, "x")
	require.Empty(t, late)
	mustCount(t, r, 0, "y")
	server.MustDo(t, "PUBLISH", sharedChannel, "1")
	require.NoError(t, redistest.Receive(t, "the end of the wait", late))
}

// P9: channels ignore the number of the database, so the end of a latch of the same name in another one is received here.
func TestTheEndInAnotherDatabaseOpensNoSharedLatch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, err := signalbox.Dial(t.Context(), server.URL()+"/1", signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	require.NoError(t, err)
	defer s.Close(t.Context())
	other := mustStart(t, countdown.New(s, "a"), 1)
	r := mustStart(t, shared(t, server), 1)
	messages := subscribe(t, server)
	waiting := waitLater(locktest.Context(t), shared(t, server).RoundOf(r.ID()))
	awaitFence(t, messages)
	mustCount(t, other, 0, "x")
	for message := ""; message != "0"; { // behind the fence of another poll, perhaps
		message = redistest.Receive(t, "the end elsewhere", messages)
	}
	awaitFence(t, messages) // a waiter whose wait is over polls no more
	require.Empty(t, waiting)
	mustCount(t, r, 0, "x")
	require.NoError(t, redistest.Receive(t, "the end", waiting))
}

// Reset deletes the key, so that the latch counts as open.
func TestASharedLatchIsReset(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := shared(t, server)
	require.NoError(t, l.Reset(t.Context()))
	r := mustStart(t, l, 2)
	messages := subscribe(t, server)
	returned := waitLater(locktest.Context(t), r)
	awaitFence(t, messages)
	require.NoError(t, shared(t, server).Reset(t.Context()))
	require.NoError(t, redistest.Receive(t, "the end of the wait", returned))
	redistest.Await(t, "the message of a reset", func() bool { return redistest.Receive(t, "a message", messages) == "1" }) // behind further fences
	require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"))
	_, err := r.CountDown(t.Context(), "x")
	require.ErrorIs(t, err, signalbox.ErrRoundOver)
}

// The layout is the option's, or the session's; one in each is two latches. A round of it has the ID 1.
func TestALatchHasTheLayoutThatWasAskedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(time.Second)))
	require.Equal(t, uint64(1), mustStart(t, countdown.New(s, "a"), 1).ID())
	native := mustStart(t, countdown.New(s, "a", signalbox.WithLayout(signalbox.Native())), 2)
	require.Greater(t, native.ID(), uint64(1))
	require.Equal(t, "1", server.MustDo(t, "GET", "a"))
	mustCount(t, native, 1, "x")
	_, err := countdown.New(s, "a").RoundOf(native.ID()).CountDown(t.Context(), "x")
	require.ErrorIs(t, err, signalbox.ErrBadOption)
}
