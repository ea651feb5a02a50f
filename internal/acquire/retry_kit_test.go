// SPDX-License-Identifier: Apache-2.0

package acquire_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// lease is longer than any test.
	lease = time.Hour
	// channel is the channel of the contested lock.
	channel = "redisson_rwlock:{a}"
)

// The requests of the tests, whose lock is the read-write lock of Redisson.
var (
	writes = &queue.Request{Life: lease, Args: []string{"w"}, ShareKey: waitroom.ShareKey{Policy: waitroom.Own}}
	reads  = &queue.Request{Life: lease, Args: []string{"r"}, ShareKey: waitroom.ShareKey{Policy: waitroom.Own, Concurrent: true}, Concurrent: true}
)

// retryUser is one session that tries to acquire the lock of the test.
type retryUser struct {
	*acquire.RetryRegistry

	fixture *fixture
	session *session.Session
	keys    *proto.Set
	table   *waitroom.Table
	local   *waitroom.Room // where the goroutines of the session wait
}

// join returns a session at the server or behind the proxy. The test closes it at its end.
func (f *fixture) join(at redistest.Dialer, set ...func(*session.Settings)) *retryUser {
	f.Helper()
	return f.joinAs(at, shared().RWLock.Retry, set...)
}

// shared returns the layout of the tests.
func shared(options ...redisson.Option) *proto.Layout {
	l, _ := session.LayoutHandle(redisson.Layout(options...)).Layout() // the options are valid
	return l
}

// keysOf returns the keys of the lock of the tests.
func keysOf(n proto.Set) proto.Keys {
	return proto.Keys{All: []string{n.Holder}, Channel: channel}
}

// joinAs is join for another kind of lock.
func (f *fixture) joinAs(at redistest.Dialer, kind *proto.Retry, set ...func(*session.Settings)) *retryUser {
	f.Helper()
	s := session.Defaults()
	for _, mod := range set {
		mod(&s)
	}
	tune := signalbox.Tune
	if at == redistest.Dialer(f.server) {
		tune = locktest.Steady // nothing is to happen to it
	}
	u := &retryUser{fixture: f, session: session.New(at.Client(f, tune), s, false)}
	u.RetryRegistry = session.RegistryOf(u.session, "retry", func() *acquire.RetryRegistry {
		return acquire.NewRetryRegistry(u.session, acquire.RetryConfig{Retry: kind, Keys: keysOf, Layout: shared()})
	})
	u.keys = &proto.Set{Holder: "a"}
	u.table = waitroom.NewTable(u.session.Timers)
	u.local = u.table.Use("a")
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = u.session.Close(ctx)
		u.local.Done("a")
		queues, attempts := u.Len()
		require.LessOrEqual(f, queues, 1, "a lock that backs off is kept")
		require.Zero(f, attempts, "attempts that were not released")
	})
	require.NoError(f, u.session.Handshake(context.Background(), "a"))
	return u
}

// outcome is what a wait came to.
type outcome struct {
	attempt queue.Hold
	err     error
}

// waiter is a goroutine that waits. It is a waitroom.TicketSource.
type waiter struct {
	retryUser *retryUser
	request   *queue.Request
	arrived   chan struct{} // closed when it is in the queue of the session, or tries
}

// Admit implements waitroom.TicketSource.
func (w *waiter) Admit(int) error {
	close(w.arrived)
	return w.retryUser.session.Ready()
}

// NewTicket implements waitroom.TicketSource.
func (w *waiter) NewTicket(any) (waitroom.Ticket, error) {
	return w.retryUser.NewTicket(w.retryUser.keys, w.request)
}

// MayShare implements waitroom.TicketSource.
func (*waiter) MayShare(context.Context, hold.Lease) bool { return false }

// acquire returns what was granted, or why nothing was.
func (w *waiter) acquire(ctx context.Context) (queue.Hold, error) {
	call := waitroom.Acquisition{Room: w.retryUser.local, Key: w.request.ShareKey, Source: w}
	defer call.End()
	t, _, err := call.Await(ctx)
	if t == nil {
		return nil, err
	}
	defer func() { call.Deliver(hold.Lease{}, err) }()
	h, _ := t.(queue.Ticket).Granted() //nolint:forcetypeassert // NewTicket makes no other tickets
	if h == nil {
		return nil, err
	}
	w.retryUser.local.HoldBegan(w.request.ShareKey)
	err = nil
	return &holder{h, w.retryUser, w.request.ShareKey}, nil
}

// holder is a hold that the session counts.
type holder struct {
	queue.Hold

	retryUser *retryUser
	key       waitroom.ShareKey
}

// Release implements queue.Hold.
func (h *holder) Release(ctx context.Context, lastUsed wire.Stamp, expiresIn time.Duration) (wasHeld bool, err error) {
	defer h.end()
	return h.Hold.Release(ctx, lastUsed, expiresIn)
}

// Abandon implements queue.Hold.
func (h *holder) Abandon() {
	h.Hold.Abandon()
	h.end()
}

func (h *holder) end() {
	h.retryUser.local.HoldEnded(h.key)
	h.Done()
}

// Swap implements queue.Hold.
func (h *holder) Swap(ctx context.Context, script *scripts.Script, request *queue.Request) (queue.Hold, error) {
	a, err := h.Hold.Swap(ctx, script, request)
	return &holder{a, h.retryUser, h.key}, err
}

// startAcquire acquires on another goroutine, after the goroutines that wait already.
func (u *retryUser) startAcquire(ctx context.Context, request *queue.Request) <-chan outcome {
	returned := make(chan outcome, 1)
	w := &waiter{retryUser: u, request: request, arrived: make(chan struct{})}
	go func() {
		h, err := w.acquire(ctx)
		returned <- outcome{h, err}
	}()
	<-w.arrived
	return returned
}

// acquire takes the lock, which can be had.
func (u *retryUser) acquire(request *queue.Request) queue.Hold {
	u.fixture.Helper()
	return u.fixture.receiveHold(u.startAcquire(u.fixture.Context(), request))
}

// receiveHold returns what was waited for.
func (f *fixture) receiveHold(returned <-chan outcome) queue.Hold {
	f.Helper()
	got := redistest.Receive(f, "the end of a call", returned)
	require.NoError(f, got.err)
	require.NotNil(f, got.attempt)
	return got.attempt
}

// release lets a lock go, which it has.
func (f *fixture) release(a queue.Hold) {
	f.Helper()
	wasHeld, err := a.Release(f.Context(), 0, lease)
	require.NoError(f, err)
	require.True(f, wasHeld)
}

// awaitFree waits until nothing is left at the server.
func (f *fixture) awaitFree() {
	f.Helper()
	redistest.Await(f, "nothing left", func() bool { return f.server.MustDo(f, "DBSIZE") == int64(0) })
}

// awaitListeners waits until so many sessions listen for the lock.
func (f *fixture) awaitListeners(n int64) {
	f.Helper()
	redistest.Await(f, "listeners", func() bool {
		reply, _ := f.server.MustDo(f, "PUBSUB", "NUMSUB", channel).([]any)
		return reply[1] == n
	})
}
