// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// handlerSpy records what a listener receives.
type handlerSpy struct {
	messages      chan string
	subscriptions chan struct{}
}

func newHandlerSpy() *handlerSpy {
	return &handlerSpy{messages: make(chan string, 1000), subscriptions: make(chan struct{}, 1000)}
}

func (*handlerSpy) OnUnsubscribed() {}

func (s *handlerSpy) OnMessage(message string) { s.messages <- message }

func (s *handlerSpy) OnSubscribed() { s.subscriptions <- struct{}{} }

// receives blocks until the next message arrives, which must be this one.
func (s *handlerSpy) receives(tb testing.TB, message string) {
	tb.Helper()
	require.Equal(tb, message, redistest.Receive(tb, "the message "+message, s.messages))
}

// P6: a listener receives every message of its channel in order, from when it is subscribed to; and beside
// others on the channel, which may come and go.
func TestListenerReceivesTheMessagesOfItsChannel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := newDispatcher(t, steady(t, server), io.Discard)
	require.Equal(t, "PUBLISH", d.PublishCommands(notify.ShardedChannel))
	a := targetOf(t, "a")
	first, second, elsewhere := newHandlerSpy(), newHandlerSpy(), newHandlerSpy()
	l := d.Listen(a.Channel, notify.ShardedChannel, first)
	d.Listen("sb:elsewhere", notify.PlainChannel, elsewhere)
	redistest.Receive(t, "the subscription", l.Subscribed())
	redistest.Receive(t, "the call of OnSubscribed", first.subscriptions)
	redistest.Receive(t, "the word of the other", elsewhere.subscriptions)
	w := subscribed(t, d, a)
	other := d.Listen(a.Channel, notify.ShardedChannel, second)
	require.True(t, locktest.IsClosed(other.Subscribed()))
	redistest.Receive(t, "the word to who came late", second.subscriptions)
	for i := range 100 {
		server.MustDo(t, "PUBLISH", a.Channel, fmt.Sprint(i))
	}
	for i := range 100 {
		first.receives(t, fmt.Sprint(i))
		second.receives(t, fmt.Sprint(i))
	}
	redistest.Receive(t, "the wake-up of who waits beside them", w.C)

	other.Close()
	other.Close() // twice is fine
	server.MustDo(t, "PUBLISH", a.Channel, "last")
	first.receives(t, "last")
	server.MustDo(t, "PUBLISH", "sb:elsewhere", "for the other")
	elsewhere.receives(t, "for the other")
	require.Empty(t, second.messages)
	require.Empty(t, first.subscriptions)
	require.Equal(t, int64(2), server.CommandStats()["subscribe"].Calls, "one a channel")
}

// P7: a subscription that is closed while it opens is closed, whichever of the two comes first.
func TestSubscriptionThatIsClosedBeforeItOpensEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := newDispatcher(t, steady(t, server), io.Discard)
	var s notify.Subscription
	s.Close()
	closed, open := newHandlerSpy(), newHandlerSpy()
	s.Open(d, "sb:a", notify.ShardedChannel, closed)
	redistest.Receive(t, "the subscription of another one", d.Listen("sb:b", notify.ShardedChannel, open).Subscribed())
	server.MustDo(t, "PUBLISH", "sb:a", "1")
	server.MustDo(t, "PUBLISH", "sb:b", "2")
	open.receives(t, "2")
	require.Empty(t, closed.messages)
}

// P6: in a cluster a listener of a lock receives from its slot's node, and one of a plain channel every node, over
// the existing connections. Both follow when their node dies.
func TestCluster_ListenersReceiveOnLocksAndPlainChannels(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a replica takes over when its primary has been silent for a while")
	c := redistest.StartCluster(t)
	d := newDispatcher(t, tuned(t, c), io.Discard)
	a := targetOf(t, "a")
	lock, everywhere := newHandlerSpy(), newHandlerSpy()
	l := d.Listen(a.Channel, notify.ShardedChannel, lock)
	redistest.Receive(t, "the lock's subscription", l.Subscribed())
	redistest.Receive(t, "the plain channel's subscription", d.Listen("sb:plain", notify.PlainChannel, everywhere).Subscribed())
	awaitRunning(t, d, 1) // one connection for both
	redistest.Receive(t, "the call of OnSubscribed", lock.subscriptions)
	redistest.Receive(t, "the call of OnSubscribed", everywhere.subscriptions)
	publish := func() {
		t.Helper()
		c.Owner(t, c.Slot(t, a.Channel)).MustDo(t, "SPUBLISH", a.Channel, "grant")
		lock.receives(t, "grant")
		for i, node := range c.Servers() {
			if _, err := node.Do("PUBLISH", "sb:plain", fmt.Sprint(i)); err == nil {
				everywhere.receives(t, fmt.Sprint(i))
			}
		}
	}
	publish()

	// The two types of a name are two channels. On one connection the listeners of both receive what either gets.
	onPlain := newHandlerSpy()
	beside := d.Listen(a.Channel, notify.PlainChannel, onPlain)
	redistest.Receive(t, "the plain channel of the lock's name", beside.Subscribed())
	publish()
	onPlain.receives(t, "grant")
	beside.Close()

	old := c.Owner(t, c.Slot(t, a.Channel))
	old.Kill()
	redistest.Receive(t, "the plain channel at another node", everywhere.subscriptions)
	c.AwaitFailover(t, c.Slot(t, a.Channel), old)
	redistest.Receive(t, "the lock's channel at the promoted replica", lock.subscriptions)
	publish()
}
