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
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/scripts"
)

// runs reports whether a command runs a script.
func runs(script *scripts.Script, command string, args []string) bool {
	return command == "EVALSHA" && args[0] == script.SHA1 || command == "EVAL" && args[0] == script.Source
}

// knowsScripts teaches the server the scripts of a fair lock, so that each call sends one command.
func knowsScripts(w *fixture, s *signalbox.Session) {
	mu := fair.New(s, "known")
	lease := atOnce(w.T, mu)
	ctx, cancel := context.WithCancel(w.Context())
	waiting := queuedAndListening(ctx, mu)
	cancel()
	require.ErrorIs(w, (<-waiting).err, context.Canceled)
	require.NoError(w, lease.Unlock())
	time.Sleep(5 * time.Second)
	w.redis.FlushAll()
	synctest.Wait()
}

// losesReply lets the server execute the next run of a script, and loses its reply: the connections of the wire are cut.
func (w *fixture) losesReply(script *scripts.Script, of *wire) (lost <-chan struct{}) {
	faulty := make(chan struct{})
	var once sync.Once
	w.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if runs(script, command, args) {
			once.Do(func() {
				of.swallowsReplies.Store(true)
				time.AfterFunc(5*time.Millisecond, func() { of.heal(); close(faulty) })
			})
		}
		return false
	})
	return faulty
}

// P5: a call whose reply is lost is sent again, and counts once: it gets one hold, one ticket, and gives one hold back.
func TestFairCallThatIsSentTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		users, closeAll := w.queueUsers(w.T, 3, time.Millisecond)
		defer closeAll()
		knowsScripts(w, users[0].Session)
		holder, mu, behind := fair.New(users[1].Session, "a"), fair.New(users[0].Session, "a"), fair.New(users[2].Session, "a")

		lost := w.losesReply(scripts.LockEnter, users[0].wire) // of a Lock that is granted at once
		lease := atOnce(w.T, mu)
		<-lost
		require.NoError(w, lease.Err())
		waiting := queuedAndListening(w.Context(), holder)
		lost = w.losesReply(scripts.LockLeave, users[0].wire)
		require.ErrorIs(w, lease.Unlock(), signalbox.ErrUnconfirmed)
		<-lost
		got := <-waiting
		require.NoError(w, got.err)
		time.Sleep(time.Second)
		require.NoError(w, got.lease.Err(), "the second Unlock took the hold of the next holder")

		lost = w.losesReply(scripts.LockEnter, users[0].wire) // of a Lock that waits
		waiting = queuedAndListening(w.Context(), mu)
		<-lost
		last := queuedAndListening(w.Context(), behind)
		tickets, _ := w.queued("a")
		require.Equal(w, 2, tickets)
		require.NoError(w, got.lease.Unlock())
		for _, next := range []<-chan lockResult{waiting, last} {
			got := <-next
			require.NoError(w, got.err, "in the order of the queue")
			require.NoError(w, got.lease.Unlock())
		}
		tickets, isHeld := w.queued("a")
		require.Zero(w, tickets)
		require.False(w, isHeld)
	})
}

// P4: a TryLock that returns an error because its reply is lost, or because it reaches the server late or never, leaves
// neither hold nor ticket.
func TestFairTryWithoutAReplyLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]func(link *wire){ //nolint:paralleltest // as above
		"RequestLost": func(link *wire) { link.swallowsRequests.Store(true) },
		"ReplyLost":   func(link *wire) { link.swallowsReplies.Store(true) },
		"Late":        func(link *wire) { link.latency.Store(int64(1500 * time.Millisecond)) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *fixture) {
				users, closeAll := w.queueUsers(w.T, 2, time.Millisecond)
				defer closeAll()
				knowsScripts(w, users[0].Session)
				cause(users[0].wire)
				ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
				defer cancel()
				_, err := fair.New(users[0].Session, "a").TryLock(ctx)
				require.ErrorIs(w, err, context.DeadlineExceeded)
				users[0].latency.Store(int64(time.Millisecond))
				if name != "Late" {
					users[0].heal()
				}
				began := time.Now()
				require.NoError(w, atOnce(w.T, fair.New(users[1].Session, "a")).Unlock())
				require.Less(w, time.Since(began), 4*time.Second)
				time.Sleep(4 * time.Second)
				tickets, isHeld := w.queued("a")
				require.Zero(w, tickets)
				require.False(w, isHeld)
			})
		})
	}
}

