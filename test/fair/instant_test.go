// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// aLook is how long after a hand-off its receiver has the lock at the latest if nobody tells it but a
// look, which comes after 0.8 s at the earliest. Who is told has it in a part of that.
const aLook = 700 * time.Millisecond

// P4: a waiter that is granted the lock in the instant in which its context ends has the lock or
// passes it on: it is never lost, never doubled, and nobody behind waits for a look.
func TestGrantAndCancelInTheSameInstant(t *testing.T) {
	t.Parallel()
	left := 2000
	newWorld(t).cancelInstants(t, func() bool { left--; return left >= 0 })
}

func TestSoakGrantAndCancelInTheSameInstant(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	newWorld(t).cancelInstants(t, more)
}

// instants is what the rounds of one goroutine came to.
type instants struct {
	got, cancelled int    // what the one that left was told
	slow           []span // waits of the one behind it that only a look explains, or a machine that stood still
}

// span is a time.
type span struct{ from, to time.Time }

// watch asks the server something all the time, until it is stopped, and answers when that took so long that who waited
// for something else then may have waited for the same reason.
func watch(t *testing.T, w *world) (stop func() []span) {
	t.Helper()
	const still = aLook / 8
	client, ends, stood := w.server.Client(t, locktest.Steady), make(chan struct{}), make(chan []span, 1)
	go func() {
		var all []span
		again := time.NewTicker(still / 8)
		defer again.Stop()
		for last := time.Now(); ; {
			_ = client.Do(context.Background(), client.B().Ping().Build()).Error()
			now := time.Now()
			if now.Sub(last) > still {
				all = append(all, span{last, now})
			}
			last = now
			select {
			case <-again.C:
			case <-ends:
				stood <- all
				return
			}
		}
	}()
	return sync.OnceValue(func() []span { close(ends); return <-stood })
}

// unexplained answers how long those waits took in which nothing stood still.
func unexplained(waits, stood []span) (took []time.Duration) {
	for _, wait := range waits {
		if !slices.ContainsFunc(stood, func(s span) bool { return s.from.Before(wait.to) && wait.from.Before(s.to) }) {
			took = append(took, wait.to.Sub(wait.from))
		}
	}
	slices.Sort(took)
	return took
}

// cancelInstants plays rounds on eight locks at a time, each of them so often.
func (w *world) cancelInstants(t *testing.T, more func() bool) {
	t.Helper()
	const locks = 8
	var (
		mu     sync.Mutex
		all    instants
		server = w.server
	)
	again := func() bool { mu.Lock(); defer mu.Unlock(); return more() }
	behind := locktest.Session(t, server)
	begun, stood := time.Now(), watch(t, w)
	defer stood()
	locktest.Together(t, locks, func(i int) error {
		r := round{
			name: fmt.Sprint("instant/", i), holder: w.holder, leaver: w.waiter, behind: behind, world: w,
			spread: 2 * time.Millisecond, later: 2 * time.Millisecond,
		}
		for again() || (r.got == 0 || r.cancelled == 0) && time.Since(begun) < limit {
			if err := r.play(); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all.got += r.got
		all.cancelled += r.cancelled
		all.slow = append(all.slow, r.slow...)
		return nil
	})
	slow := unexplained(all.slow, stood())
	t.Logf("%d rounds in %v: %d had the lock, %d had left; %d of those behind waited for long, of which %d needed a look: %v",
		all.got+all.cancelled, time.Since(begun).Round(time.Millisecond), all.got, all.cancelled, len(all.slow), len(slow), slow)
	require.Positive(t, all.got, "no grant was before the cancellation")
	require.Positive(t, all.cancelled, "no cancellation was before the grant")
	// A goroutine that does not run for that long looks the same: a few times are no finding.
	require.LessOrEqual(t, len(slow), locks+(all.got+all.cancelled)/50)
	redistest.AwaitFor(t, bound, "nothing is under way", func() bool { return locktest.Settling(behind) == 0 })
	w.nothingLeft(t)
}

// round is a holder, a waiter that leaves, and one behind it.
type round struct {
	instants

	name                   string
	holder, leaver, behind *signalbox.Session
	world                  *world
	spread                 time.Duration // of the release
	later                  time.Duration // of the cancellation: it follows how long a hand-off takes on this machine
	last                   uint64
}

func (r *round) play() error {
	ctx, end := context.WithTimeout(context.Background(), limit)
	defer end()
	held, err := r.take(ctx, r.holder)
	if err != nil {
		return fmt.Errorf("holder: %w", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	defer cancel()
	leaver := r.lines(cancelled, r.leaver, 1)
	behind := r.lines(ctx, r.behind, 2)

	pauses := [2]<-chan time.Time{time.NewTimer(rand.N(r.later)).C, time.NewTimer(rand.N(r.spread)).C}
	var canceller sync.WaitGroup
	canceller.Go(func() { <-pauses[0]; cancel() })
	defer canceller.Wait()
	<-pauses[1]
	if err := forgive(held.Unlock()); err != nil {
		return err
	}
	begun := time.Now()
	switch first := <-leaver; {
	case first.err == nil:
		r.got++
		r.later = max(r.later*9/10, 100*time.Microsecond)
		if err := r.check(first.lease); err != nil {
			return err
		}
		if len(behind) > 0 && first.lease.Err() == nil {
			return errors.New("two have the lock")
		}
		begun = time.Now()
		if err := forgive(first.lease.Unlock()); err != nil {
			return err
		}
	case errors.Is(first.err, context.Canceled):
		r.cancelled++
		r.later = min(r.later*11/10, time.Second)
	default:
		return fmt.Errorf("the one that left: %w", first.err)
	}
	second := <-behind
	if second.err != nil {
		return fmt.Errorf("the one behind: %w", second.err)
	}
	if second.at.Sub(begun) > aLook {
		r.slow = append(r.slow, span{begun, second.at})
	}
	if err := r.check(second.lease); err != nil {
		return err
	}
	return forgive(second.lease.Unlock())
}

// take has the lock, which those of the round before may be giving back still.
func (r *round) take(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
	lease, err := fair.New(s, r.name).Lock(ctx)
	if err == nil {
		err = r.check(lease)
	}
	return lease, err
}

// check says what is wrong with a lease that was just given.
func (r *round) check(lease signalbox.Lease) error {
	if lease.Token() <= r.last {
		return fmt.Errorf("the token fell from %d to %d", r.last, lease.Token())
	}
	r.last = lease.Token()
	h, err := r.world.view.Hold(r.name)
	if err == nil && h.Token != lease.Token() && lease.Err() == nil {
		err = fmt.Errorf("token %d is good, the server has %d", lease.Token(), h.Token)
	}
	return err
}

// lines lets a session wait, and returns when n stand in line.
func (r *round) lines(ctx context.Context, s *signalbox.Session, n int) <-chan result {
	got := make(chan result, 1)
	go func() {
		lease, err := fair.New(s, r.name).Lock(ctx)
		got <- result{lease, err, time.Now()}
	}()
	redistest.Became(redistest.Patience, func() bool { return r.world.view.Waiting(r.name) >= n })
	return got
}
