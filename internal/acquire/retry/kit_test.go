// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/acquire/retry"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// patience is how long a test waits for what must happen. It is reached by failing tests only.
	patience = 20 * time.Second
	// lease is longer than any test.
	lease = time.Hour
	// channel is the channel of the contested lock.
	channel = "redisson_rwlock:{a}"
)

// What is wished for: the lock of these tests is the read-write lock of Redisson.
var (
	writes = &queue.Request{Life: lease, Args: []string{"w"}, ShareKey: local.ShareKey{Policy: local.Own}}
	reads  = &queue.Request{Life: lease, Args: []string{"r"}, ShareKey: local.ShareKey{Policy: local.Own, Concurrent: true}, Concurrent: true}
)

// place is a server, and a proxy before it for those whom something is to happen to.
type retriedRequest struct {
	*testing.T

	server *redistest.Server
	proxy  *redistest.Proxy
}

func newPlace(t *testing.T) *retriedRequest {
	t.Helper()
	p := &retriedRequest{T: t, server: redistest.Start(t)}
	p.proxy = redistest.NewProxy(t, p.server.Addr())
	redistest.LoadScripts(t, p.server)
	p.proxy.SetMatch(redistest.Commands("EVALSHA"))
	return p
}

// user is one session that contends for the lock of the test.
type user struct {
	*retry.LockRegistry

	place   *retriedRequest
	session *session.Session
	queue   queue.Requester
	table   *local.Table
	local   *local.Queue // where the goroutines of the session wait
}

// dialer is a server, or a proxy before one.
type dialer interface {
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
}

// join returns a session at the server or behind the proxy. Nothing of it is left when the test ends.
func (p *retriedRequest) join(at dialer, set ...func(*session.Settings)) *user {
	p.Helper()
	return p.joinAs(at, layout.Redisson().RWLock.Retry, set...)
}

// joinAs is join for another kind of lock.
func (p *retriedRequest) joinAs(at dialer, kind *layout.Retry, set ...func(*session.Settings)) *user {
	p.Helper()
	s := session.Defaults()
	for _, mod := range set {
		mod(&s)
	}
	tune := signalbox.Tune
	if at == dialer(p.server) {
		tune = locktest.Steady // nothing is to happen to it
	}
	u := &user{place: p, session: session.New(at.Client(p, tune), s, false)}
	u.LockRegistry = session.RegistryOf(u.session, "contest", func() *retry.LockRegistry {
		return retry.New(u.session, retry.Config{Retry: kind, Layout: layout.Redisson()})
	})
	u.queue = u.Use(&queue.LockKeys{Holder: "a", All: []string{"a"}, Channel: channel})
	u.table = local.NewTable(u.session.Timers)
	u.local = u.table.Use("a")
	p.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = u.session.Close(ctx)
		u.queue.Done()
		u.table.Done(u.local)
		queues, attempts := u.Len()
		require.Zero(p, queues)
		require.Zero(p, attempts, "attempts that nobody gave back")
	})
	require.NoError(p, u.session.Handshake(context.Background(), "a"))
	return u
}

// outcome is what a wait came to.
type tryOutcome struct {
	attempt queue.ServerHold
	err     error
}

// waiter is a goroutine that waits. It is a local.Source and its own local.Ticket.
type waiter struct {
	queue.WaitingRequest

	user    *user
	wish    *queue.Request
	arrived chan struct{} // closed when it is in the queue of the session, or asks
	got     queue.ServerHold
}

// Ready implements local.Source.
func (w *waiter) Admit(int) error {
	close(w.arrived)
	return w.user.session.Ready()
}

// Ticket implements local.Source.
func (w *waiter) NewTicket() (local.Ticket, error) {
	w.WaitingRequest = w.user.queue.Prepare(w.wish, nil)
	return w, nil
}

// Begin implements local.Ticket.
func (w *waiter) BeginHold(_ context.Context, err error) (hold.Lease, error) {
	if a := w.WaitingRequest.Leave(); a != nil {
		w.user.local.HoldBegan(w.wish.ShareKey)
		w.got, err = &holder{a, w.user, w.wish.ShareKey}, nil
	}
	return hold.Lease{}, err
}

// Leave implements local.Ticket.
func (w *waiter) Leave() { require.Fail(w.user.place, "its ticket is its own") }

// holder is a hold that the session counts.
type holder struct {
	queue.ServerHold

	user *user
	like local.ShareKey
}

// Release implements queue.Holder.
func (h *holder) Release(ctx context.Context, used wire.Stamp, lasts time.Duration) (had bool, err error) {
	defer h.user.local.HoldEnded(h.like)
	return h.ServerHold.Release(ctx, used, lasts)
}

// Abandon implements queue.Holder.
func (h *holder) Abandon() {
	h.ServerHold.Abandon()
	h.user.local.HoldEnded(h.like)
}

// Swap implements queue.Holder.
func (h *holder) Swap(ctx context.Context, script *scripts.Script, wish *queue.Request) (queue.ServerHold, error) {
	a, err := h.ServerHold.Swap(ctx, script, wish)
	return &holder{a, h.user, h.like}, err
}

// later waits on another goroutine, behind those that wait already.
func (u *user) later(ctx context.Context, wish *queue.Request) <-chan tryOutcome {
	returned := make(chan tryOutcome, 1)
	w := &waiter{user: u, wish: wish, arrived: make(chan struct{})}
	go func() {
		_, err := u.table.Acquire(ctx, u.local, wish.ShareKey, w)
		returned <- tryOutcome{w.got, err}
	}()
	<-w.arrived
	return returned
}

// must takes the lock, which can be had.
func (u *user) must(wish *queue.Request) queue.ServerHold {
	u.place.Helper()
	return u.place.has(u.later(u.place.Context(), wish))
}

// has returns what was waited for.
func (p *retriedRequest) has(returned <-chan tryOutcome) queue.ServerHold {
	p.Helper()
	got := within(p, returned)
	require.NoError(p, got.err)
	require.NotNil(p, got.attempt)
	return got.attempt
}

// gives lets a lock go, which it has.
func (p *retriedRequest) gives(a queue.ServerHold) {
	p.Helper()
	had, err := a.Release(p.Context(), 0, lease)
	require.NoError(p, err)
	require.True(p, had)
}

// free waits until nothing is left at the server.
func (p *retriedRequest) free() {
	p.Helper()
	p.await("nothing left", func() bool { return p.server.MustDo(p, "DBSIZE") == int64(0) })
}

// heardBy waits until so many sessions listen for the lock.
func (p *retriedRequest) heardBy(n int64) {
	p.Helper()
	p.await("listeners", func() bool {
		reply, _ := p.server.MustDo(p, "PUBSUB", "NUMSUB", channel).([]any)
		return reply[1] == n
	})
}

func (p *retriedRequest) await(what string, done func() bool) {
	p.Helper()
	deadline := time.Now().Add(patience)
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	for !done() {
		if time.Now().After(deadline) {
			p.Fatalf("not within %v: %s", patience, what)
		}
		<-pause.C
	}
}

// within receives what must come.
func within[T any](tb testing.TB, c <-chan T) T {
	tb.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		tb.Fatal("not within", patience)
		panic("unreachable")
	}
}
