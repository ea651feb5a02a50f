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

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// membersOf returns locks of unlike kinds, each with one holder: the permit is of a semaphore that has one.
func membersOf(s *signalbox.Session) []multilock.Member {
	return []multilock.Member{
		reentrant.New(s, "r0"), reentrant.New(s, "r1"), fair.New(s, "f0"), fair.New(s, "f1"), rwlock.New(s, "w"),
		semaphore.New(s, "p", 1).Permits(1),
	}
}

// memberUses is what holders know of each member.
type memberUses struct {
	sync.Mutex
	inside [6]bool
	last   [6]uint64 // the token of the last holder
}

// P1, P3, P4, P6: random sets of locks of unlike kinds, which overlap and are asked for in any order by workers of four sessions, some
// of which do not wait or give up. None waits for good, no two have one lock, tokens rise, and nothing is left.
func TestMultilock_RandomSets_ExcludeEachOther(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		var m memberUses
		var workers sync.WaitGroup
		var sessions []*signalbox.Session
		for n := range uint64(4) {
			s, link, end := f.session(f.T)
			defer end()
			link.latency.Store(int64(hop))
			sessions = append(sessions, s)
			for worker := range uint64(3) {
				workers.Go(func() {
					dice := rand.New(rand.NewPCG(n, worker))
					for range 12 {
						if err := m.takeSet(f.Context(), dice, membersOf(s)); err != nil {
							f.Error(err)
						}
					}
				})
			}
		}
		require.Less(t, took(workers.Wait), 2*time.Minute)
		time.Sleep(10 * time.Second)
		requireFree(f.T, multilock.New(membersOf(sessions[0])...))
		requireIdle(f.T, sessions...)
	})
}

// takeSet acquires some of all, in any order and in one of three ways.
func (m *memberUses) takeSet(ctx context.Context, dice *rand.Rand, all []multilock.Member) error {
	places := dice.Perm(len(all))[:1+dice.IntN(4)]
	members := make([]multilock.Member, len(places))
	for n, i := range places {
		members[n] = all[i]
	}
	set := multilock.New(members...)
	take := set.Lock
	switch dice.IntN(6) {
	case 0:
		take = set.TryLock
	case 1:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(dice.Int64N(int64(10*hop))))
		defer cancel()
	}
	lease, err := take(ctx)
	if errors.Is(err, signalbox.ErrHeld) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if err != nil {
		return err
	}
	err = m.enter(places, multilock.Tokens(lease))
	time.Sleep(time.Duration(dice.Int64N(int64(hop))))
	m.Lock()
	for _, i := range places {
		m.inside[i] = false
	}
	m.Unlock()
	return errors.Join(err, lease.Err(), locktest.IgnoreUnconfirmed(lease.Unlock()))
}

// enter returns what is wrong with a holder of these members.
func (m *memberUses) enter(places []int, tokens []uint64) (err error) {
	m.Lock()
	defer m.Unlock()
	for n, i := range places {
		if m.inside[i] || tokens[n] <= m.last[i] {
			err = errors.Join(err, fmt.Errorf("member %d: it is held: %t, token %d after %d", i, m.inside[i], tokens[n], m.last[i]))
		}
		m.inside[i], m.last[i] = true, tokens[n]
	}
	return err
}
