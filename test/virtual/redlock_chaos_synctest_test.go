// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
)

// redlockGame is users of one lock, and the dice of who disturbs them.
type redlockGame struct {
	*testing.T

	mu struct {
		sync.Mutex
		*rand.Rand

		last  signalbox.Lease // the latest grant
		token uint64          // its token
		in    bool            // its user is inside
		took  int
	}
}

// enters checks that the previous holder has released the lock, or knows that it has lost it.
func (g *redlockGame) enters(lease signalbox.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.in && g.mu.last.Err() == nil {
		g.Error("two believe that they have the lock")
	}
	if lease.Token() <= g.mu.token {
		g.Error("a token is not greater than the last")
	}
	g.mu.last, g.mu.token, g.mu.in = lease, lease.Token(), true
	g.mu.took++
}

func (g *redlockGame) leaves(lease signalbox.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.in = g.mu.in && g.mu.last != lease
}

// below returns a random time.
func (g *redlockGame) below(d time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Duration(g.mu.Int64N(int64(d)))
}

// P1, P3: servers fail one after the other, and so do the wires of processes. At most one process has the
// lock, and tokens rise.
func TestRedlock_ServersFail_NoTwoHoldAtOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(1, 2)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			redlockChaos(t, seed, redistest.Rounds(3, 8))
		})
	}
}

func TestSoakRedlock_ServersFail_NoTwoHoldAtOnce(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	for seed := rand.Uint64(); more(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { redlockChaos(t, seed, 20) })
	}
}

// redlockChaos lets four processes take turns while servers and wires fail, so many times.
func redlockChaos(t *testing.T, seed uint64, faults int) {
	t.Helper()
	const life = 4 * time.Second
	readyBubble(t, 5, func(r *redlockServers) {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		g := &redlockGame{T: r.T}
		g.mu.Rand = rand.New(rand.NewPCG(seed, 5))
		var users sync.WaitGroup
		var wires [][]*wire
		var sessions []*signalbox.Session
		for range 4 {
			its, ways := r.process()
			wires, sessions = append(wires, ways), append(sessions, its...)
			mu := redlock.New(its, "a", signalbox.WithRenewedLease(life), redlock.Fenced())
			users.Go(func() {
				for {
					lease, err := mu.Lock(ctx)
					if err != nil {
						return // the game has ended
					}
					g.enters(lease)
					time.Sleep(g.below(2 * time.Second))
					g.leaves(lease)
					_ = lease.Unlock() // a wire may keep it from being confirmed
				}
			})
		}
		for i := range faults {
			g.failServer(r, i, wires, life)
			time.Sleep(life + life/2) // a server that lost its data has no vote for one lease
		}
		end()
		users.Wait()
		require.Greater(t, g.mu.took, faults)
		time.Sleep(time.Minute)
		r.requireNothing(sessions...)
	})
}

// failServer lets one server fail, or what one process has of the servers.
func (g *redlockGame) failServer(r *redlockServers, i int, wires [][]*wire, life time.Duration) {
	server, process := i%len(r.servers), int(g.below(time.Duration(len(wires))))
	switch i % 4 {
	case 0:
		r.servers[server].redis.FlushAll()
	case 1:
		for _, its := range wires {
			its[server].goSilent()
		}
		time.Sleep(g.below(2 * life))
		for _, its := range wires {
			its[server].heal()
		}
	case 2:
		for _, w := range wires[process] {
			w.swallowsReplies.Store(g.below(2) == 0)
		}
		time.Sleep(g.below(2 * life))
		for _, w := range wires[process] {
			w.heal()
		}
	case 3:
		for _, w := range wires[process] {
			w.cut()
		}
	}
}
