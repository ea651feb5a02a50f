// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// shardsWork is groups of shards: what they cost, and what moves when a member joins, when half of the members are killed, and when
// all are replaced one by one. It runs once.
func shardsWork(b *bench) ([]table, error) {
	idle, joins, deaths := shardTables(b)
	for _, n := range b.scale.shards {
		for _, m := range b.scale.shardMembers {
			if m >= n {
				continue // a member more would get none
			}
			rows, err := b.joinAndKill(n, m)
			if err != nil {
				return nil, fmt.Errorf("%d shards, %d members: %w", n, m, err)
			}
			idle.rows, joins.rows = append(idle.rows, rows.idle), append(joins.rows, rows.join)
			if rows.killed != nil {
				deaths.rows = append(deaths.rows, rows.killed)
			}
		}
	}
	rolling, err := rollingShards(b)
	return []table{idle, joins, deaths, rolling}, err
}

// shardTables returns the tables without their rows.
func shardTables(b *bench) (idle, joins, deaths table) {
	of := []string{"shards", "members"}
	moved := []string{"moves", "minimum", "even after", "gap p50", "p99", "max", "calls", "server time"}
	idle = table{
		title: "A group of shards at rest",
		note: fmt.Sprintf("For %v, when all shards have owners and none moves. Calls are scripts, those of all members, and the server's time is that in scripts. "+
			"Memory is that of the group's keys, and the heap of this process, which is that of all members and their sessions.", b.scale.shardIdle),
		header: slices.Concat(of, []string{"calls/s", "server time/s", "server B/shard", "heap/shard"}),
	}
	joins = table{
		title: "A member more for a group of shards",
		note: "From the call of Join until all members own as many shards as each other. The first 2 s are RebalanceDelay. A gap is the time " +
			"from the release of a shard to its grant; no work has to stop. Calls and server time include the polls of all members.",
		header: slices.Concat(of, moved),
	}
	deaths = table{
		title: "Half of the members of a group of shards are killed",
		note: fmt.Sprintf("The clients of the oldest half are closed, without a Leave. Gaps begin there. The lease is %v; one of a member younger than "+
			"12 s is 3 s and its age.", b.scale.shardLease),
		header: slices.Concat(of, []string{"killed"}, moved),
	}
	return idle, joins, deaths
}

// shardRows are the rows of one group; killed is nil if none was.
type shardRows struct{ idle, join, killed []string }

// joinAndKill measures a group of n shards and m members.
func (b *bench) joinAndKill(n, m int) (rows shardRows, err error) {
	if err := b.clear(); err != nil {
		return rows, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	g := newShardGroup(b, n)
	defer func() { err = errors.Join(err, g.end()) }()
	if err := g.connect(m); err != nil {
		return rows, err
	}
	before := remains()
	if _, err := g.measure(ctx, g.joinAll); err != nil {
		return rows, err
	}
	heap, _ := remains().eachOf(n, before)
	of := []string{number(float64(n)), number(float64(m))}
	if rows.idle, err = b.idleShards(ctx, g, heap); err != nil {
		return rows, err
	}
	joined, err := g.measure(ctx, func(ctx context.Context) error {
		if err := g.connect(1); err != nil {
			return err
		}
		return g.joinAll(ctx)
	})
	if err != nil {
		return rows, err
	}
	rows.idle, rows.join = slices.Concat(of, rows.idle), slices.Concat(of, joined.cells(n/(m+1)))
	if !slices.Contains(b.scale.shardKilled, m) {
		return rows, nil
	}
	lost := 0
	killed, err := g.measure(ctx, func(context.Context) error {
		lost = g.kill(m / 2)
		return nil
	})
	rows.killed = slices.Concat(of[:1], []string{number(float64(m + 1)), number(float64(m / 2))}, killed.cells(lost))
	return rows, err
}

// idleShards returns what a group costs at rest.
func (b *bench) idleShards(ctx context.Context, g *shardGroup, heap float64) ([]string, error) {
	kept, err := keptBytes(b.server)
	if err != nil {
		return nil, err
	}
	before, began := b.server.CommandStats(), time.Now()
	pause(ctx, b.scale.shardIdle)
	after, seconds := b.server.CommandStats(), time.Since(began).Seconds()
	return []string{
		number(float64(scriptCalls(before, after)) / seconds), span(scriptTime(before, after).Seconds() / seconds),
		size(kept / float64(g.total)), size(heap),
	}, nil
}

// keptBytes returns the memory of all keys of the server.
func keptBytes(server *redistest.Server) (float64, error) {
	keys, err := server.Do("KEYS", "*")
	if err != nil {
		return 0, err
	}
	all, ok := keys.([]any)
	if !ok {
		return 0, fmt.Errorf("KEYS returned %T", keys)
	}
	total := int64(0)
	for _, key := range all {
		used, err := server.Do("MEMORY", "USAGE", fmt.Sprint(key), "SAMPLES", "0")
		if err != nil {
			return 0, err
		}
		bytes, _ := used.(int64) // nil if the key has ended meanwhile
		total += bytes
	}
	return float64(total), nil
}

// rollingShards replaces all members of groups of shards, one by one.
func rollingShards(b *bench) (table, error) {
	t := table{
		title: fmt.Sprintf("A rolling restart of %d members of a group of shards", b.scale.shardRolled),
		note: fmt.Sprintf("Each member is replaced when the shards are even after the one before. First each new member joins at once before its "+
			"predecessor leaves, then each leaves before its successor joins. RebalanceDelay is %v. The minimum is one move for each shard.", b.scale.shardDelay),
		header: []string{
			"shards", "minimum", "joins first: moves", "gap p50", "p99", "max", "took",
			"leaves first: moves", "gap p50", "p99", "max", "took",
		},
	}
	for _, n := range b.scale.shards {
		row := []string{number(float64(n)), number(float64(n))}
		for _, replace := range []func(context.Context, *shardGroup, *shardMember) error{joinFirst, leaveFirst} {
			moved, err := b.rollShards(n, replace)
			if err != nil {
				return t, fmt.Errorf("rolling, %d shards: %w", n, err)
			}
			row = append(row, number(float64(moved.moves)), moved.gap(0.5), moved.gap(0.99), span(moved.gaps.max.Seconds()), span(moved.took.Seconds()))
		}
		t.rows = append(t.rows, row)
	}
	return t, nil
}

func joinFirst(ctx context.Context, g *shardGroup, old *shardMember) error {
	return errors.Join(g.connect(1), g.joinAll(ctx), g.leave(ctx, old))
}

func leaveFirst(ctx context.Context, g *shardGroup, old *shardMember) error {
	return errors.Join(g.leave(ctx, old), g.connect(1), g.joinAll(ctx))
}

// rollShards measures one rolling restart, in which replace replaces each member.
func (b *bench) rollShards(n int, replace func(context.Context, *shardGroup, *shardMember) error) (all shardMoves, err error) {
	if err := b.clear(); err != nil {
		return all, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	g := newShardGroup(b, n)
	g.delay = b.scale.shardDelay
	defer func() { err = errors.Join(err, g.end()) }()
	if err := g.connect(b.scale.shardRolled); err != nil {
		return all, err
	}
	if _, err := g.measure(ctx, g.joinAll); err != nil {
		return all, err
	}
	all.gaps = new(waits)
	for _, old := range slices.Clone(g.members) {
		one, err := g.measure(ctx, func(ctx context.Context) error { return replace(ctx, g, old) })
		if err != nil {
			return all, err
		}
		all.add(one)
	}
	return all, nil
}
