// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P2, P3, P6: a server that restarts empty serves all waiters, one after the other, and the holder is notified. One that is
// away for longer than a lease is in TestServerThatComesBackEmptyServesAllFairWaiters, in virtual time.
func TestRestartedServerServesAllWaiters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const name = "restarted"
	const sessions, waiters = 5, 25
	held := f.hold(t, name, signalbox.WithRenewedLease(6*time.Second))
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		tokens []uint64
		inside int
	)
	for i := range sessions {
		s := locktest.Session(t, f.server)
		for range waiters / sessions {
			group.Go(func() {
				lease, err := fair.New(s, name).Lock(long(t))
				if err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
				mu.Lock()
				tokens = append(tokens, lease.Token())
				if inside++; inside > 1 && lease.Err() == nil {
					t.Error("two have the lock")
				}
				inside--
				mu.Unlock()
				if err := forgive(lease.Unlock()); err != nil {
					t.Errorf("session %d: %v", i, err)
				}
			})
		}
	}
	f.waiting(t, name, waiters)
	f.server.Restart()
	begun := time.Now()
	group.Wait()
	t.Logf("%d waiters were served in %v", waiters, time.Since(begun).Round(time.Millisecond))
	redistest.Receive(t, "the loss, at the holder", held.Done())
	require.ErrorIs(t, held.Err(), signalbox.ErrLost)
	require.Len(t, tokens, waiters)
	last := held.Token()
	for _, token := range tokens {
		require.Greater(t, token, last)
		last = token
	}
	f.nothingLeft(t)
}

// stopDisturbed makes six sessions use a lock, goal times in the order of the queue, while disturb runs again
// and again. It fails the test if a waiter that is alive was passed over.
func (f *fixture) stopDisturbed(t *testing.T, name string, goal int64, disturb func() error) tally {
	t.Helper()
	notes := f.openLog(t, name)
	ctx, cancel := context.WithCancel(long(t))
	defer cancel()
	var disturber sync.WaitGroup
	times, again := 0, time.NewTicker(2*time.Millisecond)
	defer again.Stop()
	disturber.Go(func() {
		for ctx.Err() == nil {
			if err := disturb(); err != nil {
				t.Error(err)
				return
			}
			times++
			<-again.C
		}
	})
	sessions := make([]*signalbox.Session, 6)
	for i := range sessions {
		sessions[i] = locktest.Session(t, f.server)
	}
	begun := time.Now()
	locktest.Together(t, 4*len(sessions), func(i int) error {
		return notes.fill(ctx, fair.New(sessions[i%len(sessions)], name), goal)
	})
	took := time.Since(begun)
	cancel()
	disturber.Wait()
	t.Logf("%d grants and %d disturbances in %v", goal, times, took.Round(time.Millisecond))
	require.Positive(t, times)
	a := notes.inOrder(t, goal)
	f.nothingLeft(t)
	return a
}

// P6, P10: a server that forgets its scripts again and again keeps the order and every hold.
func TestOrderIsKeptThoughTheScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.server.Client(t, locktest.Steady)
	a := f.stopDisturbed(t, "forgotten", 50, func() error {
		return client.Do(context.Background(), client.B().ScriptFlush().Build()).Error()
	})
	require.Zero(t, a.left, "a waiter lost its ticket: %+v", a)
	require.Zero(t, a.intruders)
}
