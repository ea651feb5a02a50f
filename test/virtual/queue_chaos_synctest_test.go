// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// chaosLock is a lock whose users have bad wires, bad manners and little patience.
type chaosLock struct {
	*testing.T

	name  string
	ended context.Context // the context of the whole game
	*rand.Rand

	mu struct {
		sync.Mutex
		last  signalbox.Lease // the latest grant
		token uint64          // the token of the latest grant
		in    bool            // a user is inside
		took  int
	}
}

// enters checks that the previous holder has released the lock, or knows that it has lost it.
func (c *chaosLock) enters(lease signalbox.Lease) { c.entersWith(lease, lease.Token()) }

// entersWith is enters for a lease of several locks, of which this one has that token.
func (c *chaosLock) entersWith(lease signalbox.Lease, token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.in && c.mu.last.Err() == nil {
		c.Error("two believe that they have the lock")
	}
	if token <= c.mu.token {
		c.Error("a token is not greater than the last")
	}
	c.mu.last, c.mu.token, c.mu.in = lease, token, true
	c.mu.took++
}

func (c *chaosLock) leaves(lease signalbox.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.last == lease {
		c.mu.in = false
	}
}

// below returns a random time.
func (c *chaosLock) below(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.Int64N(int64(d)))
}

// one of n, as often as not.
func (c *chaosLock) oneIn(n int) bool { return c.below(time.Duration(n)) == 0 }

// use takes the lock and gives it back until the game ends.
func (c *chaosLock) use(s *signalbox.Session) {
	terms := []signalbox.LockOption{
		signalbox.WithRenewedLease(30 * time.Second), signalbox.WithRenewedLease(time.Second),
		signalbox.WithFixedLease(2 * time.Second), signalbox.WithMaxHold(5 * time.Second),
	}
	for c.ended.Err() == nil {
		mu := fair.New(s, c.name, terms[c.below(time.Duration(len(terms)))])
		ctx, cancel := context.WithTimeout(c.ended, 10*time.Millisecond+c.below(20*time.Second))
		take := mu.Lock
		if c.oneIn(8) {
			take = mu.TryLock
		}
		if lease, err := take(ctx); err == nil {
			c.enters(lease)
			works := 300 * time.Millisecond
			if c.oneIn(4) {
				works = 10 * time.Second
			}
			c.works(lease, works)
			c.leaves(lease)
			err := lease.Unlock()
			for _, known := range []error{nil, signalbox.ErrLost, signalbox.ErrMaxHold, signalbox.ErrUnconfirmed} {
				if errors.Is(err, known) {
					err = nil
				}
			}
			if err != nil {
				c.Error(err)
			}
		}
		cancel()
		time.Sleep(c.below(200 * time.Millisecond))
	}
}

// works keeps a lease for a while, or until it ends.
func (c *chaosLock) works(lease signalbox.Lease, most time.Duration) {
	select {
	case <-lease.Done():
	case <-time.After(c.below(most)):
	}
}

// disturb does something to a wire now and then.
func (c *chaosLock) disturb(w *wire) {
	for c.ended.Err() == nil {
		time.Sleep(c.below(3 * time.Second))
		switch {
		case c.oneIn(2):
			w.latency.Store(int64(c.below(60 * time.Millisecond)))
		case c.oneIn(2):
			w.losesMessages.Store(!w.losesMessages.Load())
		case c.oneIn(2):
			// Requests alone: grants are received, and what renews them is not.
			w.swallowsRequests.Store(true)
			w.swallowsReplies.Store(c.oneIn(3))
			time.Sleep(c.below(8 * time.Second))
			w.heal()
		default:
			w.heal() // which cuts it
		}
	}
	w.losesMessages.Store(false)
	w.latency.Store(int64(time.Millisecond))
	w.heal()
}

// P1, P3, P4, P6: whatever happens to wires, messages and callers, there are never two holders, and tokens
// rise. When it is over nothing is left, and a newcomer gets the lock.
func TestChaosInAQueueLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(1, 3)) {
		bubble(t, func(f *fixture) { f.chaos(seed, time.Duration(redistest.Rounds(2, 5))*time.Minute) })
	}
}

// soak plays games of chaos one after the other, each from a seed of its own, which it says.
func soak(t *testing.T, play func(f *fixture, seed uint64)) {
	t.Helper()
	for more := locktest.Soak(t); more(); {
		seed := rand.Uint64()
		t.Log("seed", seed)
		bubble(t, func(f *fixture) { play(f, seed) })
	}
}

// P1, P3, P4, P6: the same, for as long as it is asked for.
func TestSoakOfChaosInAQueue(t *testing.T) {
	t.Parallel()
	soak(t, func(f *fixture, seed uint64) { f.chaos(seed, 10*time.Minute) })
}

func (f *fixture) chaos(seed uint64, lasts time.Duration) {
	t := f.T
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	c := &chaosLock{T: t, name: fmt.Sprint("chaos/", seed), ended: ctx, Rand: rand.New(rand.NewPCG(seed, 2))}
	users, closeAll := f.queueUsers(t, 4, time.Millisecond)
	defer closeAll()
	var all sync.WaitGroup
	for _, u := range users {
		all.Go(func() { c.disturb(u.wire) })
		for range 3 {
			all.Go(func() { c.use(u.Session) })
		}
	}
	all.Wait()
	f.leavesNothing(c, users, lasts)
}

// leavesNothing requires that the game was one, that it has left nothing, and that each of the users gets the lock.
func (f *fixture) leavesNothing(c *chaosLock, users []queueUser, lasted time.Duration) {
	f.Helper()
	require.Greater(f, c.mu.took, int(lasted/(10*time.Second)), "it was no use")
	time.Sleep(45 * time.Second) // what is idle ends, and holds of which the server does not know end by themselves
	for _, u := range users {
		require.Zero(f, u.IdleLocks())
		began := time.Now()
		lease := atOnce(f.T, fair.New(u.Session, c.name))
		require.Less(f, time.Since(began), 10*time.Millisecond)
		c.enters(lease)
		require.NoError(f, lease.Unlock())
		c.leaves(lease)
	}
	synctest.Wait()
	waiting, isHeld := f.queued(c.name)
	require.Zero(f, waiting)
	require.False(f, isHeld)
}
