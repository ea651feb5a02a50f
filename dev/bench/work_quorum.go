// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

const (
	// quorumServers is how many servers that share nothing give the locks of the work quorum.
	quorumServers = 5
	// distance is what the way to each of them takes longer, in each direction.
	distance = 5 * time.Millisecond
)

// establish lets a server look as one that has had its data for a day: one that is new grants no lock of a quorum for a
// lease.
const establish = `
local life = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local since = string.format('%016.0f', redis.call('TIME')[1] * 1000000 - 86400000000)
return redis.call('SET', KEYS[1], 'sb1e' .. since .. since .. life, 'PX', 604800000)`

// quorum is one goroutine that locks and unlocks over five servers, on loopback and at a distance.
func quorum(b *bench) (tables []table, err error) {
	servers := make([]*redistest.Server, quorumServers)
	near, far := make([]string, quorumServers), make([]string, quorumServers)
	for i := range servers {
		if servers[i], err = redistest.StartServer(); err != nil {
			return nil, err
		}
		defer servers[i].Close()
		proxy, err := redistest.StartProxy(servers[i].Addr())
		if err != nil {
			return nil, err
		}
		defer proxy.Close()
		proxy.SetLatency(distance)
		near[i], far[i] = servers[i].Addr(), proxy.Addr()
	}
	q := &bench{server: servers[0], scale: b.scale, chosen: alsoOver(b.chosen), empty: func() error {
		for _, s := range servers {
			if _, err := s.Do("FLUSHALL"); err != nil {
				return err
			}
			if _, err := s.Do("EVAL", establish, 1, "sb:epoch"); err != nil {
				return err
			}
		}
		return nil
	}}
	q.addrs = near
	all, err := q.sideBySide(q.chosen, topology{1, 1, func(ctx context.Context, p process, _ int) locker { return p.locker(ctx, "again") }})
	if err != nil {
		return nil, err
	}
	tables = append(tables, q.loopTable("5 servers on loopback, 1 goroutine, the same name each time", all))
	q.addrs = far
	all, err = q.interleave(q.chosen, q.scale.rounds, q.steps)
	if err != nil {
		return nil, err
	}
	note := "Through proxies that delay by 5 ms in each direction. A round trip is a bare script on one server, through a proxy as well."
	return append(tables, tabulate("5 servers at a distance, 1 goroutine", note, all, stepColumns())), nil
}

// alsoOver returns the implementations over several servers whose names were chosen, and those that go with them.
func alsoOver(chosen []implementation) []implementation {
	return slices.DeleteFunc(quorumImplementations(), func(impl implementation) bool {
		name := impl.name
		if name == fencedName {
			name = ownName
		}
		return len(only(chosen, name)) == 0
	})
}

func stepColumns() []column {
	trips := func(step string) figure {
		return func(s sample) float64 { return s.figures[step] / s.figures["round trip"] }
	}
	return []column{
		{"lock p50", medianOf(named("lock"), span)},
		{"lock in round trips", medianOf(trips("lock"), share)},
		{"unlock p50", medianOf(named("unlock"), span)},
		{"unlock in round trips", medianOf(trips("unlock"), share)},
		{"round trip", medianOf(named("round trip"), span)},
	}
}

// steps takes the time of locks and of unlocks apart.
func (b *bench) steps(impl implementation) (one sample, err error) {
	processes, end, err := b.start(impl, 1, setup{})
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	bare, err := startLimit(setup{addr: b.addrs[0], lease: b.scale.lease})
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	ctx := context.Background()
	trip, l := bare.locker(ctx, "trip"), processes[0].locker(ctx, "again")
	var locks, unlocks, trips waits
	for began := time.Now(); one.ops < 2*fewest || time.Since(began) < b.scale.window; one.ops++ {
		// The first ones make connections, and teach the servers the scripts.
		warm := one.ops < fewest
		var unlock func() error
		if err := timed(&trips, warm, func() (err error) { unlock, err = trip.Lock(ctx); return err }); err != nil {
			return sample{}, err
		}
		if err := unlock(); err != nil {
			return sample{}, err
		}
		if err := timed(&locks, warm, func() (err error) { unlock, err = l.Lock(ctx); return err }); err != nil {
			return sample{}, err
		}
		if err := timed(&unlocks, warm, func() error { return unlock() }); err != nil {
			return sample{}, err
		}
	}
	one.waits = &locks
	one.figures = map[string]float64{
		"lock": locks.quantile(0.5).Seconds(), "unlock": unlocks.quantile(0.5).Seconds(), "round trip": trips.quantile(0.5).Seconds(),
	}
	return one, nil
}

// timed adds how long do took, unless that is warming up.
func timed(to *waits, warm bool, do func() error) error { //nolint:revive // whether it counts
	began := time.Now()
	err := do()
	if !warm {
		to.add(time.Since(began))
	}
	return err
}
