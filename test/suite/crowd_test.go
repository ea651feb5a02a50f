// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// crowdOf is actors that use one name on real servers, while they are killed and stopped and the servers fail, without loss of data.
type crowdOf struct {
	*World

	chance

	kind    Kind
	seed    uint64
	servers []*redistest.Server // its own; none in a cluster, which it shares
	cluster *redistest.Cluster
	urls    string
	actors  []*actor // those that were killed too
	alive   []*actor
	stops   int    // how often an actor was stopped
	storm   *storm // nil for a crowd that is not in one
}

// actor is a process, and what it has said. One goroutine reads, until it has died.
type actor struct {
	*redistest.Process

	number int
	rival  bool
	read   chan struct{} // closed when all is read

	mu   sync.Mutex
	said []string // guarded by mu
	uses int      // how often it took the lock; guarded by mu

	takes  []int64    // when it had the lock, by its own word; guarded by mu
	frozen []interval // when it was stopped; only the test's goroutine uses it
}

// P1, P2, P3, P6, P8: while processes of a crowd are killed and stopped at any moment, connections end, the server restarts with
// its data and a slot of a cluster moves, what the others say of their holds is the history of one lock, and they continue.
func TestProcessesAreKilledAndStopped(t *testing.T) {
	t.Parallel()
	eachCrowd(t, func(c *crowdOf) {
		for _, incident := range c.incidents() {
			c.after(incident)
		}
	})
}

func TestSoakOnBadWires(t *testing.T) { //nolint:paralleltest // has the machine to itself
	soakEach(t, "bad wires", (*World).onBadWires)
}

func TestSoakAmongMishaps(t *testing.T) { //nolint:paralleltest // has the machine to itself
	soakEach(t, "mishaps", (*World).onMishaps)
}

// soakEach runs a crowd for five minutes of each kind, seed by seed.
func soakEach(t *testing.T, name string, run func(w *World, k Kind, seed uint64, lasts time.Duration)) {
	t.Helper()
	kinds := Kinds()
	seed, only := locktest.Seed(t), os.Getenv("SIGNALBOX_CELL")
	for more := locktest.Soak(t); more(); seed++ {
		for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(kinds)) {
			k := kinds[i]
			// A seed that is repeated is run whole: more has been asked for it.
			if k.Fits != nil || !strings.HasPrefix(k.Name, only) || only == "" && !more() {
				continue
			}
			t.Run(fmt.Sprint(k.Name, "/", seed), func(t *testing.T) {
				defer func() {
					if t.Failed() {
						parent, _, _ := strings.Cut(t.Name(), "/")
						t.Logf("SIGNALBOX_SEED=%d SIGNALBOX_CELL=%q SIGNALBOX_SOAK=1ns go test ./suite -run '^%s$'", seed, k.Name, parent)
					}
				}()
				began := time.Now()
				inWorld(t, virtual, max(k.Servers, 1), func(w *World) {
					epoch := time.Now()
					run(w, k, seed, 5*time.Minute)
					tally.Time("virtual", "time", time.Since(epoch))
				})
				tally.Time("virtual", "on the wall", time.Since(began))
				tally.Add("seeds", name, 1)
			})
		}
	}
}

func eachCrowd(t *testing.T, run func(c *crowdOf)) {
	t.Helper()
	for _, world := range worlds() {
		for _, k := range crowdKinds() {
			if world != single && (world != clustered || k.Servers > 1) {
				continue
			}
			t.Run(k.Name+"/"+world, func(t *testing.T) {
				t.Parallel()
				c := newCrowd(t, world, k)
				defer c.end()
				run(c)
				c.judged()
			})
		}
	}
}

const clustered = "cluster"

// newCrowd starts four actors, every other one a rival.
func newCrowd(t *testing.T, world string, k Kind) *crowdOf {
	t.Helper()
	redistest.NeedServer(t)
	c := &crowdOf{kind: k, seed: locktest.Seed(t)}
	c.chance = chance{newDice(c.seed, crowdDice)}
	var tops []redistest.Topology
	if world == clustered {
		top, err := startServers(world)
		require.NoError(t, err)
		c.cluster, _ = top.(*redistest.Cluster)
		tops = append(tops, top)
		c.urls = c.cluster.Servers()[0].URL() + "?addr=" + c.cluster.Servers()[1].Addr()
	} else {
		var urls []string
		for range max(k.Servers, 1) {
			s := redistest.Start(t, redistest.WithArgs("--dir", t.TempDir(), "--appendonly", "yes", "--appendfsync", "always"))
			c.servers, tops, urls = append(c.servers, s), append(tops, s), append(urls, s.URL())
		}
		c.urls = strings.Join(urls, " ")
	}
	c.World = newRealOn(t, tops...)
	for i := range 4 {
		c.begin(i%2 == 1)
	}
	return c
}