// P4: a TryLock whose reply comes when the lease is over is undone before the next attempt, which finds the lock free.
func TestFairTryThatTookTooLongDoesNotBlockTheNext(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		users, closeAll := w.queueUsers(w.T, 1, time.Millisecond)
		defer closeAll()
		knowsScripts(w, users[0].Session)
		users[0].latency.Store(int64(1500 * time.Millisecond))
		time.AfterFunc(time.Millisecond, func() { users[0].latency.Store(0) }) // it takes effect for the next requests
		began := time.Now()
		lease, err := fair.New(users[0].Session, "a", signalbox.WithRenewedLease(time.Second)).TryLock(w.Context())
		require.NoError(w, err)
		require.GreaterOrEqual(w, time.Since(began), 1500*time.Millisecond)
		require.NoError(w, lease.Unlock())
		require.False(w, w.fairHeld("a"))
	})
}

// P10: a wait ends with its context. The error says that the lock is held if the server said so, and how the connection
// failed if the server is away.
func TestFairWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		users, closeAll := w.queueUsers(w.T, 1, time.Millisecond)
		defer closeAll()
		mu := fair.New(users[0].Session, "a")
		lease := atOnce(w.T, mu)
		wait := func() error {
			ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			_, err := mu.Lock(ctx)
			require.Equal(w, 3*time.Second, time.Since(began))
			require.ErrorIs(w, err, context.DeadlineExceeded)
			return err
		}
		require.ErrorIs(w, wait(), signalbox.ErrHeld, "held by the session itself")
		require.NoError(w, lease.Unlock())
		time.Sleep(time.Second)
		tickets, isHeld := w.queued("a")
		require.Zero(w, tickets)
		require.False(w, isHeld)

		users[0].refuses.Store(true)
		users[0].cut()
		err := wait()
		require.NotErrorIs(w, err, signalbox.ErrHeld)
		var refused *net.OpError
		require.ErrorAs(w, err, &refused)
		require.Equal(w, "dial", refused.Op)
		waiting := queuedAndListening(w.Context(), mu)
		require.Empty(w, waiting)
		users[0].heal()
		got := <-waiting
		require.NoError(w, got.err)
		require.NoError(w, got.lease.Unlock())
	})
}

// P10: a refusal that may pass is waited for. The error of a call that does not wait so long has the words of the server.
func TestFairLockWaitsUntilTheServerRefusesNoMore(t *testing.T) {
	t.Parallel()
	const words = "OOM command not allowed when used memory > 'maxmemory'."
	bubble(t, func(w *fixture) {
		users, closeAll := w.queueUsers(w.T, 1, time.Millisecond)
		defer closeAll()
		mu := fair.New(users[0].Session, "a")
		var refuses atomic.Bool
		w.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
			refused := refuses.Load() && runs(scripts.LockEnter, command, args)
			if refused {
				c.WriteError(words)
			}
			return refused
		})
		refuses.Store(true)
		_, err := mu.TryLock(w.Context())
		require.ErrorIs(w, err, signalbox.ErrRefused)
		require.ErrorContains(w, err, words)
		ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
		defer cancel()
		_, err = mu.Lock(ctx)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.ErrorIs(w, err, signalbox.ErrRefused)
		require.ErrorContains(w, err, words)
		waiting := queuedAndListening(w.Context(), mu)
		time.Sleep(time.Minute)
		require.Empty(w, waiting)
		refuses.Store(false)
		began := time.Now()
		got := <-waiting
		require.NoError(w, got.err)
		require.Less(w, got.at.Sub(began), 2*time.Second)
		require.NoError(w, got.lease.Unlock())
	})
}

// lateRequest is a request of a waiter that gave up and has left the queue: it has not reached the server yet.
type lateRequest struct {
	*fixture

	request atomic.Pointer[[]string]
	client  rueidis.Client
}

// strayEnter lets a session wait for a lock, holds its request back, and returns when the session has given up and left.
func (w *fixture) strayEnter(u queueUser, name string) *lateRequest {
	w.Helper()
	knowsScripts(w, u.Session)
	s := &lateRequest{fixture: w}
	s.client, _ = w.client(w.T)
	w.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if !runs(scripts.LockEnter, command, args) {
			return false
		}
		request := append([]string{command}, args...)
		return s.request.CompareAndSwap(nil, &request) // without a reply
	})
	ctx, cancel := context.WithCancel(w.Context())
	asks := make(chan error, 1)
	go func() {
		_, err := fair.New(u.Session, name).Lock(ctx)
		asks <- err
	}()
	time.Sleep(10 * time.Millisecond)
	u.cut() // what follows takes another connection
	cancel()
	require.ErrorIs(w, <-asks, context.Canceled)
	time.Sleep(100 * time.Millisecond)
	require.NotNil(w, s.request.Load())
	tickets, _ := w.queued(name)
	require.Zero(w, tickets)
	return s
}

// arrives executes the request, and returns the first value of the reply.
func (s *lateRequest) arrives() int64 {
	s.Helper()
	reply, err := s.client.Do(s.Context(), s.client.B().Arbitrary(*s.request.Load()...).Build()).ToArray()
	require.NoError(s, err)
	first, err := reply[0].AsInt64()
	require.NoError(s, err)
	return first
}

