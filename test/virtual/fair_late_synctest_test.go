// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/scripts"
)

// lateRequest is a request of a waiter that gave up and has left the queue: it has not reached the server yet.
type lateRequest struct {
	*fixture

	request atomic.Pointer[[]string]
	client  rueidis.Client
}

// strayEnter lets a session wait for a lock, holds its request back, and returns when the session has given up and left.
func (f *fixture) strayEnter(u queueUser, name string) *lateRequest {
	f.Helper()
	knowsScripts(f, u.Session)
	l := &lateRequest{fixture: f}
	l.client, _ = f.client(f.T)
	f.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if !runs(scripts.LockEnter, command, args) {
			return false
		}
		request := append([]string{command}, args...)
		return l.request.CompareAndSwap(nil, &request) // without a reply
	})
	ctx, cancel := context.WithCancel(f.Context())
	results := make(chan error, 1)
	go func() {
		_, err := fair.New(u.Session, name).Lock(ctx)
		results <- err
	}()
	time.Sleep(10 * time.Millisecond)
	u.cut() // what follows takes another connection
	cancel()
	require.ErrorIs(f, <-results, context.Canceled)
	time.Sleep(100 * time.Millisecond)
	require.NotNil(f, l.request.Load())
	tickets, _ := f.queued(name)
	require.Zero(f, tickets)
	return l
}

// arrives executes the request, and returns the first value of the reply.
func (l *lateRequest) arrives() int64 {
	l.Helper()
	reply, err := l.client.Do(l.Context(), l.client.B().Arbitrary(*l.request.Load()...).Build()).ToArray()
	require.NoError(l, err)
	first, err := reply[0].AsInt64()
	require.NoError(l, err)
	return first
}

// P4: a request that is executed after its waiter has left gets a ticket for three seconds at most, and later it does
// nothing.
func TestLateFairRequestLeavesNoTicket(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
		defer closeAll()
		late := f.strayEnter(users[0], "b")
		defer late.client.Close()
		lease := atOnce(f.T, fair.New(users[1].Session, "b"))
		require.Zero(f, late.arrives(), "in the queue")
		tickets, _ := f.queued("b")
		require.Equal(f, 1, tickets)
		time.Sleep(4 * time.Second)
		tickets, _ = f.queued("b")
		require.Zero(f, tickets)
		require.EqualValues(f, -1, late.arrives(), "too late")
		tickets, _ = f.queued("b")
		require.Zero(f, tickets)
		require.NoError(f, lease.Unlock())
	})
}

// P6: such a request may be granted the lock. The next waiter has it three seconds and a poll later.
func TestFairGrantToATicketOfNoWaiterGoesToTheNext(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 3, time.Millisecond)
		defer closeAll()
		late := f.strayEnter(users[0], "b")
		defer late.client.Close()
		lease := atOnce(f.T, fair.New(users[1].Session, "b"))
		require.Zero(f, late.arrives(), "in the queue")
		waiting := queuedAndListening(f.Context(), fair.New(users[2].Session, "b"))
		released := time.Now()
		require.NoError(f, lease.Unlock())
		require.True(f, f.fairHeld("b"), "granted to a ticket of no waiter")
		time.Sleep(10 * time.Millisecond)
		require.Empty(f, waiting)
		got := <-waiting
		require.NoError(f, got.err)
		require.Less(f, got.at.Sub(released), 4*time.Second)
		require.Greater(f, got.lease.Token(), lease.Token()) // P3
		require.NoError(f, got.lease.Unlock())
		require.EqualValues(f, -1, late.arrives(), "too late")
		require.False(f, f.fairHeld("b"))
	})
}

