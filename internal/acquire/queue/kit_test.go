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
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// patience is how long a test waits for what must happen. It is reached by failing tests only.
	patience = 20 * time.Second
	// lease is longer than any test.
	lease = time.Hour
	// delay is longer than what a test does meanwhile, and shorter than a client tolerates a silent
	// connection.
	delay = 1500 * time.Millisecond
)

// wish is one for a hold that is longer than any test.
var wish = &Request{Life: lease, FloorTTL: "60000", Mode: "f"}

var lockKind = Config{
	Enter: scripts.LockEnter, Poll: scripts.LockPoll, Heartbeat: scripts.LockHeartbeat, Leave: scripts.LockLeave, Requeue: scripts.LockRequeue,
}

// place is a server, and a proxy before it for those whom something is to happen to.
type place struct {
	*testing.T

	server *redistest.Server
	proxy  *redistest.Proxy
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{T: t, server: redistest.Start(t)}
	p.proxy = redistest.NewProxy(t, p.server.Addr())
	redistest.LoadScripts(t, p.server)
	return p
}

// dialer is a server, or a proxy before one.
type dialer = redistest.Dialer

// user is one session that uses the lock of the test.
type user struct {
	*Registry

	place *place
	q     *Queue
}

// join returns a session at the server or behind the proxy. Nothing of it is left when the test ends.
func (p *place) join(at dialer, set func(*session.Settings), client ...func(*rueidis.ClientOption)) *user {
	p.Helper()
	return p.joinAs(at, lockKind, keysOf(p, "a"), set, client...)
}

// joinAs is join for a lock of another kind.
func (p *place) joinAs(at dialer, kind Config, keys *LockKeys, set func(*session.Settings), client ...func(*rueidis.ClientOption)) *user {
	p.Helper()
	settings := session.Defaults()
	if set != nil {
		set(&settings)
	}
	s := session.New(at.Client(p, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		o.PipelineMultiplex = -1
		for _, mod := range client {
			mod(o)
		}
	}), settings, false)
	ls := session.RegistryOf(s, "line", func() *Registry { return New(s, kind) })
	u := &user{Registry: ls, place: p, q: ls.Use(keys)}
	p.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.Close(ctx)
		ls.Done(u.q)
	})
	require.NoError(p, s.Handshake(context.Background(), u.q.keys.Holder))
	return u
}

// plain returns a session of which nothing is special. It tolerates a server that is silent on a busy machine.
func (p *place) plain() *user {
	p.Helper()
	return p.join(p.server, nil, steady)
}

// steady makes a client that tolerates a server that is silent for as long as a test does.
func steady(o *rueidis.ClientOption) { o.ConnWriteTimeout = patience }

// behind returns a session behind the proxy.
func (p *place) behind() *user {
	p.Helper()
	return p.join(p.proxy, nil)
}

func keysOf(tb testing.TB, name string) *LockKeys {
	tb.Helper()
	n, err := names.Make(names.DefaultPrefix, name)
	require.NoError(tb, err)
	return &LockKeys{
		Holder: n.Holder, All: []string{n.Holder, n.QueueKey(), n.HeartbeatsKey()}, Channel: names.Grants(names.DefaultPrefix),
	}
}

// only lets the proxy count the requests that run one of the scripts.
func (p *place) only(these ...*scripts.Script) {
	p.proxy.SetMatch(func(request []string) bool {
		return len(request) > 1 && slices.ContainsFunc(these, func(s *scripts.Script) bool {
			return request[1] == s.SHA1 || request[1] == s.Source
		})
	})
}

// onlyPolls lets the proxy count polls, and the heartbeats that replace them beside a hold that has not changed.
func (p *place) onlyPolls() { p.only(scripts.LockPoll, scripts.LockHeartbeat) }

