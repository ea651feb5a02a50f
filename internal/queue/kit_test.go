// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// patience is how long a test waits for what must happen. It is reached by failing tests only.
	patience = 20 * time.Second
	// lease is longer than any test.
	lease = time.Hour
)

// lockRequest is one for a hold that is longer than any test.
var lockRequest = &Request{Life: lease, FloorTTL: "60000", Mode: "f"}

var lockKind = Protocol{QueueScripts: &proto.QueueScripts{
	Enter: proto.LockEnterScript, Poll: proto.LockPollScript, Heartbeat: proto.LockHeartbeatScript, Leave: proto.LockLeaveScript,
	Free: proto.LockFreeScript, Keep: proto.LockKeepScript, Requeue: proto.LockRequeueScript,
}}

// fixture is a server, and a proxy before it for sessions that are to meet faults.
type fixture struct {
	*testing.T

	server *redistest.Server
	proxy  *redistest.Proxy
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, server: redistest.Start(t)}
	f.proxy = redistest.NewProxy(t, f.server.Addr())
	redistest.LoadScripts(t, f.server)
	return f
}

// dialer is a server, or a proxy before one.
type dialer = redistest.Dialer

// user is one session that uses the lock of the test.
type user struct {
	*Queues

	fixture *fixture
	q       *Queue
}

// join returns a session at the server or behind the proxy. The test closes it at its end.
func (f *fixture) join(at dialer, set func(*session.Settings), client ...func(*rueidis.ClientOption)) *user {
	f.Helper()
	return f.joinAs(at, lockKind, keysOf(f, "a"), set, client...)
}

// joinAs is join for a lock of another kind.
func (f *fixture) joinAs(at dialer, protocol Protocol, keys *proto.Set, set func(*session.Settings), client ...func(*rueidis.ClientOption)) *user {
	f.Helper()
	settings := session.Defaults()
	if set != nil {
		set(&settings)
	}
	s := session.New(at.Client(f, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		o.PipelineMultiplex = -1
		for _, mod := range client {
			mod(o)
		}
	}), settings, false)
	registry := session.RegistryOf(s, "queue", func() *Queues { return New(s, protocol) })
	u := &user{Queues: registry, fixture: f, q: registry.use(keys)}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.Close(ctx)
		registry.done(u.q)
	})
	require.NoError(f, s.Handshake(context.Background(), u.q.keys.Holder))
	return u
}

// direct returns a session at the server. It tolerates a server that is silent on a busy machine.
func (f *fixture) direct() *user {
	f.Helper()
	return f.join(f.server, nil, steady)
}

// steady makes a client that tolerates a server that is silent for as long as a test does.
func steady(o *rueidis.ClientOption) { o.ConnWriteTimeout = patience }

// proxied returns a session behind the proxy.
func (f *fixture) proxied() *user {
	f.Helper()
	return f.join(f.proxy, nil)
}

func keysOf(tb testing.TB, name string) *proto.Set {
	tb.Helper()
	n, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, name)
	require.NoError(tb, err)
	return &n
}

// match lets the proxy count the requests that run one of the scripts.
func (f *fixture) match(these ...*scripts.Script) {
	f.proxy.SetMatch(func(request []string) bool {
		return len(request) > 1 && slices.ContainsFunc(these, func(s *scripts.Script) bool {
			return request[1] == s.SHA1 || request[1] == s.Source
		})
	})
}

// matchPolls lets the proxy count polls, and the heartbeats that replace them beside a hold that has not changed.
func (f *fixture) matchPolls() { f.match(proto.LockPollScript, proto.LockHeartbeatScript) }

// acquire returns the attempt that has the lock, which must be granted.
func (u *user) acquire() *Attempt {
	u.fixture.Helper()
	return within(u.fixture, "the lock", u.startAcquire(u.fixture.T.Context())).mustHave(u.fixture)
}

// outcome is what Take returned.
type outcome struct {
	*Attempt

	err error
}

func (o outcome) mustHave(tb testing.TB) *Attempt {
	tb.Helper()
	require.NoError(tb, o.err)
	return o.Attempt
}

// startAcquire acquires the lock on another goroutine.
func (u *user) startAcquire(ctx context.Context) <-chan outcome {
	return u.startAcquireAs(ctx, lockRequest)
}

func (u *user) startAcquireAs(ctx context.Context, request *Request) <-chan outcome {
	returned := make(chan outcome, 1)
	go func() {
		a, err := u.q.Take(ctx, request)
		returned <- outcome{a, err}
	}()
	return returned
}

// startWaiting is startAcquire, and returns when the server has n tickets.
func (u *user) startWaiting(ctx context.Context, n int) <-chan outcome {
	u.fixture.Helper()
	returned := u.startAcquire(ctx)
	await(u.fixture, "a ticket in the queue", func() bool { return len(u.fixture.tickets()) == n })
	return returned
}

