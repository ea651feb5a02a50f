// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// lockUser is a goroutine that acquires and releases a lock until it is stopped.
type lockUser struct {
	lock  *reentrant.Lock
	lease signalbox.Lease // the last one
	err   error           // the error that ended the use
}

func (u *lockUser) run(ctx context.Context) {
	for {
		lease, err := u.lock.Lock(ctx)
		if err != nil {
			u.err = err
			return
		}
		u.lease = lease
		select {
		case <-lease.Done():
		case <-time.After(5 * time.Millisecond):
		}
		if err := lease.Unlock(); err != nil && !errors.Is(err, signalbox.ErrLost) {
			u.err = err
			return
		}
	}
}

// P4: Close may come at any instant. Every call returns ErrClosed, leases end at once, and if the wire
// works nothing is left on the server.
func TestCloseAtAnyInstantLeavesNothing(t *testing.T) {
	t.Parallel()
	const instants, latency = 120, 7 * time.Millisecond
	every := redistest.Rounds(3, 1)
	for _, ended := range []bool{false, true} {
		bubble(t, func(f *fixture) {
			t := f.T
			for at := 0; at < instants; at += every {
				f.closeAt(t, fmt.Sprint("close/", at, "/"), time.Duration(at)*time.Millisecond, latency, ended)
			}
			synctest.Wait()
			require.Zero(t, goroutines())
		})
	}
}

func (f *fixture) closeAt(t *testing.T, name string, at, latency time.Duration, ended bool) { //nolint:revive // a case of the test
	t.Helper()
	c, link := f.client(t)
	defer c.Close()
	link.latency.Store(int64(latency))
	s := signalbox.NewSession(c)
	users := make([]lockUser, 6)
	var running sync.WaitGroup
	for i := range users {
		users[i].lock = reentrant.New(s, fmt.Sprint(name, i%4))
		running.Go(func() { users[i].run(t.Context()) })
	}
	time.Sleep(at)
	ctx, cancel := context.WithCancel(t.Context())
	if ended {
		cancel()
	}
	begun := time.Now()
	err := s.Close(ctx)
	took := time.Since(begun)
	cancel()
	if !ended {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, took, time.Second+10*latency)
	synctest.Wait()
	for i := range users {
		if u := &users[i]; u.lease != (signalbox.Lease{}) {
			if u.lease.Err() == nil {
				t.Errorf("closed after %v with its context ended %v: a lease outlives its session", at, ended)
			}
		}
	}
	running.Wait()
	for i := range users {
		require.ErrorIs(t, users[i].err, signalbox.ErrClosed, at)
	}
	time.Sleep(4 * time.Second) // the patience, and the undoing
	for i := range 4 {
		if left := f.left(fmt.Sprint(name, i)); left > 0 {
			t.Errorf("closed after %v with its context ended %v: lock %d is held for %v", at, ended, i, left)
		}
	}
}

// Close waits for the holders of locks, as long as its context lets it.
func TestCloseWaitsForHolders(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		s, _, closeAll := f.session(t)
		defer closeAll()
		lease, err := reentrant.New(s, "kept").Lock(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		time.AfterFunc(time.Minute, func() { _ = lease.Unlock() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, s.Close(ctx))
		require.Equal(t, time.Minute, time.Since(begun))
		require.Zero(t, f.left("kept"))
	})
}

// P2: a Close while the wire is dead ends in about a second, and the leases with it.
func TestCloseOnADeadWireEndsSoon(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		c, link := f.client(t)
		s := signalbox.NewSession(c)
		users := make([]lockUser, 12)
		var running sync.WaitGroup
		for i := range users {
			users[i].lock = reentrant.New(s, fmt.Sprint("dead/", i%6))
			running.Go(func() { users[i].run(t.Context()) })
		}
		time.Sleep(time.Second)
		link.goSilent()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_ = s.Close(ctx) // it is chance whether a lock was held
		require.LessOrEqual(t, time.Since(begun), 2*time.Second)
		running.Wait()
		for i := range users {
			require.Error(t, users[i].lease.Err())
		}
		c.Close()
		synctest.Wait()
		require.Zero(t, goroutines())
	})
}