// takes returns the attempt that has the lock, which must be granted.
func (u *user) takes() *Attempt {
	u.place.Helper()
	return within(u.place, "the lock", u.taking(u.place.T.Context())).mustHave(u.place)
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

// taking acquires the lock on another goroutine.
func (u *user) taking(ctx context.Context) <-chan outcome {
	returned := make(chan outcome, 1)
	go func() {
		a, err := u.q.Take(ctx, wish)
		returned <- outcome{a, err}
	}()
	return returned
}

// waiting is taking, and returns when the server knows of so many waiters.
func (u *user) waiting(ctx context.Context, n int) <-chan outcome {
	u.place.Helper()
	returned := u.taking(ctx)
	await(u.place, "a ticket in the queue", func() bool { return len(u.place.tickets()) == n })
	return returned
}

// waiter returns the attempt of the session that waits, when its enter has its reply.
func (u *user) waiter() (a *Attempt) {
	u.place.Helper()
	await(u.place, "the reply to an enter", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.q.waitState != nil && len(u.q.waiting) > 0 {
			a = u.q.waiting[0]
		}
		return a != nil
	})
	return a
}

// hears waits until grants are heard.
func (u *user) hears() {
	u.place.Helper()
	await(u.place, "a subscription", func() bool {
		return u.session.Dispatch.IsSubscribed(u.q.keys.Channel + u.session.ID())
	})
}

// polls makes the session poll, as it does after a subscription was confirmed, and waits for the reply. The
// proxy counts polls alone. If a poll of the session's own has already acquired the lock, there is nothing to
// poll for.
func (u *user) polls() {
	u.place.Helper()
	before := u.place.proxy.Replies()
	u.mu.Lock()
	e := u.q.listener
	u.mu.Unlock()
	if e == nil {
		return
	}
	e.OnSubscribed()
	await(u.place, "a poll", func() bool { return u.place.proxy.Replies() > before })
}

// gives releases the lock, which must be held. A hold that was granted from the queue lasts for a heartbeat's
// life, which a machine that stalls can exceed.
func (u *user) gives(a *Attempt) {
	u.place.Helper()
	grant := a.Grant()
	had, err := a.Release(u.place.T.Context(), 0, lease)
	require.NoError(u.place, err)
	require.True(u.place, had || clock.Deadline(grant.Sent, grant.Life).Reached(clock.Now()), "it was taken away")
}

// withoutPolls stops the timers of the session: from here on nothing happens by itself.
func (u *user) withoutPolls() { u.session.Timers.Close() }

// tickets returns the tickets in the queue.
func (p *place) tickets() []string {
	p.Helper()
	var holds []string
	list, _ := p.server.MustDo(p, "ZRANGE", keysOf(p, "a").All[1], 0, -1).([]any)
	for _, hold := range list {
		holds = append(holds, fmt.Sprint(hold)[:41])
	}
	return holds
}

// holder returns the hold that has the lock, by the server's account, or "".
func (p *place) holder() string {
	p.Helper()
	value, _ := p.server.MustDo(p, "GET", keysOf(p, "a").Holder).(string)
	if !strings.HasPrefix(value, "sb1l") || strings.HasPrefix(value[20:], "---") {
		return ""
	}
	return value[20:62]
}

// nothingLeft waits until neither the sessions nor the server know of any attempt.
func (p *place) nothingLeft(users ...*user) {
	p.Helper()
	await(p, "the end of everything", func() bool {
		for _, u := range users {
			if _, attempts, ears := u.Len(); attempts > 0 || ears > 0 {
				return false
			}
		}
		return p.holder() == "" && len(p.tickets()) == 0
	})
	for _, key := range p.server.Keys("*") {
		require.NotEqual(p, int64(-1), p.server.MustDo(p, "PTTL", key), "%s has no end", key)
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

// told is the message of a grant to an attempt, which the heartbeat with that number paid for.
func told(attempt, paid string) string { return attempt + "1780000000000000" + paid }

// Take waits in the queue until the caller holds the lock, in one step.
func (q *Queue) Take(ctx context.Context, wish *Request) (*Attempt, error) {
	p := q.Prepare(wish, new(QueuedRequest))
	err := p.Wait(ctx)
	if a := p.Leave(); a != nil {
		return a, nil
	}
	return nil, err
}