// awaitWaiting returns the attempt of the session that waits, when its enter has its reply.
func (u *user) awaitWaiting() (a *Attempt) {
	u.fixture.Helper()
	await(u.fixture, "the reply to an enter", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.q.waitState != nil && u.q.waiting.len() > 0 {
			a = u.q.waiting.slots[0]
		}
		return a != nil
	})
	return a
}

// awaitSubscription waits until the session is subscribed to its grants.
func (u *user) awaitSubscription() {
	u.fixture.Helper()
	await(u.fixture, "a subscription", func() bool {
		return u.session.Dispatch.IsSubscribed(u.q.channel() + u.session.ID())
	})
}

// forcePoll makes the session poll, as it does after a subscription was confirmed, and waits for the reply. The
// proxy counts polls alone. If a poll of the session's own has already acquired the lock, there is nothing to
// poll for.
func (u *user) forcePoll() {
	u.fixture.Helper()
	before := u.fixture.proxy.Replies()
	u.mu.Lock()
	listener := u.q.listener
	u.mu.Unlock()
	if listener == nil {
		return
	}
	listener.OnSubscribed()
	await(u.fixture, "a poll", func() bool { return u.fixture.proxy.Replies() > before })
}

// release releases the lock, which must be held. A hold that was granted from the queue lasts for a heartbeat's
// life, which a machine that stalls can exceed.
func (u *user) release(a *Attempt) {
	u.fixture.Helper()
	grant := a.Grant()
	wasHeld, err := a.Release(u.fixture.T.Context(), 0, lease)
	require.NoError(u.fixture, err)
	require.True(u.fixture, wasHeld || timers.Deadline(grant.Sent, grant.Life).Reached(timers.Now()), "it was taken away")
}

// stopTimers stops the timers of the session: from here on nothing happens by itself.
func (u *user) stopTimers() { u.session.Timers.Close() }

// tickets returns the tickets in the queue.
func (f *fixture) tickets() []string {
	f.Helper()
	var holds []string
	list, _ := f.server.MustDo(f, "ZRANGE", keysOf(f, "a").AppendKeys(nil)[1], 0, -1).([]any)
	for _, hold := range list {
		holds = append(holds, fmt.Sprint(hold)[:41])
	}
	return holds
}

// holder returns the hold that has the lock, by the server's account, or "".
func (f *fixture) holder() string {
	f.Helper()
	value, _ := f.server.MustDo(f, "GET", keysOf(f, "a").Holder).(string)
	if !strings.HasPrefix(value, "sb1l") || strings.HasPrefix(value[20:], "---") {
		return ""
	}
	return value[20:62]
}

// awaitNothingLeft waits until neither the sessions nor the server know of any attempt.
func (f *fixture) awaitNothingLeft(users ...*user) {
	f.Helper()
	await(f, "the end of everything", func() bool {
		for _, u := range users {
			if _, attempts, listeners := u.Len(); attempts > 0 || listeners > 0 {
				return false
			}
		}
		return f.holder() == "" && len(f.tickets()) == 0
	})
	for _, key := range f.server.Keys("*") {
		require.NotEqual(f, int64(-1), f.server.MustDo(f, "PTTL", key), "%s has no end", key)
	}
}

func await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	redistest.Await(tb, what, done)
}

func within[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	return redistest.Receive(tb, what, c)
}

// grantMessage is the message of a grant to an attempt, which the heartbeat with that number paid for.
func grantMessage(attempt, number string) string { return attempt + "1780000000000000" + number }

// try is tryIn with memory of its own.
func (q *Queue) try(ctx context.Context, request *Request) (*Attempt, error) {
	return q.tryIn(ctx, new(Attempt), request)
}

// Take waits in the queue until the caller holds the lock, in one step.
func (q *Queue) Take(ctx context.Context, request *Request) (*Attempt, error) {
	t := q.newRequest(request)
	err := t.Wait(ctx)
	if a := grantedTo(t); a != nil {
		return a, nil
	}
	return nil, err
}

// newWaitingAttempt returns an attempt that waits in q. Nothing is sent.
func (q *Queue) newWaitingAttempt(request *Request) *Attempt {
	a := new(Attempt)
	a.beginWaiting(q, request)
	return a
}

// newRequest returns a ticket in q. Nothing is sent.
func (q *Queue) newRequest(request *Request) *QueuedTicket {
	t := new(QueuedTicket)
	_ = q.registry.MakeTicket(t, nil, q.keys, request) // a closed session fails the test
	return t
}

// grantedTo ends the ticket, and returns the attempt if it was granted the lock, or nil. It is counted no more.
func grantedTo(t Ticket) *Attempt {
	h, _ := t.Granted()
	if h == nil {
		return nil
	}
	h.Done()
	return attemptOf(h)
}

// attemptOf returns the attempt that is the hold, or nil.
func attemptOf(h Hold) *Attempt {
	a, _ := h.(*Attempt)
	return a
}
