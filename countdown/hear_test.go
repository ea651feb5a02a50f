// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6: where the message is lost the waiter finds out by a look, and does not wait for ever.
func TestALostMessageIsFoundByALook(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(l *countdown.Latch, r countdown.Round) error{
		"Open": func(_ *countdown.Latch, r countdown.Round) error {
			_, err := r.CountDown(context.Background(), "x")
			return err
		},
		"Reset": func(l *countdown.Latch, _ countdown.Round) error { return l.Reset(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			s := newSession(t, proxy)
			l := countdown.New(newSession(t, server), "a")
			r := mustStart(t, l, 1)
			waiting := listening(t, s, countdown.New(s, "a").RoundOf(r.ID()), "a")
			proxy.DropPushes(true)
			require.NoError(t, how(l, r))
			err := within(t, "a look", waiting)
			require.Equal(t, name == "Reset", errors.Is(err, signalbox.ErrReset))
			require.Equal(t, name == "Open", err == nil)
			await(t, "a lost message", func() bool { return proxy.DroppedPushes() > 0 })
		})
	}
}

// P6: waiters that cannot hear look: with WithPolling, and where subscribing or publishing is denied.
func TestWaitersThatCannotHearLook(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		denied  string
		options []signalbox.SessionOption
	}{
		"Polling":     {"+@all", []signalbox.SessionOption{signalbox.WithPolling()}},
		"NoSubscribe": {"-subscribe", nil}, "NoPublish": {"-publish", nil}, "NoChannel": {"resetchannels", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			server.MustDo(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", c.denied)
			s := newSession(t, dialerOf(func(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
				tb.Helper()
				return server.Client(tb, func(o *rueidis.ClientOption) {
					mod(o)
					o.Username, o.Password = "limited", "secret"
				})
			}), c.options...)
			r := mustStart(t, countdown.New(s, "a"), 2)
			waiting := waitLater(soon(t), r)
			mustCount(t, r, 1, "x")
			mustCount(t, r, 0, "y")
			require.NoError(t, within(t, "a look", waiting))
		})
	}
}

// P6: a subscription that is killed is renewed, and what was missed meanwhile is looked for.
func TestAKilledSubscriptionLosesNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	l := countdown.New(s, "a")
	for i := range 4 { // it is left alone for longer each time
		r := mustStart(t, l, 1)
		waiting := listening(t, s, r, "a")
		server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		mustCount(t, r, 0, fmt.Sprint(i))
		require.NoError(t, within(t, "the opening", waiting))
	}
}

// P6: whenever the opening falls, on its way to the subscription or after, nobody waits for ever.
func TestNoInstantOfTheOpeningLosesAWaiter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	starter := countdown.New(newSession(t, server), "a")
	for i := range 40 {
		s := newSession(t, server)
		r := mustStart(t, starter, 1)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := countdown.New(s, "a").RoundOf(r.ID()).Wait(soon(t)); err != nil {
					t.Error(err)
				}
			})
		}
		pause := time.NewTimer(time.Duration(i) * 100 * time.Microsecond)
		<-pause.C
		mustCount(t, r, 0, "x")
		all.Wait()
		require.NoError(t, s.Close(t.Context()))
	}
}

// P6: a message opens nothing by itself: it must have what only who can read the key knows.
func TestAForgedMessageOpensNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 1)
	waiting := listening(t, s, r, "a")
	looks := func() int64 { return server.CommandStats()["evalsha"].Calls }
	before := looks()
	await(t, "a look", func() bool { return looks() > before })
	for _, forged := range []string{
		fmt.Sprint(r.ID(), "o", "AAAAAAAAAAA"), fmt.Sprint(r.ID(), "x", "AAAAAAAAAAA"), fmt.Sprint(r.ID(), "o"), "", "x",
	} {
		require.EqualValues(t, 1, server.MustDo(t, "PUBLISH", latchKey("a")+":ended", forged))
	}
	before = looks()
	await(t, "a look after it", func() bool { return looks() > before })
	require.True(t, isSilent(waiting))
	mustCount(t, r, 0, "x")
	require.NoError(t, within(t, "the opening", waiting))
}

// An answer that is older than a round says nothing of it: who waits for it is not told that it is lost.
func TestAnOldAnswerSaysNothingOfANewRound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	wiretest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newSession(t, proxy)
	l, calm := countdown.New(s, "a"), countdown.New(newSession(t, server), "a")
	first := mustStart(t, calm, 1)
	early := listening(t, s, l.RoundOf(first.ID()), "a")
	proxy.DropPushes(true)
	runs(proxy, scripts.CountdownLook)
	armed := proxy.Arm(redistest.Fault{Kind: redistest.DelayReply, Delay: 300 * time.Millisecond})
	within(t, "a look whose answer is on its way", armed.Fired())
	mustCount(t, first, 0, "x")
	second := mustStart(t, calm, 1)
	late := waitLater(soon(t), l.RoundOf(second.ID()))
	require.NoError(t, within(t, "the first round", early))
	mustCount(t, second, 0, "x")
	require.NoError(t, within(t, "the second round", late))
}

// A session that listens is told by one message, without a look.
func TestAMessageOpensWithoutALook(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	wiretest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newSession(t, dialerOf(func(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
		tb.Helper()
		return proxy.Client(tb, func(o *rueidis.ClientOption) {
			mod(o)
			o.ConnWriteTimeout = patience // so that no look is sent again on another connection
		})
	}))
	starter := countdown.New(newSession(t, server), "a")
	r := mustStart(t, starter, 1)
	runs(proxy, scripts.CountdownLook)
	waiting := listening(t, s, countdown.New(s, "a").RoundOf(r.ID()), "a")
	await(t, "its looks", func() bool { return proxy.Replies() >= 2 })
	within(t, "a look that is lost", proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest}).Fired())
	await(t, "the answers to all but that", func() bool { return proxy.Replies() == proxy.Requests()-1 })
	before := proxy.Replies()
	mustCount(t, r, 0, "x")
	require.NoError(t, within(t, "the message", waiting))
	require.Equal(t, before, proxy.Replies())
	proxy.CutAll() // or closing the client would wait for an answer
}
