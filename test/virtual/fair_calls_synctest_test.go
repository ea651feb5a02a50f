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

// knowsScripts teaches the server the scripts of a fair lock, so that each call sends one command.
func knowsScripts(f *fixture, s *signalbox.Session) {
	mu := fair.New(s, "known")
	lease := atOnce(f.T, mu)
	ctx, cancel := context.WithCancel(f.Context())
	waiting := queuedAndListening(ctx, mu)
	cancel()
	require.ErrorIs(f, (<-waiting).err, context.Canceled)
	require.NoError(f, lease.Unlock())
	time.Sleep(5 * time.Second)
	f.redis.FlushAll()
	synctest.Wait()
}

// losesReply lets the server execute the next run of a script, and loses its reply: the connections of the wire are cut.
func (f *fixture) losesReply(script *scripts.Script, of *wire) (lost <-chan struct{}) {
	faulty := make(chan struct{})
	var once sync.Once
	f.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
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
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 3, time.Millisecond)
		defer closeAll()
		knowsScripts(f, users[0].Session)
		holder, mu, behind := fair.New(users[1].Session, "a"), fair.New(users[0].Session, "a"), fair.New(users[2].Session, "a")

		lost := f.losesReply(scripts.LockEnter, users[0].wire) // of a Lock that is granted at once
		lease := atOnce(f.T, mu)
		<-lost
		require.NoError(f, lease.Err())
		waiting := queuedAndListening(f.Context(), holder)
		lost = f.losesReply(scripts.LockLeave, users[0].wire)
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrUnconfirmed)
		<-lost
		got := <-waiting
		require.NoError(f, got.err)
		time.Sleep(time.Second)
		require.NoError(f, got.lease.Err(), "the second Unlock took the hold of the next holder")

		lost = f.losesReply(scripts.LockEnter, users[0].wire) // of a Lock that waits
		waiting = queuedAndListening(f.Context(), mu)
		<-lost
		last := queuedAndListening(f.Context(), behind)
		tickets, _ := f.queued("a")
		require.Equal(f, 2, tickets)
		require.NoError(f, got.lease.Unlock())
		for _, next := range []<-chan lockResult{waiting, last} {
			got := <-next
			require.NoError(f, got.err, "in the order of the queue")
			require.NoError(f, got.lease.Unlock())
		}
		tickets, isHeld := f.queued("a")
		require.Zero(f, tickets)
		require.False(f, isHeld)
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
			bubble(t, func(f *fixture) {
				users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
				defer closeAll()
				knowsScripts(f, users[0].Session)
				cause(users[0].wire)
				ctx, cancel := context.WithTimeout(f.Context(), 100*time.Millisecond)
				defer cancel()
				_, err := fair.New(users[0].Session, "a").TryLock(ctx)
				require.ErrorIs(f, err, context.DeadlineExceeded)
				users[0].latency.Store(int64(time.Millisecond))
				if name != "Late" {
					users[0].heal()
				}
				began := time.Now()
				require.NoError(f, atOnce(f.T, fair.New(users[1].Session, "a")).Unlock())
				require.Less(f, time.Since(began), 4*time.Second)
				time.Sleep(4 * time.Second)
				tickets, isHeld := f.queued("a")
				require.Zero(f, tickets)
				require.False(f, isHeld)
			})
		})
	}
}

// P4: a TryLock whose reply comes when the lease is over is undone before the next attempt, which finds the lock free.
func TestFairTryThatTookTooLongDoesNotBlockTheNext(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 1, time.Millisecond)
		defer closeAll()
		knowsScripts(f, users[0].Session)
		users[0].latency.Store(int64(1500 * time.Millisecond))
		time.AfterFunc(time.Millisecond, func() { users[0].latency.Store(0) }) // it takes effect for the next requests
		began := time.Now()
		lease, err := fair.New(users[0].Session, "a", signalbox.WithRenewedLease(time.Second)).TryLock(f.Context())
		require.NoError(f, err)
		require.GreaterOrEqual(f, time.Since(began), 1500*time.Millisecond)
		require.NoError(f, lease.Unlock())
		require.False(f, f.fairHeld("a"))
	})
}

// P10: a wait ends with its context. The error says that the lock is held if the server said so, and how the connection
// failed if the server is away.
func TestFairWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 1, time.Millisecond)
		defer closeAll()
		mu := fair.New(users[0].Session, "a")
		lease := atOnce(f.T, mu)
		wait := func() error {
			ctx, cancel := context.WithTimeout(f.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			_, err := mu.Lock(ctx)
			require.Equal(f, 3*time.Second, time.Since(began))
			require.ErrorIs(f, err, context.DeadlineExceeded)
			return err
		}
		require.ErrorIs(f, wait(), signalbox.ErrHeld, "held by the session itself")
		require.NoError(f, lease.Unlock())
		time.Sleep(time.Second)
		tickets, isHeld := f.queued("a")
		require.Zero(f, tickets)
		require.False(f, isHeld)

		users[0].refuses.Store(true)
		users[0].cut()
		err := wait()
		require.NotErrorIs(f, err, signalbox.ErrHeld)
		var refused *net.OpError
		require.ErrorAs(f, err, &refused)
		require.Equal(f, "dial", refused.Op)
		waiting := queuedAndListening(f.Context(), mu)
		require.Empty(f, waiting)
		users[0].heal()
		got := <-waiting
		require.NoError(f, got.err)
		require.NoError(f, got.lease.Unlock())
	})
}

// P10: a refusal that may pass is waited for. The error of a call that does not wait so long has the words of the server.
func TestFairLockWaitsUntilTheServerRefusesNoMore(t *testing.T) {
	t.Parallel()
	const words = "OOM command not allowed when used memory > 'maxmemory'."
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 1, time.Millisecond)
		defer closeAll()
		mu := fair.New(users[0].Session, "a")
		var refuses atomic.Bool
		f.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
			refused := refuses.Load() && runs(scripts.LockEnter, command, args)
			if refused {
				c.WriteError(words)
			}
			return refused
		})
		refuses.Store(true)
		_, err := mu.TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrRefused)
		require.ErrorContains(f, err, words)
		ctx, cancel := context.WithTimeout(f.Context(), 3*time.Second)
		defer cancel()
		_, err = mu.Lock(ctx)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.ErrorIs(f, err, signalbox.ErrRefused)
		require.ErrorContains(f, err, words)
		waiting := queuedAndListening(f.Context(), mu)
		time.Sleep(time.Minute)
		require.Empty(f, waiting)
		refuses.Store(false)
		began := time.Now()
		got := <-waiting
		require.NoError(f, got.err)
		require.Less(f, got.at.Sub(began), 2*time.Second)
		require.NoError(f, got.lease.Unlock())
	})
}
