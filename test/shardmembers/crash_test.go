// SPDX-License-Identifier: Apache-2.0

package shardmembers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
)

// mostGap is for how long a shard of the dead has no owner, by guarantee 4.
const mostGap = lease + 3*time.Second

// Members start together, with weights, limits and drains, and die one after the other at any moment: their connections end, and
// they say nothing any more. Each crash moves the shards of the dead alone.
func TestACrashOnAServerMovesTheShardsOfTheDeadAlone(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the leases of members that died have to expire on the server")
	crashes(t, 5, func() func() bool {
		left := 2
		return func() bool { left--; return left >= 0 }
	})
}

func TestSoakACrashOnAServerMovesTheShardsOfTheDeadAlone(t *testing.T) {
	t.Parallel()
	locktest.Soak(t)
	crashes(t, 25, func() func() bool { return locktest.Soak(t) })
}

// crashes lets members of so many groups die, while there is time for more.
func crashes(t *testing.T, groups int, newMore func() (more func() bool)) {
	t.Helper()
	server := redistest.Start(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	crashes, lost, orphans, free, moves, gaps := 0, 0, 0, 0, 0, []time.Duration{}
	for n := range groups {
		all.Go(func() {
			g := &dying{T: t, server: server, random: rand.New(rand.NewPCG(rand.Uint64(), 1)), name: fmt.Sprint("g", n), owners: make(map[string]owning)}
			defer g.end()
			for more := newMore(); more() && g.crash(); {
				mu.Lock()
				if g.isLost {
					lost++
				} else {
					crashes, orphans, free, moves, gaps = crashes+1, orphans+g.orphans, free+g.free, moves+g.moves, append(gaps, g.gaps...)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.NotEmpty(t, gaps)
	slices.Sort(gaps)
	t.Logf("%d crashes, %d moves for %d shards of the dead, %d of which no member takes; the others had no owner for %v, at most %v; %d crashes more in which another member lost its lease",
		crashes, moves, orphans, free, gaps[len(gaps)/2], gaps[len(gaps)-1], lost)
}

// dying is a group whose members die.
type dying struct {
	*testing.T

	server *redistest.Server
	random *rand.Rand
	name   string
	count  int
	alive  []*mortal
	ends   []func()

	// What the last crash was.
	orphans, free, moves int
	gaps                 []time.Duration

	mu     sync.Mutex
	owners map[string]owning
	starts int
	isLost bool // a member that lives has lost its lease: the machine is busy
}

// owning is the last ownership of a shard.
type owning struct {
	member *mortal
	token  uint64
	began  time.Time
	losses int
}

// mortal is a member.
type mortal struct {
	proxy         *redistest.Proxy
	weight, limit int
	isDead        bool // guarded by the group's mu
}

// start starts a member.
func (g *dying) start() {
	m := &mortal{weight: 1 + g.random.IntN(4), limit: shards.MaxShards}
	if g.random.IntN(4) == 0 {
		m.limit = 1 + g.random.IntN(g.count)
	}
	drain := time.Duration(g.random.Int64N(int64(300 * time.Millisecond)))
	var err error
	m.proxy, err = redistest.StartProxy(g.server.Addr())
	must(err)
	s, err := signalbox.Dial(context.Background(), m.proxy.URL(), signalbox.WithLogger(slog.New(slog.DiscardHandler)))
	must(err)
	group := shards.New(s, g.name, shards.Count(g.count), shards.Weight(m.weight), shards.Limit(m.limit),
		shards.RebalanceDelay(300*time.Millisecond), signalbox.WithRenewedLease(lease))
	ctx, cancel := context.WithCancel(context.Background())
	returned := make(chan struct{})
	go func() { // until the group ends
		defer close(returned)
		_ = group.Run(ctx, func(ctx context.Context, s shards.Shard) error {
			g.begins(m, s)
			<-ctx.Done()
			g.ended(m, s)
			pause(context.Background(), drain)
			return nil
		})
	}()
	g.ends = append(g.ends, func() {
		cancel()
		_ = s.Close(locktest.Ended())
		<-returned
		m.proxy.Close()
	})
	g.alive = append(g.alive, m)
}

func (g *dying) begins(m *mortal, s shards.Shard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owners[s.Name()] = owning{m, s.Token(), time.Now(), s.Losses()}
	g.starts++
}

func (g *dying) ended(m *mortal, s shards.Shard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.owners[s.Name()].token == s.Token() {
		delete(g.owners, s.Name())
	}
	g.isLost = g.isLost || !m.isDead && errors.Is(s.Err(), signalbox.ErrLost)
}

func (g *dying) end() {
	for _, end := range g.ends {
		end()
	}
}

// loads returns how many shards each member owns.
func (g *dying) loads() map[*mortal]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	loads := make(map[*mortal]int)
	for _, o := range g.owners {
		loads[o.member]++
	}
	return loads
}

// isEven reports whether no move is due, and no member may take a shard that has no owner.
func (g *dying) isEven() bool {
	loads, sum := g.loads(), 0
	for _, m := range g.alive {
		sum += loads[m]
	}
	for _, to := range g.alive {
		if loads[to] >= to.limit {
			continue
		}
		if sum < g.count {
			return false
		}
		for _, from := range g.alive {
			if (2*loads[from]-1)*to.weight > (2*loads[to]+1)*from.weight {
				return false
			}
		}
	}
	return true
}

// awaitEven waits until nothing is due, and each member has polled since.
func (g *dying) awaitEven() bool {
	sent := make(map[*mortal]int)
	return redistest.PollUntil(limit, func() bool {
		if !g.isEven() {
			clear(sent)
			return false
		}
		polled := true
		for _, m := range g.alive {
			if _, is := sent[m]; !is {
				sent[m] = m.proxy.Requests() + 4
			}
			polled = polled && m.proxy.Requests() > sent[m]
		}
		return polled
	})
}

// crash starts members, waits until nothing moves, and ends one.
func (g *dying) crash() bool {
	if g.count == 0 {
		g.count = 8 + g.random.IntN(40)
	}
	for most := 2 + g.random.IntN(4); len(g.alive) < most; {
		g.start()
		pause(g.Context(), time.Duration(g.random.Int64N(int64(300*time.Millisecond))))
	}
	if !assert.True(g, g.awaitEven(), "%s is not even: %v of %d", g.name, g.loads(), g.count) {
		return false
	}
	pause(g.Context(), time.Duration(g.random.Int64N(int64(6*time.Second))))
	at := g.random.IntN(len(g.alive))
	dead := g.alive[at]
	g.alive = slices.Delete(g.alive, at, at+1)
	g.mu.Lock()
	before := maps.Clone(g.owners)
	dead.isDead, g.starts, g.isLost, g.gaps = true, 0, false, nil
	g.mu.Unlock()
	died := time.Now()
	dead.proxy.Refuse()
	if g.random.IntN(2) == 0 {
		dead.proxy.HalfOpenAll()
	} else {
		dead.proxy.CutAll()
	}
	g.orphans = 0
	g.mu.Lock()
	for name, o := range before {
		if o.member == dead {
			g.orphans++
			if g.owners[name].token == o.token {
				delete(g.owners, name)
			}
		}
	}
	g.mu.Unlock()
	if !assert.True(g, g.awaitEven(), "%s is not even after a crash: %v of %d", g.name, g.loads(), g.count) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.moves, g.free = g.starts, min(g.orphans, g.count-len(g.owners))
	if g.isLost {
		return true
	}
	for name, o := range before {
		now := g.owners[name]
		switch {
		case o.member != dead:
			assert.Equal(g, o.token, now.token, "%s: shard %s of a member that lives", g.name, name)
		case now.member != nil && now.losses < 3:
			g.gaps = append(g.gaps, now.began.Sub(died))
			assert.Less(g, now.began.Sub(died), mostGap)
		}
	}
	return assert.Equal(g, g.orphans-g.free, g.moves, "%s: moves for the shards of the dead", g.name)
}
