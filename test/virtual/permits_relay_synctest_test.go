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

// pass takes the one permit for a moment and gives it back, to others of its session mostly, until the game ends.
func (c *chaosLock) pass(s *signalbox.Session, terms ...signalbox.LockOption) {
	sem := semaphore.New(s, c.name, 1, terms...)
	for c.ended.Err() == nil {
		patience := 20 * time.Second
		if c.oneIn(4) {
			patience = 30 * time.Millisecond // gives up as it is passed the permit, now and then
		}
		ctx, cancel := context.WithTimeout(c.ended, time.Millisecond+c.below(patience))
		take := sem.Acquire
		if c.oneIn(16) {
			take = sem.TryAcquire
		}
		if lease, err := take(ctx, 1); err == nil {
			c.enters(lease)
			works := 4 * time.Millisecond
			if c.oneIn(200) {
				works = 5 * time.Second
			}
			c.works(lease, works)
			c.leaves(lease)
			err := lease.Unlock()
			if err != nil && !errors.Is(err, signalbox.ErrLost) && !errors.Is(err, signalbox.ErrUnconfirmed) {
				c.Error(err)
			}
		}
		cancel()
		time.Sleep(c.below(10 * time.Millisecond))
	}
}

// P1, P3, P4, P6: a permit is handed over inside processes and between them, while wires, messages and
// callers fail. It never has two holders, tokens rise, and when it is over it is free for newcomers.
func TestChaosWithHandOversLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(1, 2)) {
		bubble(t, func(f *fixture) { f.passes(seed, time.Minute) })
	}
}

// P1, P3, P4, P6: the same, for as long as it is asked for.
func TestSoakOfChaosWithHandOvers(t *testing.T) {
	t.Parallel()
	soak(t, func(f *fixture, seed uint64) { f.passes(seed, 3*time.Minute) })
}

func (f *fixture) passes(seed uint64, lasts time.Duration) {
	t := f.T
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	c := &chaosLock{T: t, name: fmt.Sprint("passes/", seed), ended: ctx, Rand: rand.New(rand.NewPCG(seed, 4))}
	users, closeAll := f.queueUsers(t, 3, time.Millisecond)
	defer closeAll()
	var all sync.WaitGroup
	for _, u := range users {
		all.Go(func() { c.disturb(u.wire) })
		for range 6 {
			all.Go(func() { c.pass(u.Session, signalbox.WithRenewedLease(2*time.Second)) })
		}
		all.Go(func() { c.pass(u.Session, signalbox.WithFixedLease(2*time.Second)) })
		all.Go(func() { c.pass(u.Session, signalbox.WithRenewedLease(time.Second)) })
	}
	all.Wait()
	scripts := f.scripts.Load()
	t.Logf("%d uses, %d scripts", c.mu.took, scripts)
	require.Greater(t, 4*c.mu.took, int(scripts), "it was no use")
	time.Sleep(45 * time.Second) // permits of which the server does not know come back by themselves
	for _, u := range users {
		began := time.Now()
		lease, err := semaphore.New(u.Session, c.name, 1).TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 10*time.Millisecond)
		c.enters(lease)
		require.NoError(t, lease.Unlock())
		c.leaves(lease)
	}
	synctest.Wait()
	keys, err := names.Native(names.NamingOptions{Prefix: names.DefaultPrefix}, c.name)
	require.NoError(t, err)
	require.False(t, f.redis.Exists(keys.PermitsQueue()))
}