// Order: a lock whose hold has expired stays free until a waiter polls. A newcomer does not overtake the waiters: it hands
// the lock to the first.
func TestNewcomerAtAFreeFairLockDoesNotOvertake(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]func(ctx context.Context, mu *fair.Lock) (signalbox.Lease, error){ //nolint:paralleltest // as above
		"TryLock": func(ctx context.Context, mu *fair.Lock) (signalbox.Lease, error) { return mu.TryLock(ctx) },
		"Lock":    func(ctx context.Context, mu *fair.Lock) (signalbox.Lease, error) { return mu.Lock(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				users, closeAll := f.queueUsers(f.T, 3, time.Millisecond)
				defer closeAll()
				knowsScripts(f, users[2].Session)
				crashed := atOnce(f.T, fair.New(users[0].Session, "a", signalbox.WithRenewedLease(5*time.Second)))
				first := queuedAndListening(f.Context(), fair.New(users[1].Session, "a"))
				users[0].goSilent()
				time.Sleep(time.Until(f.fairEnds("a")) - 10*time.Millisecond)
				users[1].swallowsRequests.Store(true) // it receives messages, and cannot poll
				time.Sleep(20 * time.Millisecond)
				require.False(f, f.fairHeld("a"))
				require.Empty(f, first)
				ctx, cancel := context.WithTimeout(f.Context(), 100*time.Millisecond)
				defer cancel()
				_, err := comes(ctx, fair.New(users[2].Session, "a"))
				require.ErrorIs(f, err, signalbox.ErrHeld)
				time.Sleep(5 * time.Millisecond)
				require.Len(f, first, 1, "it was notified")
				got := <-first
				require.NoError(f, got.err)
				require.Greater(f, got.lease.Token(), crashed.Token()) // P3
				users[1].heal()
				time.Sleep(time.Second)
				require.NoError(f, errors.Join(got.lease.Err(), got.lease.Unlock()))
			})
		})
	}
}

// P6: a waiter has the lock when the message of its grant arrives, also if the reply to its request is delayed.
func TestFairGrantCountsBeforeTheReplyToTheRequest(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 1, time.Millisecond)
		defer closeAll()
		replies := newDelayedReplies()
		client, _ := f.client(f.T, replies.tap)
		defer client.Close()
		s := signalbox.NewSession(client)
		elsewhere := atOnce(f.T, fair.New(users[0].Session, "elsewhere"))
		other := queuedAndListening(f.Context(), fair.New(s, "elsewhere")) // by which the session subscribes
		lease := atOnce(f.T, fair.New(users[0].Session, "a"))
		replies.hold()
		waiting := queuedAndListening(f.Context(), fair.New(s, "a"))
		require.NoError(f, lease.Unlock())
		time.Sleep(10 * time.Millisecond)
		require.Len(f, waiting, 1)
		replies.pass()
		for _, next := range []<-chan lockResult{waiting, other} {
			got := <-next
			require.NoError(f, got.err)
			require.NoError(f, got.lease.Unlock())
			if next == waiting {
				require.NoError(f, elsewhere.Unlock())
			}
		}
		require.NoError(f, s.Close(f.Context()))
	})
}

// delayedReplies holds back what the server sends on connections that do not subscribe.
type delayedReplies struct {
	mu    sync.Mutex
	holds chan struct{} // closed when replies pass
}

func newDelayedReplies() *delayedReplies {
	r := &delayedReplies{holds: make(chan struct{})}
	close(r.holds)
	return r
}

// tap lets the replies to a client pass through here.
func (r *delayedReplies) tap(o *rueidis.ClientOption) {
	dial := o.DialCtxFn
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, d, c)
		if err != nil {
			return nil, err
		}
		return &delayedConn{Conn: conn, replies: r}, nil
	}
}

func (r *delayedReplies) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds = make(chan struct{})
}

func (r *delayedReplies) pass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.holds)
}

func (r *delayedReplies) until() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds
}

// delayedConn is a connection of a client.
type delayedConn struct {
	net.Conn

	replies *delayedReplies
	mu      sync.Mutex
	pushes  bool // the client has subscribed on it
}

// Write implements net.Conn.
func (c *delayedConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("SUBSCRIBE")) {
		c.mu.Lock()
		c.pushes = true
		c.mu.Unlock()
	}
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *delayedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	pushes := c.pushes
	c.mu.Unlock()
	if err == nil && !pushes {
		<-c.replies.until()
	}
	return n, err
}
