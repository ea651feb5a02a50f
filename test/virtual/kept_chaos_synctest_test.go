// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
)

// keeps uses the lock until the game ends, on terms of which some let the session keep it.
func (c *chaosLock) keeps(s *signalbox.Session) {
	warm := signalbox.WithKeepWarm(time.Second + c.below(keptFor))
	for c.ended.Err() == nil {
		ctx, cancel := context.WithTimeout(c.ended, 10*time.Millisecond+c.below(20*time.Second))
		mu := reentrant.New(s, c.name, warm)
		take := mu.Lock
		switch int64(c.below(12)) {
		case 0:
			take = reentrant.New(s, c.name, warm, signalbox.WithRenewedLease(time.Second)).Lock
		case 1:
			take = reentrant.New(s, c.name).TryLock
		case 2:
			take = fair.New(s, c.name).Lock
		case 3:
			take = multilock.New(mu, reentrant.New(s, c.name+"/beside", warm)).Lock
		case 4:
			take = mu.TryLock
		}
		if lease, err := take(ctx); err == nil {
			token := lease.Token()
			if tokens := multilock.Tokens(lease); tokens != nil {
				token = tokens[0]
			}
			c.entersWith(lease, token)
			c.works(lease, c.below(2*time.Second)+1)
			c.leaves(lease)
			if err := lease.Unlock(); err != nil && !errors.Is(err, signalbox.ErrLost) && !errors.Is(err, signalbox.ErrUnconfirmed) {
				c.Error(err)
			}
		}
		cancel()
		if c.oneIn(3) {
			time.Sleep(c.below(300 * time.Millisecond))
		}
	}
}

// comesAndGoes uses the lock with sessions that close while they keep it, or hold it.
func (c *chaosLock) comesAndGoes(f *fixture) {
	for c.ended.Err() == nil {
		s, _, end := f.session(f.T)
		var uses sync.WaitGroup
		for range 2 {
			uses.Go(func() {
				for range 5 {
					mu := reentrant.New(s, c.name, signalbox.WithKeepWarm(keptFor))
					lease, err := mu.Lock(c.ended)
					if err != nil {
						return // the session closes, or the game is over
					}
					c.enters(lease)
					c.works(lease, 300*time.Millisecond)
					c.leaves(lease)
					_ = lease.Unlock() // Close may have ended it
				}
			})
		}
		time.Sleep(c.below(5 * time.Second))
		ctx, cancel := context.WithTimeout(context.Background(), c.below(2*time.Second))
		_ = s.Close(ctx)
		cancel()
		uses.Wait()
		end()
	}
}

// P1, P3, P4, P6: whatever happens to wires, recalls and callers, sessions that keep the lock, and one that does not, exclude each
// other, and tokens rise. When it is over nothing is left, and a newcomer gets the lock.
func TestChaosWithKeptLocksLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(1, 6)) {
		bubble(t, func(f *fixture) { f.keptChaos(seed, time.Duration(redistest.Rounds(2, 5))*time.Minute) })
	}
}

// P1, P3, P4, P6: the same, for as long as it is asked for.
func TestSoakOfChaosWithKeptLocks(t *testing.T) {
	t.Parallel()
	soak(t, func(f *fixture, seed uint64) { f.keptChaos(seed, 10*time.Minute) })
}

func (f *fixture) keptChaos(seed uint64, lasts time.Duration) {
	t := f.T
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	c := &chaosLock{T: t, name: fmt.Sprint("kept/", seed), ended: ctx, Rand: rand.New(rand.NewPCG(seed, 3))}
	users, closeAll := f.queueUsers(t, 3, time.Millisecond)
	defer closeAll()
	var all sync.WaitGroup
	for i, u := range users {
		all.Go(func() { c.disturb(u.wire) })
		for range 2 {
			all.Go(func() {
				if i < 2 {
					c.keeps(u.Session)
				} else {
					c.use(u.Session)
				}
			})
		}
	}
	all.Go(func() { c.comesAndGoes(f) })
	all.Wait()
	f.leavesNothing(c, users, lasts)
}
