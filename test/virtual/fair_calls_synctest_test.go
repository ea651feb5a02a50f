// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
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
