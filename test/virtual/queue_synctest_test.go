// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
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

// P4: a TryLock whose reply comes when the lease is over is undone before the next attempt, which finds the lock free.
func TestTryThatTookTooLongDoesNotBlockTheNext(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Primitives() {
		bubble(t, func(f *fixture) {
			users, closeAll := f.queueUsers(f.T, 1, time.Millisecond)
			defer closeAll()
			mu := kind.New(users[0].Session, "a", signalbox.WithRenewedLease(time.Second))
			require.NoError(f, atOnce(f.T, mu).Unlock())
			users[0].latency.Store(int64(1500 * time.Millisecond))
			time.AfterFunc(time.Millisecond, func() { users[0].latency.Store(0) }) // it takes effect for the next requests
			began := time.Now()
			lease, err := mu.TryLock(f.Context())
			require.NoError(f, err)
			require.GreaterOrEqual(f, time.Since(began), 1500*time.Millisecond)
			require.NoError(f, lease.Unlock())
		})
	}
}
