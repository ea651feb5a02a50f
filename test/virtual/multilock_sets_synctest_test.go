// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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

// seats is how many permits there are of the semaphore among the members.
const seats = 2

// membersOf returns a permit, and locks of every kind; the last two are one, to write and to read.
func membersOf(s *signalbox.Session) []multilock.Member {
	both := rwlock.New(s, "w")
	return []multilock.Member{
		semaphore.New(s, "p", seats).Permits(1), reentrant.New(s, "r0"), reentrant.New(s, "r1"), reentrant.New(s, "r2"),
		fair.New(s, "f0"), fair.New(s, "f1"), both, both.Reader(),
	}
}

// resource is what a member guards.
type resource struct {
	inside, readers int
	last            uint64 // the token of the last holder that was alone
}

// memberResources are the resources of all members. The reading side has the resource of the writing side.
type memberResources struct {
	sync.Mutex
	of [7]resource
}

// enter counts the holders of these members in, and returns what is wrong with that.
func (r *memberResources) enter(members []int, tokens []uint64) error {
	r.Lock()
	defer r.Unlock()
	var wrong []string
	for n, i := range r.withoutReader(members) {
		at := &r.of[min(i, len(r.of)-1)]
		most := 1
		switch i {
		case len(r.of):
			at.readers++
			most = at.readers // and no writer
		case 0:
			at.inside++
			most = seats
		default:
			at.inside++
			if tokens[n] <= at.last {
				wrong = append(wrong, fmt.Sprintf("the token of %d fell", i))
			}
			at.last = tokens[n]
		}
		if at.inside+at.readers > most {
			wrong = append(wrong, fmt.Sprintf("too many use resource %d", i))
		}
	}
	if wrong == nil {
		return nil
	}
	return errors.New(strings.Join(wrong, ", "))
}

// leave counts them out.
func (r *memberResources) leave(members []int) {
	r.Lock()
	defer r.Unlock()
	for _, i := range r.withoutReader(members) {
		if i == len(r.of) {
			r.of[i-1].readers--
		} else {
			r.of[i].inside--
		}
	}
}

// withoutReader returns the members by their positions in a set, without the reading side if the set has
// the writing one.
func (r *memberResources) withoutReader(members []int) map[int]int {
	in := make(map[int]int)
	writes := false
	for n, i := range members {
		in[n] = i
		writes = writes || i == len(r.of)-1
	}
	for n, i := range members {
		if writes && i == len(r.of) {
			delete(in, n)
		}
	}
	return in
}

// P1, P3, P4, P6: random sets of locks of all kinds and of permits, which overlap and are asked for in any order by workers
// of four sessions, some of which do not wait or give up. None waits for good, no two have one lock, tokens rise, and
// nothing is left.
func TestMultilock_RandomSets_ExcludeEachOther(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		var r memberResources
		var users sync.WaitGroup
		var sessions []*signalbox.Session
		for n := range uint64(4) {
			s, link, end := f.session(f.T)
			defer end()
			link.latency.Store(int64(hop))
			sessions = append(sessions, s)
			for worker := range uint64(3) {
				users.Go(func() {
					dice := rand.New(rand.NewPCG(n, worker))
					for range 12 {
						if err := r.takeSet(f.Context(), dice, membersOf(s)); err != nil {
							f.Error(err)
						}
					}
				})
			}
		}
		require.Less(t, took(users.Wait), 2*time.Minute)
		time.Sleep(10 * time.Second)
		requireFree(f.T, multilock.New(membersOf(sessions[0])...))
		requireIdle(f.T, sessions...)
	})
}

// takeSet acquires some of all, in any order and in one of three ways, and enters their resources.
func (r *memberResources) takeSet(ctx context.Context, dice *rand.Rand, all []multilock.Member) error {
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
	err = r.enter(places, multilock.Tokens(lease))
	time.Sleep(time.Duration(dice.Int64N(int64(hop))))
	r.leave(places)
	return errors.Join(err, lease.Err(), locktest.IgnoreUnconfirmed(lease.Unlock()))
}