// P4: a request that is executed after its waiter has left gets a ticket for three seconds at most, and later it does
// nothing.
func TestLateFairRequestLeavesNoTicket(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		users, closeAll := w.queueUsers(w.T, 2, time.Millisecond)
		defer closeAll()
		late := w.strayEnter(users[0], "b")
		defer late.client.Close()
		lease := atOnce(w.T, fair.New(users[1].Session, "b"))
		require.Zero(w, late.arrives(), "in the queue")
		tickets, _ := w.queued("b")
		require.Equal(w, 1, tickets)
		time.Sleep(4 * time.Second)
		tickets, _ = w.queued("b")
		require.Zero(w, tickets)
		require.EqualValues(w, -1, late.arrives(), "too late")
		tickets, _ = w.queued("b")
		require.Zero(w, tickets)
		require.NoError(w, lease.Unlock())
	})
}

// P6: such a request may be granted the lock. The next waiter has it three seconds and a poll later.
func TestFairGrantToATicketOfNoWaiterGoesToTheNext(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		users, closeAll := w.queueUsers(w.T, 3, time.Millisecond)
		defer closeAll()
		late := w.strayEnter(users[0], "b")
		defer late.client.Close()
		lease := atOnce(w.T, fair.New(users[1].Session, "b"))
		require.Zero(w, late.arrives(), "in the queue")
		waiting := queuedAndListening(w.Context(), fair.New(users[2].Session, "b"))
		released := time.Now()
		require.NoError(w, lease.Unlock())
		require.True(w, w.fairHeld("b"), "granted to a ticket of no waiter")
		time.Sleep(10 * time.Millisecond)
		require.Empty(w, waiting)
		got := <-waiting
		require.NoError(w, got.err)
		require.Less(w, got.at.Sub(released), 4*time.Second)
		require.Greater(w, got.lease.Token(), lease.Token()) // P3
		require.NoError(w, got.lease.Unlock())
		require.EqualValues(w, -1, late.arrives(), "too late")
		require.False(w, w.fairHeld("b"))
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
			bubble(t, func(w *fixture) {
				users, closeAll := w.queueUsers(w.T, 3, time.Millisecond)
				defer closeAll()
				knowsScripts(w, users[2].Session)
				crashed := atOnce(w.T, fair.New(users[0].Session, "a", signalbox.WithRenewedLease(5*time.Second)))
				first := queuedAndListening(w.Context(), fair.New(users[1].Session, "a"))
				users[0].goSilent()
				time.Sleep(time.Until(w.fairEnds("a")) - 10*time.Millisecond)
				users[1].swallowsRequests.Store(true) // it receives messages, and cannot poll
				time.Sleep(20 * time.Millisecond)
				require.False(w, w.fairHeld("a"))
				require.Empty(w, first)
				ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
				defer cancel()
				_, err := comes(ctx, fair.New(users[2].Session, "a"))
				require.ErrorIs(w, err, signalbox.ErrHeld)
				time.Sleep(5 * time.Millisecond)
				require.Len(w, first, 1, "it was notified")
				got := <-first
				require.NoError(w, got.err)
				require.Greater(w, got.lease.Token(), crashed.Token()) // P3
				users[1].heal()
				time.Sleep(time.Second)
				require.NoError(w, errors.Join(got.lease.Err(), got.lease.Unlock()))
			})
		})
	}
}

// P6: a waiter has the lock when the message of its grant arrives, also if the reply to its request is delayed.
func TestFairGrantCountsBeforeTheReplyToTheRequest(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		users, closeAll := w.queueUsers(w.T, 1, time.Millisecond)
		defer closeAll()
		replies := newDelayedReplies()
		client, _ := w.client(w.T, replies.tap)
		defer client.Close()
		s := signalbox.NewSession(client)
		elsewhere := atOnce(w.T, fair.New(users[0].Session, "elsewhere"))
		other := queuedAndListening(w.Context(), fair.New(s, "elsewhere")) // by which the session subscribes
		lease := atOnce(w.T, fair.New(users[0].Session, "a"))
		replies.hold()
		waiting := queuedAndListening(w.Context(), fair.New(s, "a"))
		require.NoError(w, lease.Unlock())
		time.Sleep(10 * time.Millisecond)
		require.Len(w, waiting, 1)
		replies.pass()
		for _, next := range []<-chan lockResult{waiting, other} {
			got := <-next
			require.NoError(w, got.err)
			require.NoError(w, got.lease.Unlock())
			if next == waiting {
				require.NoError(w, elsewhere.Unlock())
			}
		}
		require.NoError(w, s.Close(w.Context()))
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
