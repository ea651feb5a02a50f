// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/testing/tally"
	"github.com/signalbox-go/signalbox/redlock"
)

// badWires is a crowd with unlike terms and little patience, whose wires are slow, silent, refused, cut, and lose requests, replies and
// messages. Of several servers one after the other fails as well. In the end nothing is left.
func badWires(w *World, k Kind) {
	w.onBadWires(k, 1, time.Duration(redistest.Rounds(20, 120))*time.Second)
}

func (w *World) onBadWires(k Kind, seed uint64, lasts time.Duration) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), lasts)
	defer cancel()
	var m monitor
	var group sync.WaitGroup
	var uses atomic.Int64
	processes := []*Process{w.Process(k), w.Rival(k), w.Process(k)}
	for i, p := range processes {
		group.Go(func() { p.disturb(ctx, chance{newDice(seed, uint64(i))}) })
		for g := range 3 {
			c := chance{newDice(seed, uint64(3+3*i+g))}
			group.Go(func() {
				for ctx.Err() == nil {
					if m.useSomehow(ctx, w, p, c) {
						uses.Add(1)
					}
					time.Sleep(c.below(200 * time.Millisecond))
				}
			})
		}
	}
	if len(w.redis) > 1 {
		group.Go(func() { w.failServers(ctx, processes, chance{newDice(seed, 99)}) })
	}
	group.Wait()
	least := int64(lasts / (40 * time.Second))
	if k.Dead > 0 {
		least = 0 // one dead waiter may keep all others away until the end
	}
	tally.Add("uses", k.folder(), int(uses.Load()))
	require.Greater(w, uses.Load(), least, "it was no use")
	dead := 4 * max(1, int(lasts/time.Minute))                  // the longer it lasted, the more tickets of the dead there are
	time.Sleep(max(45*time.Second, time.Duration(dead)*k.Dead)) // what the server does not know of ends by itself, each after the other
	for _, p := range processes {
		w.Free(p, "a")
	}
	time.Sleep(4 * time.Second) // a redlock is released when most servers say so
	w.LeavesNothing(processes[0], "a")
}

// chance is the dice of one goroutine.
type chance struct{ *rand.Rand }

// newDice returns the dice of a goroutine in a run with a seed.
func newDice(seed, goroutine uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, goroutine)) }

func (c chance) below(d time.Duration) time.Duration { return time.Duration(c.Int64N(int64(d))) }

// disturb does something to a wire now and then.
func (w *Wire) disturb(ctx context.Context, c chance) {
	for ctx.Err() == nil {
		time.Sleep(c.below(3 * time.Second))
		switch c.IntN(6) {
		case 0:
			w.Latency(c.below(60 * time.Millisecond))
		case 1:
			w.LoseMessages(c.IntN(2) == 0)
		case 2:
			w.Silence()
			time.Sleep(c.below(8 * time.Second))
			w.Heal()
		case 3:
			w.Refuse()
			time.Sleep(c.below(3 * time.Second))
			w.Heal()
		default:
			w.Arm(1+c.IntN(3), LoseRequest+Fault(c.IntN(int(faults-LoseRequest))))
		}
	}
	w.LoseMessages(false)
	w.Latency(0)
	w.Heal()
}

// failServers lets one server after the other be silent for all processes, or lose its data: it has no vote for one lease then.
func (w *World) failServers(ctx context.Context, processes []*Process, c chance) {
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(c.below(5 * time.Second))
		server := i % len(w.redis)
		if i%2 == 0 {
			tally.Fault("FLUSHALL")
			w.redis[server].FlushAll()
			time.Sleep(w.Life * 3 / 2)
			continue
		}
		for _, p := range processes {
			p.SilenceServer(server)
		}
		time.Sleep(c.below(w.Life))
		for _, p := range processes {
			p.Heal()
		}
	}
}

// useSomehow uses a lock on one of several terms, by a Lock that may give up or a TryLock, and reports whether it had it.
func (m *monitor) useSomehow(ctx context.Context, w *World, p *Process, c chance) bool {
	w.Helper()
	terms := []signalbox.LockOption{
		signalbox.WithRenewedLease(w.Life), signalbox.WithRenewedLease(time.Second), signalbox.WithFixedLease(2 * time.Second),
		signalbox.WithMaxHold(5 * time.Second), signalbox.WithKeepWarm(3 * time.Second),
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond+c.below(20*time.Second))
	defer cancel()
	options := p.kind.on(terms[c.IntN(len(terms))])
	if p.kind.Servers > 1 {
		// A server that lost its data grants nothing for the longest lease, and these are of several lengths.
		options = append(options, redlock.GreatestLease(w.Life))
	}
	lock := p.kind.New(p.Sessions, p.prefix+"a", options...)
	call := lock.Lock
	if !p.kind.NoTry && c.IntN(8) == 0 {
		call = lock.TryLock
	}
	h, err := call(limited)
	if err != nil {
		return false // there are several reasons
	}
	leave := m.enter(w, p, h)
	while := c.below(300 * time.Millisecond)
	if c.IntN(4) == 0 {
		while = c.below(10 * time.Second)
	}
	select {
	case <-h.Done():
	case <-time.After(while):
	}
	leave()
	err = h.Unlock()
	isKnown := errors.Is(err, signalbox.ErrLost) || errors.Is(err, signalbox.ErrMaxHold) || errors.Is(err, signalbox.ErrUnconfirmed)
	assert.True(w, err == nil || isKnown || p.kind.Function, "%v", err)
	return true
}
