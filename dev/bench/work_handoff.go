// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// handOff is two processes that pass a lock to and fro: one holds it, the other waits.
func handOff(b *bench) ([]table, error) {
	all, err := b.interleave(b.chosen, b.scale.rounds, func(impl implementation) (sample, error) {
		if !impl.excludes {
			return b.messages(impl)
		}
		return b.passesToTheEnd(impl)
	})
	note := fmt.Sprintf("From the call of Unlock in one process to the return of Lock in the other, which has waited for %v to %v. "+
		"The limit is a script that publishes, from its call to the arrival of the message in the other client.",
		leastWait, leastWait+spreadWait)
	return []table{tabulate("Hand-off between two processes", note+leftWaiting(all), all, handOffColumns())}, err
}

func handOffColumns() []column {
	p50 := quantile(0.5)
	speed := func(s sample) float64 { return 1 / max(p50(s), 1e-9) }
	columns := []column{
		{"p50", medianOf(p50, span)},
		{"p50 to limit", toLimit(p50)},
		{"p50 to best peer", func(all []series, s series) string {
			best, ok := bestPeer(all, speed)
			if !ok || !s.impl.excludes {
				return none
			}
			return share(s.ratio(best, p50))
		}},
	}
	columns = append(columns, waitColumns("")[1:]...)
	return append(columns, costColumns("hand-off")...)
}

// How long the waiter has waited when the holder unlocks: long enough to have subscribed, and
// of no fixed length, so that a poller is met in every phase of its pause.
const leastWait, spreadWait = 2 * time.Millisecond, 4 * time.Millisecond

// tooLong is when a hand-off has failed: the lock is free and the waiter was not woken.
const tooLong = 3 * time.Second

var errStalled = fmt.Errorf("the waiter has not had the free lock for %v", tooLong)

// stalls is how often a round is measured anew because of that, before the run ends.
const stalls = 5

// passesToTheEnd is passes, repeated with other processes if a hand-off failed.
func (b *bench) passesToTheEnd(impl implementation) (sample, error) {
	for stuck := int64(0); ; stuck++ {
		one, err := b.passes(impl)
		if one.stuck = stuck; stuck == stalls || !errors.Is(err, errStalled) {
			return one, err
		}
	}
}

// entry is a Lock that returned.
type entry struct {
	unlock func() error
	at     time.Time
	err    error
}

// passes measures a lock that two processes pass to and fro.
func (b *bench) passes(impl implementation) (one sample, err error) {
	processes, end, err := b.start(impl, 2, setup{})
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lockers := [2]locker{processes[0].locker(ctx, "handoff"), processes[1].locker(ctx, "handoff")}
	turn := 0
	unlock, err := lockers[turn].Lock(ctx)
	if err != nil {
		return sample{}, err
	}
	pass := func() (time.Duration, error) {
		turn = 1 - turn
		var took time.Duration
		unlock, took, err = oneHandOff(ctx, unlock, lockers[turn])
		return took, err
	}
	one, err = b.repeat(ctx, impl, pass)
	if err != nil {
		return sample{}, err
	}
	return one, unlock()
}

// oneHandOff unlocks while the other one waits, and returns how long it took until the other had it.
func oneHandOff(ctx context.Context, unlock func() error, other locker) (func() error, time.Duration, error) {
	entered := make(chan entry, 1)
	go func() {
		unlock, err := other.Lock(ctx)
		entered <- entry{unlock, time.Now(), err}
	}()
	pause(ctx, leastWait+rand.N(spreadWait))
	gave := time.Now()
	err := unlock()
	if err != nil {
		return nil, 0, fmt.Errorf("unlock: %w", err)
	}
	limit := time.NewTimer(tooLong)
	defer limit.Stop()
	select {
	case e := <-entered:
		return e.unlock, e.at.Sub(gave), e.err
	case <-limit.C:
		return nil, 0, errStalled
	}
}

// fewest is how many hand-offs a round has at the least, however slow they are.
const fewest = 5

// repeat takes the time of pass for a window, after a warm-up.
func (b *bench) repeat(ctx context.Context, impl implementation, pass func() (time.Duration, error)) (sample, error) {
	for range fewest {
		if _, err := pass(); err != nil {
			return sample{}, err
		}
	}
	m, err := begin(b.server)
	if err != nil {
		return sample{}, err
	}
	one := sample{waits: new(waits)}
	began := time.Now()
	for one.ops < fewest || time.Since(began) < b.scale.window {
		took, err := pass()
		if err != nil {
			return sample{}, err
		}
		one.waits.add(took)
		one.ops++
	}
	one.elapsed = time.Since(began)
	one.used, err = m.end(impl.sends)
	return one, errors.Join(err, ctx.Err())
}