// begin starts a further actor, of one side or of its rivals.
func (c *crowdOf) begin(rival bool) { //nolint:revive // which of two sides
	c.Helper()
	a := &actor{number: len(c.actors), rival: rival, read: make(chan struct{})}
	env := []string{
		kindEnv + "=" + c.kind.Name, urlsEnv + "=" + c.urlsOf(rival), nameEnv + "=" + c.prefix + crowdName,
		seedEnv + "=" + strconv.FormatUint(c.seed+uint64(a.number), 10),
	}
	if c.storm != nil {
		env = append(env, c.storm.env...)
	}
	if a.rival {
		env = append(env, rivalEnv+"=yes")
	}
	a.Process = redistest.Child(c.T, actorName, env...)
	line, err := a.ReadLine(redistest.WaitLimit)
	require.NoError(c, err, a.Stderr())
	require.Equal(c, began, line)
	go func() { // ends with the process
		defer close(a.read)
		for {
			line, err := a.ReadLine(redistest.WaitLimit)
			if err != nil {
				return
			}
			a.mu.Lock()
			a.said = append(a.said, line)
			var did action
			if _, err := fmt.Sscan(line, &did.verb, &did.who, &did.token, &did.from, &did.to); err == nil && did.verb == took {
				a.uses++
				a.takes = append(a.takes, did.to)
			}
			a.mu.Unlock()
		}
	}()
	c.actors, c.alive = append(c.actors, a), append(c.alive, a)
}

const actorName, crowdName = "actor", "crowd"

// crowdDice is the number of the dice of what happens to a crowd, beside those of its actors.
const crowdDice = 1 << 32

// taken returns how often the actor took the lock.
func (a *actor) taken() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.uses
}

// holder returns a living actor that has the lock, by its own last word, nil if there is none.
func (c *crowdOf) holder() *actor {
	for _, a := range c.alive {
		a.mu.Lock()
		last := ""
		if len(a.said) > 0 {
			last = a.said[len(a.said)-1]
		}
		a.mu.Unlock()
		if strings.HasPrefix(last, string(took)) || strings.HasPrefix(last, string(had)) {
			return a
		}
	}
	return nil
}

// incident is what happens to a crowd.
type incident struct {
	name string
	do   func(c *crowdOf) (away *actor) // returns the actor that it keeps from the lock, nil for none
	undo func(c *crowdOf, away *actor)  // nil if there is nothing to undo
}

// incidents returns what can happen.
func (c *crowdOf) incidents() []incident {
	all := []incident{
		{"a process is killed", (*crowdOf).kill, func(c *crowdOf, killed *actor) { c.begin(killed.rival) }},
		{"a process is stopped", (*crowdOf).stop, func(_ *crowdOf, away *actor) {
			away.Thaw()
			away.frozen[len(away.frozen)-1].to = now()
		}},
	}
	switch {
	case c.cluster != nil && c.kind.In != nil:
		return all // MIGRATE does not overwrite, and keys that are there for a moment alone may be at both nodes
	case c.cluster != nil:
		return append(all, incident{name: "a slot moves", do: (*crowdOf).move})
	}
	on := func(do func(s *redistest.Server)) func(c *crowdOf) *actor {
		return func(c *crowdOf) *actor {
			do(c.servers[c.IntN(len(c.servers))])
			return nil
		}
	}
	return append(all,
		incident{name: "connections end", do: on(func(s *redistest.Server) {
			s.MustDo(c.T, "CLIENT", "KILL", "TYPE", "pubsub")
			s.MustDo(c.T, "CLIENT", "KILL", "TYPE", "normal")
		})},
		incident{name: "a server freezes", do: on(func(s *redistest.Server) {
			s.Freeze()
			c.pass(2 * actorLife)
			s.Thaw()
		})},
		incident{name: "a server restarts with its data", do: on(func(s *redistest.Server) { s.Kill(); s.Restart() })},
		incident{name: "a server forgets its scripts", do: on(func(s *redistest.Server) { s.MustDo(c.T, "SCRIPT", "FLUSH") })},
		all[0], all[1],
	)
}

// after requires that the crowd continues during an incident and behind it.
func (c *crowdOf) after(i incident) {
	c.Helper()
	away := i.do(c)
	c.continues(i.name, away)
	if i.undo != nil {
		i.undo(c, away)
		c.continues(i.name+", and is over", nil)
	}
}

