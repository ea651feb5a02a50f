// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// queueUser is a session that waits in lines, and its wire.
type queueUser struct {
	*signalbox.Session
	*wire
}

// queueUsers returns n sessions with a latency, and what closes them.
func (f *fixture) queueUsers(t *testing.T, n int, latency time.Duration) ([]queueUser, func()) {
	t.Helper()
	var users []queueUser
	var closes []func()
	for range n {
		s, link, closeAll := f.session(t)
		link.latency.Store(int64(latency))
		users = append(users, queueUser{s, link})
		closes = append(closes, closeAll)
	}
	return users, func() {
		for _, closeAll := range closes {
			closeAll()
		}
	}
}

// counts lets the fixture count the executions of a script.
func (f *fixture) counts(script *scripts.Script) *atomic.Int64 {
	var n atomic.Int64
	f.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if runs(script, command, args) {
			n.Add(1)
		}
		return false
	})
	return &n
}

// lockResult is what a call of Lock returned, and when.
type lockResult struct {
	lease signalbox.Lease
	err   error
	at    time.Time
}

// queuedAndListening locks on another goroutine, and returns when that goroutine waits in the queue and listens for its
// grant.
func queuedAndListening(ctx context.Context, mu locktest.Lock) <-chan lockResult {
	returned := make(chan lockResult, 1)
	go func() {
		lease, err := mu.Lock(ctx)
		returned <- lockResult{lease, err, time.Now()}
	}()
	time.Sleep(500 * time.Millisecond)
	return returned
}

// atOnce locks a free lock.
func atOnce(t *testing.T, mu locktest.Lock) signalbox.Lease {
	t.Helper()
	lease, err := mu.Lock(t.Context())
	require.NoError(t, err)
	return lease
}

// queued returns how many tickets the server has, and whether the lock is held.
func (f *fixture) queued(name string) (waiting int, isHeld bool) {
	line, _ := f.redis.ZMembers(locktest.Keys(name).QueueKey())
	return len(line), f.left(name) > 0
}

// P6: from the release to the grant there are one script and one message, and no poll.
func TestAFairLockIsOneScriptAndOneMessageAway(t *testing.T) {
	t.Parallel()
	const latency = 10 * time.Millisecond
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, latency)
		defer closeAll()
		require.NoError(t, atOnce(t, fair.New(users[0].Session, "near")).Unlock()) // teaches the server the script
		for n := range 20 {
			holder, waiter := users[n%2], users[n/2%2]
			lease := atOnce(t, fair.New(holder.Session, "near"))
			next := queuedAndListening(t.Context(), fair.New(waiter.Session, "near"))
			released := time.Now()
			require.NoError(t, lease.Unlock())
			got := <-next
			require.NoError(t, got.err)
			require.Equal(t, 2*latency, got.at.Sub(released), "there and back")
			require.NoError(t, got.lease.Unlock())
		}
	})
}

// P6: a waiter whose grant message is lost finds its grant by a poll, about a second later, whenever the
// message is lost.
func TestAPollFindsALostGrant(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, time.Millisecond)
		defer closeAll()
		for n := range 50 {
			lease := atOnce(t, fair.New(users[0].Session, "lost"))
			next := queuedAndListening(t.Context(), fair.New(users[1].Session, "lost"))
			users[1].losesMessages.Store(true)
			time.Sleep(time.Duration(n) * 37 * time.Millisecond)
			released := time.Now()
			require.NoError(t, lease.Unlock())
			got := <-next
			users[1].losesMessages.Store(false)
			require.NoError(t, got.err)
			require.Less(t, got.at.Sub(released), 1010*time.Millisecond)
			require.NoError(t, got.lease.Err())
			require.NoError(t, got.lease.Unlock())
		}
	})
}

// P6: a waiter that cannot listen for grants polls ten times a second.
func TestAWaiterWithoutMessagesPollsMoreOften(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 1, time.Millisecond)
		defer closeAll()
		unsubscribed, _, closeUnsubscribed := f.session(t, signalbox.WithPolling())
		defer closeUnsubscribed()
		for n := range 30 {
			lease := atOnce(t, fair.New(users[0].Session, "unsubscribed"))
			next := queuedAndListening(t.Context(), fair.New(unsubscribed, "unsubscribed"))
			time.Sleep(time.Duration(n) * 7 * time.Millisecond)
			released := time.Now()
			require.NoError(t, lease.Unlock())
			got := <-next
			require.NoError(t, got.err)
			require.Less(t, got.at.Sub(released), 110*time.Millisecond)
			require.NoError(t, got.lease.Unlock())
		}
	})
}

// P6, P7: a session sends about one heartbeat a second for the locks that it waits for, however many wait, and polls seldom
// while nothing changes.
func TestWaitingCostsAHeartbeatASecondHoweverManyWait(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, time.Millisecond)
		defer closeAll()
		const locks, waiters = 3, 20
		minutes := redistest.Rounds(5, 20)
		ctx, cancel := context.WithCancel(t.Context())
		var leases []signalbox.Lease
		var all sync.WaitGroup
		for n := range locks {
			name := fmt.Sprint("watched/", n)
			leases = append(leases, atOnce(t, fair.New(users[0].Session, name)))
			for range waiters {
				all.Go(func() {
					_, err := fair.New(users[1].Session, name).Lock(ctx)
					require.ErrorIs(t, err, signalbox.ErrHeld)
				})
			}
		}
		time.Sleep(10 * time.Second)
		waits := f.counts(scripts.LockHeartbeat)
		time.Sleep(time.Duration(minutes) * time.Minute)
		require.Greater(t, waits.Load(), int64(minutes*60*9/10)) // the others are polls
		require.Less(t, waits.Load(), int64(locks*minutes*60*5/4+10))
		polls := f.counts(scripts.LockPoll)
		time.Sleep(time.Duration(minutes) * time.Minute)
		require.Greater(t, polls.Load(), int64(locks*minutes*60/20))
		require.Less(t, polls.Load(), int64(locks*minutes*60/12))
		cancel()
		all.Wait()
		for _, lease := range leases {
			require.NoError(t, lease.Unlock())
		}
	})
}

// P7: a session that listens for grants already sends no poll when it waits: a hand-off costs two scripts.
func TestWaitingAgainSendsNoPoll(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, time.Millisecond)
		defer closeAll()
		polls := f.counts(scripts.LockPoll)
		for n := range 20 {
			if n == 1 {
				polls.Store(0) // the first wait subscribes, and polls for what was sent before that
			}
			lease := atOnce(t, fair.New(users[0].Session, "again"))
			waiting := queuedAndListening(t.Context(), fair.New(users[1].Session, "again"))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, lease.Unlock())
			got := <-waiting
			require.NoError(t, got.err)
			require.NoError(t, got.lease.Unlock())
		}
		require.Zero(t, polls.Load())
	})
}
