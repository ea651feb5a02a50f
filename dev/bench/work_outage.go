// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// outage is sessions that hold locks while the server is stopped, and how the requests of all of them come when it continues.
// It runs once.
func outage(b *bench) ([]table, error) {
	all, err := b.interleave(only(b.chosen, ownName, "rueidislock"), 1, b.stopped)
	title := fmt.Sprintf("%d processes hold %s locks each while the server stops for %v, lease %v",
		b.scale.outageProcesses, number(float64(b.scale.outageHeld)), b.scale.outage, b.scale.lease)
	note := fmt.Sprintf("The server gets SIGSTOP and, after %v, SIGCONT. Requests and commands are counted from then on.", b.scale.outage)
	return []table{tabulate(title, note, all, []column{
		{"lost", medianOf(named("lost"), number)},
		{"keys gone", medianOf(named("gone"), number)},
		{"requests, first second", medianOf(named("requests 1"), number)},
		{"commands", medianOf(named("commands 1"), number)},
		{"requests, the next", medianOf(named("requests 2"), number)},
		{"commands", medianOf(named("commands 2"), number)},
		{"server CPU, first second", medianOf(named("server"), percent)},
	})}, err
}

// stopped measures an implementation.
func (b *bench) stopped(impl implementation) (one sample, err error) {
	processes, end, err := b.start(impl, b.scale.outageProcesses, setup{lean: true})
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var keepers []keeper
	for i, p := range processes {
		held, ok := p.(holder)
		if !ok {
			return sample{}, errors.New("its leases are not renewed")
		}
		k := held.keeper(b.scale.outageHeld)
		err := spread(ctx, b.scale.outageHeld, func(_ context.Context, j int) error {
			return k.keep(ctx, j, numbered(numbered("outage/", i)+"/", j))
		})
		if err != nil {
			return sample{}, fmt.Errorf("lock: %w", err)
		}
		keepers = append(keepers, k)
	}
	pause(ctx, b.scale.outageAfter)
	b.server.Freeze()
	pause(ctx, b.scale.outage)
	one.figures = make(map[string]float64)
	b.server.Thaw()
	if err := b.firstSeconds(ctx, impl, &one); err != nil {
		return sample{}, err
	}
	if err := b.countKeys(b.scale.outageHeld*b.scale.outageProcesses, &one); err != nil {
		return sample{}, err
	}
	for _, k := range keepers {
		one.figures["lost"] += float64(k.lost())
		if err := spread(ctx, b.scale.outageHeld, func(_ context.Context, i int) error { return k.drop(i) }); err != nil {
			return sample{}, fmt.Errorf("unlock: %w", err)
		}
	}
	return one, nil
}

// firstSeconds counts what the server gets when it continues.
func (b *bench) firstSeconds(ctx context.Context, impl implementation, one *sample) error {
	for _, second := range []string{" 1", " 2"} {
		m, err := begin(b.server)
		if err != nil {
			return err
		}
		pause(ctx, time.Second)
		used, err := m.end(impl.sends)
		if err != nil {
			return err
		}
		one.figures["requests"+second], one.figures["commands"+second] = float64(used.requests), float64(used.commands)
		if second == " 1" {
			one.figures["server"] = used.serverCPU.Seconds()
		}
	}
	return nil
}
