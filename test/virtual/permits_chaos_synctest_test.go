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
func (p *permitUsers) enters(lease signalbox.Lease, n int) {
	p.has.Lock()
	defer p.has.Unlock()
	p.has.leases[lease] = n
	p.has.took++
	sum := 0
	for other, n := range p.has.leases {
		if other.Err() == nil {
			sum += n
		}
	}
	if sum > permits {
		p.Errorf("%d are believed to be had of %d", sum, permits)
	}
}

func (p *permitUsers) leaves(lease signalbox.Lease) {
	p.has.Lock()
	defer p.has.Unlock()
	delete(p.has.leases, lease)
}

// use takes permits and gives them back until the game ends.
func (p *permitUsers) use(s *signalbox.Session) {
	terms := []signalbox.LockOption{
		signalbox.WithRenewedLease(30 * time.Second), signalbox.WithRenewedLease(time.Second),
		signalbox.WithFixedLease(2 * time.Second), signalbox.WithMaxHold(5 * time.Second),
	}
	for p.ended.Err() == nil {
		sem := semaphore.New(s, p.name, permits, terms[p.below(time.Duration(len(terms)))])
		n := 1 + int(p.below(permits))
		ctx, cancel := context.WithTimeout(p.ended, 10*time.Millisecond+p.below(20*time.Second))
		take := sem.Acquire
		if p.oneIn(8) {
			take = sem.TryAcquire
		}
		if lease, err := take(ctx, n); err == nil {
			p.enters(lease, n)
			works := 300 * time.Millisecond
			if p.oneIn(4) {
				works = 10 * time.Second
			}
			p.works(lease, works)
			p.leaves(lease)
			err := lease.Unlock()
			for _, known := range []error{nil, signalbox.ErrLost, signalbox.ErrMaxHold, signalbox.ErrUnconfirmed} {
				if errors.Is(err, known) {
					err = nil
				}
			}
			if err != nil {
				p.Error(err)
			}
		}
		cancel()
		time.Sleep(p.below(200 * time.Millisecond))
	}
}

// P1, P4, P6: whatever happens to wires, messages and callers, no holder believes that it has a permit of
// another. When it is over, all permits are free for newcomers.
func TestChaosAroundPermitsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(1, 3)) {
		bubble(t, func(f *fixture) { f.crowd(seed, time.Duration(redistest.Rounds(2, 5))*time.Minute) })
	}
}

// P1, P4, P6: the same, for as long as it is asked for.
func TestSoakOfChaosAroundPermits(t *testing.T) {
	t.Parallel()
	soak(t, func(f *fixture, seed uint64) { f.crowd(seed, 10*time.Minute) })
}

func (f *fixture) crowd(seed uint64, lasts time.Duration) {
	t := f.T
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	p := &permitUsers{chaosLock: &chaosLock{T: t, name: fmt.Sprint("crowd/", seed), ended: ctx, Rand: rand.New(rand.NewPCG(seed, 3))}}
	p.has.leases = make(map[signalbox.Lease]int)
	users, closeAll := f.queueUsers(t, 4, time.Millisecond)
	defer closeAll()
	var all sync.WaitGroup
	for _, u := range users {
		all.Go(func() { p.disturb(u.wire) })
		for range 3 {
			all.Go(func() { p.use(u.Session) })
		}
	}
	all.Wait()
	require.Greater(t, p.has.took, int(lasts/(10*time.Second)), "it was no use")
	time.Sleep(45 * time.Second) // permits of which the server does not know come back by themselves
	for _, u := range users {
		began := time.Now()
		lease, err := semaphore.New(u.Session, p.name, permits).TryAcquire(t.Context(), permits)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 10*time.Millisecond)
		p.enters(lease, permits)
		p.leaves(lease)
		require.NoError(t, lease.Unlock())
	}
	synctest.Wait()
	keys, err := names.Native(names.NamingOptions{Prefix: names.DefaultPrefix}, p.name)
	require.NoError(t, err)
	require.False(t, f.redis.Exists(keys.PermitsQueue()))
}