// continues requires that each side takes the lock several times, without one actor. Where sessions that try have no order, readers
// may keep writers out: any progress is enough.
func (c *crowdOf) continues(what string, away *actor) {
	c.Helper()
	count := func() (sides [2]int) {
		for _, a := range c.alive {
			if a != away {
				sides[side(a.rival)] += a.taken()
			}
		}
		return sides
	}
	before := count()
	redistest.Await(c, what, func() bool {
		after := count()
		some := [2]bool{after[0] >= before[0]+5, after[1] >= before[1]+5}
		return some[0] && some[1] || c.kind.Turnless && (some[0] || some[1])
	})
}

// kill ends an actor wherever it is.
func (c *crowdOf) kill() *actor {
	i := c.IntN(len(c.alive))
	a := c.alive[i]
	c.alive = slices.Delete(slices.Clone(c.alive), i, i+1)
	a.Kill()
	return a
}

// stop stops an actor wherever it is, for up to two leases. The others continue meanwhile.
func (c *crowdOf) stop() *actor {
	a, lasts := c.alive[c.IntN(len(c.alive))], c.below(2*actorLife)
	if h := c.holder(); h != nil && c.stops%2 == 0 { // the first one, and then every other
		a, lasts = h, actorLife+lasts/2
	}
	c.stops++
	a.Freeze()
	begun := now()
	ends := time.Now().Add(lasts)
	redistest.Await(c, "a while", func() bool {
		if !c.kind.NoLease { // else what it has lasts as long as it is stopped
			c.continues("a process is stopped", a)
		}
		return time.Now().After(ends)
	})
	a.frozen = append(a.frozen, interval{begun, 0})
	if lasts > actorLife {
		tally.Add(tally.Sound, "stalls beyond a lease", 1)
	}
	return a
}

// move moves the slot of the name, with its keys, which are on two nodes for a while.
func (c *crowdOf) move() *actor {
	key := locktest.Key(c.prefix + crowdName)
	slot := c.cluster.Slot(c.T, key)
	owner := c.cluster.Owner(c.T, slot)
	to := owner
	for other := slot; to == owner; other = (other + redistest.Slots/3) % redistest.Slots {
		to = c.cluster.Owner(c.T, other)
	}
	m := c.cluster.BeginMove(c.T, slot, to)
	m.Keys(c.T, key)
	c.pass(2 * actorLife) // with keys on two nodes
	m.Keys(c.T)
	m.Finish(c.T)
	return nil
}

// pass lets time pass, a part of this one.
func (c *crowdOf) pass(most time.Duration) {
	ends := time.Now().Add(c.below(most))
	redistest.Await(c, "a while", func() bool { return time.Now().After(ends) })
}

// judged ends the crowd, and requires that what it said is the history of one lock, and that it leaves nothing.
func (c *crowdOf) judged() {
	c.Helper()
	history := c.history()
	require.Equal(c, porcupine.Ok, judge(c.kind, history), "of %v", fmt.Sprint(history))
	c.leavesNothing()
}

// history ends the actors, and returns what they said.
func (c *crowdOf) history() (history []action) {
	c.Helper()
	for _, a := range c.alive {
		a.CloseInput()
	}
	for _, a := range c.alive {
		require.Zero(c, a.Wait(redistest.WaitLimit), a.Stderr())
	}
	for _, a := range c.actors {
		redistest.Receive(c, "the end of an actor", a.read)
		require.Empty(c, a.Failures())
		actions, err := actionsOf(a.number, a.rival, a.said)
		require.NoError(c, err)
		history = append(history, actions...)
	}
	slices.SortStableFunc(history, func(a, b action) int { return cmp.Compare(a.from, b.from) }) // a hold may be over before its reply comes
	c.Logf("%d actions of %d processes", len(history), len(c.actors))
	return history
}

// leavesNothing requires that the lock is free in the end, and that it has no key that never ends.
func (c *crowdOf) leavesNothing() {
	c.Helper()
	p := c.Process(c.kind)
	h, err := p.Lock(crowdName).Lock(c.Context()) // of the dead some may be granted it before
	require.NoError(c, err)
	if err := h.Unlock(); !errors.Is(err, signalbox.ErrUnconfirmed) { // on a machine that stalls for a second
		require.NoError(c, err)
	}
	_, immortal := c.Keys(p, crowdName)
	require.Empty(c, immortal, "these keys never end")
}
