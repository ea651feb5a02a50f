// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// channel is where the tests announce changes.
const channel = "changes"

// registry is a registry with what it needs of a session.
type registry struct {
	notify.Registry

	timers     *timers.Timers
	dispatcher *notify.Dispatcher
	runner     *wire.Runner
}

// newRegistry returns a registry that is closed when the test ends. No observer may be left then.
func newRegistry(tb testing.TB, client rueidis.Client) *registry {
	tb.Helper()
	return startRegistry(tb, client, false)
}

// newPollingRegistry is newRegistry for a session that receives no messages.
func newPollingRegistry(tb testing.TB, client rueidis.Client) *registry {
	tb.Helper()
	return startRegistry(tb, client, true)
}

func startRegistry(tb testing.TB, client rueidis.Client, polling bool) *registry {
	tb.Helper()
	r := &registry{timers: timers.New(), runner: wire.NewRunner(client)}
	r.dispatcher = notify.NewDispatcher(client, r.runner, r.timers, noMonitor{}, polling)
	r.Init(r.timers, r.dispatcher, r.runner)
	tb.Cleanup(func() {
		r.Refuse(errs.ErrClosed)
		r.Close()
		r.dispatcher.Close()
		r.timers.Close()
		require.Zero(tb, r.Len(), "observers that did not leave")
	})
	return r
}

// join adds an observer of a key, which polls at once.
func (r *registry) join(tb testing.TB, key string) *watchedKey {
	tb.Helper()
	w, err := r.tryJoin(key)
	require.NoError(tb, err)
	return w
}

// joinWithoutPoll adds an observer of a key that asks for no poll.
func (r *registry) joinWithoutPoll(tb testing.TB, key string) *watchedKey {
	tb.Helper()
	w, err := r.joinAs(key, false)
	require.NoError(tb, err)
	return w
}

func (r *registry) tryJoin(key string) (*watchedKey, error) { return r.joinAs(key, true) }

func (r *registry) joinAs(key string, poll bool) (*watchedKey, error) {
	return notify.Join(&r.Registry, key, notify.Channel{Name: channel, Types: notify.ShardedChannel}, func() *watchedKey {
		return newWatchedKey(key)
	}, func(*watchedKey) bool { return poll })
}

// locked calls do under the lock of the registry.
func (r *registry) locked(do func()) {
	r.Lock()
	defer r.Unlock()
	do()
}

// nextPoll returns the number of the next poll of a key.
func (r *registry) nextPoll(w *watchedKey) (number uint64) {
	r.locked(func() { number = w.subject.NextPollLocked() })
	return number
}

// watchedKey is a key that the tests observe: it has the value of a leader.
type watchedKey struct {
	subject notify.Subject
	key     string

	// Guarded by the lock of the registry.
	silent        bool // no poll is wanted
	again         bool // the next reply asks for another poll
	pollOnMessage bool

	replies  chan reply
	failures chan notify.Failure
	messages chan string
	closed   chan error
}

// reply is a reply to a poll: the text of the key.
type reply struct {
	poll notify.Poll
	text string
}

func newWatchedKey(key string) *watchedKey {
	const buffer = 100
	return &watchedKey{
		key:     key,
		replies: make(chan reply, buffer), failures: make(chan notify.Failure, buffer),
		messages: make(chan string, buffer), closed: make(chan error, buffer),
	}
}

// Subject implements notify.Watched.
func (w *watchedKey) Subject() *notify.Subject { return &w.subject }

// AppendPoll implements notify.Watched.
func (w *watchedKey) AppendPoll(calls []wire.Call) []wire.Call {
	if w.silent {
		return calls
	}
	return append(calls, wire.Call{Script: proto.ElectionReadScript, Keys: []string{w.key}})
}

// OnReply implements notify.Watched.
func (w *watchedKey) OnReply(p notify.Poll, replies []wire.Outcome) (again bool, err error) {
	switch {
	case len(replies) != 1:
		return false, fmt.Errorf("%d replies to a poll of one call", len(replies))
	case replies[0].Err != nil:
		return false, replies[0].Err
	case replies[0].Reply.Code() == wire.Foreign:
		return false, errs.ErrWrongKind
	}
	again, w.again = w.again, false
	send(w.replies, reply{p, replies[0].Reply.Text(2)})
	return again, nil
}

// OnFailure implements notify.Watched.
func (w *watchedKey) OnFailure(_ notify.Poll, f notify.Failure) {
	send(w.failures, f)
}

// OnMessage implements notify.Watched.
func (w *watchedKey) OnMessage(message string) (poll bool) {
	send(w.messages, message)
	return w.pollOnMessage
}

// OnClose implements notify.Watched.
func (w *watchedKey) OnClose(err error) { send(w.closed, err) }

// until returns the first reply with this text.
func (w *watchedKey) until(tb testing.TB, text string) reply {
	tb.Helper()
	for {
		if r := redistest.Receive(tb, "a reply with "+text, w.replies); r.text == text {
			return r
		}
	}
}

// send drops what no test receives: a Watched must not block.
func send[T any](c chan<- T, value T) {
	select {
	case c <- value:
	default:
	}
}

// put writes the text of a key.
func put(tb testing.TB, server *redistest.Server, key, text string) {
	tb.Helper()
	server.MustDo(tb, "SET", key, "sb1e"+fmt.Sprintf("%041d%016d", 1, 1)+text)
}

// noMonitor ignores whether messages arrive.
type noMonitor struct{}

// MessagesLost implements notify.Monitor.
func (noMonitor) MessagesLost(error) {}

// MessagesBack implements notify.Monitor.
func (noMonitor) MessagesBack() {}

// ServersDiffer implements notify.Monitor.
func (noMonitor) ServersDiffer() {}
