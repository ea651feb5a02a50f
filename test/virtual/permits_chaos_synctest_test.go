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
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// permits is how many there are of a semaphore whose users have bad wires, bad manners and little patience.
const permits = 3

// permitUsers is those users, and what they believe to have.
type permitUsers struct {
	*chaosLock

	has struct {
		sync.Mutex
		leases map[signalbox.Lease]int
		took   int
	}
}

// enters counts a lease in, and checks that those that are trusted have no more together than there are.
func (c *permitUsers) enters(lease signalbox.Lease, n int) {
	c.has.Lock()
	defer c.has.Unlock()
	c.has.leases[lease] = n
	c.has.took++
	sum := 0
	for other, n := range c.has.leases {
		if other.Err() == nil {
			sum += n
		}
	}
	if sum > permits {
		c.Errorf("%d are believed to be had of %d", sum, permits)
	}
}

func (c *permitUsers) leaves(lease signalbox.Lease) {
	c.has.Lock()
	defer c.has.Unlock()
	delete(c.has.leases, lease)
}

// use takes permits and gives them back until the game ends.
func (c *permitUsers) use(s *signalbox.Session) {
	terms := []signalbox.LockOption{
		signalbox.WithRenewedLease(30 * time.Second), signalbox.WithRenewedLease(time.Second),
		signalbox.WithFixedLease(2 * time.Second), signalbox.WithMaxHold(5 * time.Second),
	}
	for c.ended.Err() == nil {
		sem := semaphore.New(s, c.name, permits, terms[c.below(time.Duration(len(terms)))])
		n := 1 + int(c.below(permits))
		ctx, cancel := context.WithTimeout(c.ended, 10*time.Millisecond+c.below(20*time.Second))
		take := sem.Acquire
		if c.oneIn(8) {
			take = sem.TryAcquire
		}
		if lease, err := take(ctx, n); err == nil {
			c.enters(lease, n)
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

// P1, P4, P6: whatever happens to wires, messages and callers, no holder believes that it has a permit of
// another. When it is over, all permits are free for newcomers.
func TestChaosAroundPermitsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(1, 3)) {
		bubble(t, func(w *fixture) { w.crowd(seed, time.Duration(redistest.Rounds(2, 5))*time.Minute) })
	}
}

// P1, P4, P6: the same, for as long as it is asked for.
func TestSoakOfChaosAroundPermits(t *testing.T) {
	t.Parallel()
	soak(t, func(w *fixture, seed uint64) { w.crowd(seed, 10*time.Minute) })
}

func (w *fixture) crowd(seed uint64, lasts time.Duration) {
	t := w.T
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	c := &permitUsers{chaosLock: &chaosLock{T: t, name: fmt.Sprint("crowd/", seed), ended: ctx, Rand: rand.New(rand.NewPCG(seed, 3))}}
	c.has.leases = make(map[signalbox.Lease]int)
	users, closeAll := w.queueUsers(t, 4, time.Millisecond)
	defer closeAll()
	var all sync.WaitGroup
	for _, u := range users {
		all.Go(func() { c.disturb(u.wire) })
		for range 3 {
			all.Go(func() { c.use(u.Session) })
		}
	}
	all.Wait()
	require.Greater(t, c.has.took, int(lasts/(10*time.Second)), "it was no use")
	time.Sleep(45 * time.Second) // permits of which the server does not know come back by themselves
	for _, u := range users {
		began := time.Now()
		lease, err := semaphore.New(u.Session, c.name, permits).TryAcquire(t.Context(), permits)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 10*time.Millisecond)
		c.enters(lease, permits)
		c.leaves(lease)
		require.NoError(t, lease.Unlock())
	}
	synctest.Wait()
	keys, err := names.Make(names.DefaultPrefix, c.name)
	require.NoError(t, err)
	require.False(t, w.redis.Exists(keys.PermitsQueue()))
}
