// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// divided is a client whose connection for messages may lead to another server than its calls.
type divided struct {
	rueidis.Client

	messages atomic.Pointer[rueidis.Client]
}

func (d *divided) Dedicate() (rueidis.DedicatedClient, func()) {
	return (*d.messages.Load()).Dedicate()
}

// endCalls ends the connections for calls, and not those for messages.
func endCalls(tb testing.TB, servers ...*redistest.Server) {
	tb.Helper()
	for _, s := range servers {
		s.MustDo(tb, "CLIENT", "KILL", "TYPE", "normal")
	}
}

// questions returns how often a client wanted to know of a server which subscriptions it has.
func questions(server *redistest.Server) int64 { return server.CommandStats()["pubsub|numsub"].Calls }

// P6: messages that come from another server than the calls go to are found, and reported once it is certain.
func TestMessagesFromAnotherServerAreReported(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a client is asked once a second which server it talks to")
	former, server := redistest.Start(t), redistest.Start(t)
	before, after := tuned(t, former), tuned(t, server)
	client := &divided{Client: after}
	client.messages.Store(&before)
	var log syncLog
	d := newDispatcher(t, client, &log)
	a := targetOf(t, "a")
	w := subscribed(t, d, a)
	client.messages.Store(&after)
	endCalls(t, server)
	redistest.Receive(t, "the confirmation by the server of the calls", w.C)
	require.Equal(t, 1, locktest.Listeners(t, server, a.Channel))
	redistest.Await(t, "a report", func() bool { return log.String() == "differ\n" })
}

// P6: one endpoint in front of many shards may ask one shard for the subscriptions of all. That is no other server: it is
// not reported, and does not end the connection for messages again and again.
func TestShardsAreNoOtherServers(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a client is asked once a second which server it talks to")
	all := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	router := redistest.NewRouter(t, redistest.FirstKey, all...)
	client := router.Client(t, func(o *rueidis.ClientOption) {
		o.ConnLifetime = time.Second
		signalbox.Tune(o)
	})
	var log syncLog
	d := newDispatcher(t, client, &log)
	for i, n := 0, 0; n < 4; i++ {
		target := targetOf(t, fmt.Sprint(i))
		if wire.Slot(target.Channel) >= wire.Slots/2 { // the first shard replies, and does not have it
			subscribed(t, d, target)
			n++
		}
	}
	awaitEnds := func(what string, done func() bool) {
		redistest.Await(t, what, func() bool {
			require.NoError(t, client.Do(t.Context(), client.B().Exists().Key("used").Build()).Error())
			return done()
		})
	}
	awaitEnds("the question, and its repetition", func() bool { return questions(all[0]) >= 2 })
	questioned, last, ends := questions(all[0]), uint64(0), 0
	awaitEnds("the ends of more connections without a question", func() bool {
		if now := questions(all[0]); now != questioned { // a reply does not count if a connection ended meanwhile
			questioned, ends = now, 0
		}
		if now := wire.LastEvent(wire.ConnEnded, client); now != last {
			last, ends = now, ends+1
		}
		return ends > 3
	})
	require.Empty(t, log.String())
}
