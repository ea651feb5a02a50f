// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// held is many locks that are held for three leases. It runs once: it is long enough in
// itself.
func held(b *bench) ([]table, error) {
	all, err := b.interleave(only(b.chosen, ownName, "rueidislock"), 1, b.hold)
	title := fmt.Sprintf("%s locks held for %v, lease %v", number(float64(b.scale.held)), b.scale.heldFor, b.scale.heldLease)
	note := "Each renews by its own default, which is at a third of the lease for signalbox and at the half for rueidislock."
	second := func(f figure) figure {
		return func(s sample) float64 { return f(s) / s.elapsed.Seconds() }
	}
	return []table{tabulate(title, note, all, []column{
		{"lost", medianOf(named("lost"), number)},
		{"keys gone", medianOf(named("gone"), number)},
		{"requests/s", medianOf(second(requests), number)},
		{"commands/s", medianOf(second(commands), number)},
		{"server CPU", medianOf(second(serverCPU), percent)},
		{"client CPU", medianOf(second(clientCPU), percent)},
		{"heap/lock", medianOf(named("heap"), size)},
		{"stack/lock", medianOf(named("stacks"), size)},
		{"goroutines", medianOf(named("goroutines"), number)},
		{"acquired in", medianOf(named("acquired in"), span)},
		{"released in", medianOf(named("released in"), span)},
	})}, err
}

func (b *bench) hold(impl implementation) (one sample, err error) {
	processes, end, err := b.start(impl, 1, setup{lease: b.scale.heldLease})
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	p, ok := processes[0].(holder)
	if !ok {
		return sample{}, errors.New("its leases are not renewed")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := warm(ctx, p); err != nil {
		return sample{}, err
	}
	if err := b.clear(); err != nil {
		return sample{}, err
	}
	return b.holdWith(ctx, impl, p.keeper(b.scale.held))
}

// holdWith acquires the locks, watches them and releases them.
func (b *bench) holdWith(ctx context.Context, impl implementation, k keeper) (one sample, err error) {
	n := b.scale.held
	one.figures = make(map[string]float64)
	names := make([]string, n)
	for i := range names {
		names[i] = numbered("held/", i)
	}
	before := remains()
	began := time.Now()
	// The locks live on ctx, not on the context of taking them, which ends.
	if err := spread(ctx, n, func(_ context.Context, i int) error { return k.keep(ctx, i, names[i]) }); err != nil {
		return sample{}, fmt.Errorf("lock: %w", err)
	}
	one.figures["acquired in"] = time.Since(began).Seconds()
	after := remains()
	one.figures["heap"], one.figures["stacks"] = after.eachOf(n, before)
	one.figures["goroutines"] = float64(after.goroutines - before.goroutines)
	if err := b.watchHeld(ctx, impl, k, &one); err != nil {
		return sample{}, err
	}
	began = time.Now()
	err = spread(ctx, n, func(_ context.Context, i int) error { return k.drop(i) })
	one.figures["released in"] = time.Since(began).Seconds()
	if one.figures["lost"] > 0 {
		err = nil // the figure shows it
	}
	return one, err
}

// watchHeld measures what holding costs, and whether it holds.
func (b *bench) watchHeld(ctx context.Context, impl implementation, k keeper, one *sample) error {
	m, err := begin(b.server)
	if err != nil {
		return err
	}
	began := time.Now()
	pause(ctx, b.scale.heldFor)
	one.elapsed = time.Since(began)
	if one.used, err = m.end(impl.sends); err != nil {
		return err
	}
	one.figures["lost"] = float64(k.lost())
	return b.countKeys(b.scale.held, one)
}

// countKeys counts the keys of held locks that the server no longer has.
func (b *bench) countKeys(held int, one *sample) error {
	keys, err := b.server.Do("DBSIZE")
	if err != nil {
		return err
	}
	there, _ := keys.(int64)
	one.figures["gone"] = float64(int64(held) - there)
	return nil
}
