// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/shards"
)

// shardGroup is a group of shards whose members are all in this process, and what they own. The goroutine that measures uses it;
// those that read the changes of members use what mu guards.
type shardGroup struct {
	bench   *bench
	total   int
	delay   time.Duration
	members []*shardMember
	gone    []*shardMember
	running sync.WaitGroup

	mu struct {
		sync.Mutex

		owners  map[string]*shardMember
		free    map[string]time.Time // when a shard was released, or its owner killed
		moves   int
		gaps    *waits
		last    time.Time     // the time of the last change
		changed chan struct{} // closed at the next one
	}
}

// shardMember is a process with a member, once it has joined.
type shardMember struct {
	process *signalboxProcess
	member  *shards.Member
	owned   int
	isDead  bool
}

// shardMoves is what moved in one measurement.
type shardMoves struct {
	moves      int
	took       time.Duration
	gaps       *waits
	calls      int64
	serverTime time.Duration
}

func (m *shardMoves) gap(q float64) string { return span(m.gaps.quantile(q).Seconds()) }

// cells returns the figures beside the least number of moves.
func (m *shardMoves) cells(least int) []string {
	return []string{
		number(float64(m.moves)), number(float64(least)), span(m.took.Seconds()),
		m.gap(0.5), m.gap(0.99), span(m.gaps.max.Seconds()), number(float64(m.calls)), span(m.serverTime.Seconds()),
	}
}

func (m *shardMoves) add(other shardMoves) {
	m.moves += other.moves
	m.took += other.took
	m.gaps.merge(other.gaps)
}

func newShardGroup(b *bench, total int) *shardGroup {
	g := &shardGroup{bench: b, total: total, delay: shards.DefaultRebalanceDelay}
	g.mu.owners, g.mu.free = make(map[string]*shardMember), make(map[string]time.Time)
	g.mu.gaps, g.mu.changed = new(waits), make(chan struct{})
	return g
}

// connect starts n processes, which have not joined yet. They log nothing: those that are killed would log each loss.
func (g *shardGroup) connect(n int) error {
	for range n {
		client, err := tunedClient(setup{addr: g.bench.server.Addr(), lean: true})
		if err != nil {
			return err
		}
		session := signalbox.NewSession(client, signalbox.WithLogger(slog.New(slog.DiscardHandler)))
		g.members = append(g.members, &shardMember{process: &signalboxProcess{client: client, session: session}})
	}
	return nil
}

// joinAll lets those processes join that have not joined yet, all at once.
func (g *shardGroup) joinAll(ctx context.Context) error {
	return spread(ctx, len(g.members), func(ctx context.Context, i int) (err error) {
		m := g.members[i]
		if m.member != nil {
			return nil
		}
		group := shards.New(m.process.session, "shards", shards.Count(g.total), shards.RebalanceDelay(g.delay),
			signalbox.WithRenewedLease(g.bench.scale.shardLease))
		if m.member, err = group.Join(ctx); err == nil {
			g.running.Go(func() { g.follow(m) })
		}
		return err
	})
}

// follow releases each shard at once when it is asked for.
func (g *shardGroup) follow(m *shardMember) {
	for change := range m.member.Changes() {
		name := change.Shard.Name()
		if change.Kind == shards.Granted {
			g.record(func(now time.Time) { g.grantedLocked(m, name, now) })
			continue
		}
		g.record(func(now time.Time) { g.freeLocked(m, name, now) })
		_ = change.Shard.Release() // ErrLost in a member that was killed
	}
}

func (g *shardGroup) record(do func(now time.Time)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	do(now)
	g.mu.last = now
	close(g.mu.changed)
	g.mu.changed = make(chan struct{})
}

func (g *shardGroup) grantedLocked(m *shardMember, name string, now time.Time) {
	if released, has := g.mu.free[name]; has {
		g.mu.gaps.add(now.Sub(released))
		delete(g.mu.free, name)
	}
	g.mu.moves++
	g.mu.owners[name] = m
	m.owned++
}

func (g *shardGroup) freeLocked(m *shardMember, name string, now time.Time) {
	if g.mu.owners[name] != m {
		return // it was killed
	}
	delete(g.mu.owners, name)
	g.mu.free[name] = now
	m.owned--
}

// measure does something, and returns what moved until the shards are even after it.
func (g *shardGroup) measure(ctx context.Context, do func(context.Context) error) (shardMoves, error) {
	g.mu.Lock()
	g.mu.moves, g.mu.gaps = 0, new(waits)
	g.mu.Unlock()
	before, began := g.bench.server.CommandStats(), time.Now()
	if err := do(ctx); err != nil {
		return shardMoves{}, err
	}
	ended, err := g.awaitEven(ctx)
	if err != nil {
		return shardMoves{}, err
	}
	after := g.bench.server.CommandStats()
	g.mu.Lock()
	defer g.mu.Unlock()
	return shardMoves{g.mu.moves, ended.Sub(began), g.mu.gaps, scriptCalls(before, after), scriptTime(before, after)}, nil
}

// awaitEven waits until every shard has an owner, and the members have as many as each other. It returns the time of the last
// change.
func (g *shardGroup) awaitEven(ctx context.Context) (time.Time, error) {
	for {
		g.mu.Lock()
		changed, last, owned := g.mu.changed, g.mu.last, len(g.mu.owners)
		least, most := g.total, 0
		for _, m := range g.members {
			least, most = min(least, m.owned), max(most, m.owned)
		}
		g.mu.Unlock()
		if owned == g.total && most-least <= 1 {
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return last, fmt.Errorf("%d of %d shards have owners, and members own from %d to %d", owned, g.total, least, most)
		}
	}
}

// leave lets a member leave in order.
func (g *shardGroup) leave(ctx context.Context, m *shardMember) error {
	g.remove(m)
	return m.member.Leave(ctx)
}

func (g *shardGroup) remove(m *shardMember) {
	g.members = slices.DeleteFunc(g.members, func(other *shardMember) bool { return other == m })
	g.gone = append(g.gone, m)
}

// kill cuts the n oldest members off the server, and returns how many shards they had.
func (g *shardGroup) kill(n int) (lost int) {
	for _, m := range slices.Clone(g.members[:n]) {
		m.process.client.Close()
		m.isDead = true
		g.remove(m)
		g.record(func(now time.Time) {
			for name, owner := range g.mu.owners {
				if owner == m {
					lost++
					g.freeLocked(m, name, now)
				}
			}
		})
	}
	return lost
}

// end ends all members, and then their processes. A session whose client was closed reports that it could not confirm the end.
func (g *shardGroup) end() error {
	var ending sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, m := range slices.Concat(g.members, g.gone) {
		ending.Go(func() {
			if err := m.process.close(); err != nil && !m.isDead {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	ending.Wait()
	g.running.Wait()
	return errors.Join(errs...)
}
