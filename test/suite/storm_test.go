// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// storm is what a crowd has that meets every fault: each side reaches each server by a proxy of its own.
type storm struct {
	sides   [2][]*redistest.Proxy // by side and server
	standby *redistest.Server     // takes over from the only server; nil before it did so first
	clock   *redistest.Clock      // of the only server; nil: it has the machine's
	store   *redistest.Server     // holders update a value there; nil: the kind has no order of holders
	env     []string              // of the actors
	active  []interval            // from each fault to its end, and to the next grant if that is later
	hit     [2]bool               // the sides that the last fault hit
	losses  []interval            // when the servers did not promise to exclude, since they lost what they knew

	owner    *redistest.Server // the node that had the name when nodes were parted
	partedAt int64
}

// interval is between two times.
type interval struct{ from, to int64 }

func (i interval) meets(from, to int64) bool { return from <= i.to && i.from <= to }

// historiesEnv names the environment variable that has the folder of histories: a storm writes them there for TestHistories, which
// judges them.
const historiesEnv = "SIGNALBOX_HISTORIES"

// history is what a crowd said between two losses of data, in a file.
type history struct {
	Kind    string
	Actions []string
}

// What only some crowds can meet.
const (
	failover  = "a failover loses writes"
	partition = "each side loses another server"
	flush     = "a server of the quorum is flushed"
	clock     = "the server's clock is set"
	parted    = "two nodes lose each other"
	alone     = "a primary is cut off"
)

// isRare reports whether few crowds can meet it: they meet it first, since a run may be short.
func (c *crowdOf) isRare(i incident) bool {
	if i.name == failover { // after which some kinds promise nothing for long
		return slices.Contains([]string{"reentrant", "rwlock"}, c.kind.folder())
	}
	if c.cluster != nil {
		return !strings.HasPrefix(i.name, "a process")
	}
	return slices.Contains([]string{partition, flush, clock}, i.name)
}

// eachSide is how many actors a storm has of each side.
const eachSide = 3

// stormKinds returns the kinds that are in a storm on one server, or on several: each kind of the library once, and the layouts of
// others.
func stormKinds() (all []Kind) {
	names := []string{
		"reentrant", "fair", "rwlock reader beside writers", "a permit beside all", "election", "once", "multilock", "redlock", "shards",
		"countdown", "redisson", "setnx",
	}
	for _, k := range Kinds() {
		if slices.Contains(names, k.Name) {
			all = append(all, k)
		}
	}
	return all
}

// folder returns the first word of a row of Kinds that has it, the name of a package.
func (k Kind) folder() string {
	first, _, _ := strings.Cut(k.Name, " ")
	if strings.Contains(k.Name, "permit") && k.In == nil {
		return "semaphore"
	}
	return first
}

// P1, P2, P3, P4, P6, P8: while everything goes wrong that can, each after the other, holders never overlap, tokens rise, a store that
// compares them loses no update, and a living waiter gets the lock. If the servers lose their data, holds may overlap for a lease.
func TestSoakStorm(t *testing.T) { //nolint:paralleltest // has the machine to itself
	locktest.Soak(t)
	for _, world := range worlds() {
		for _, k := range stormKinds() {
			if world != single && (world != clustered || !slices.Contains([]string{"reentrant", "fair", "rwlock", "semaphore"}, k.folder())) {
				continue
			}
			t.Run(k.folder()+"/"+world, func(t *testing.T) {
				t.Parallel()
				c := newStorm(t, world, k)
				defer c.end()
				defer func() {
					if t.Failed() {
						t.Logf("SIGNALBOX_SEED=%d SIGNALBOX_SOAK=1m SIGNALBOX_WORLDS=%s go test ./suite -run 'TestSoakStorm/^%s$'", c.seed, world, k.folder())
					}
				}()
				incidents := c.faults()
				more := locktest.Soak(t) // of its own: each meets one at the least
				for n := 0; more(); n++ {
					if n%len(incidents) == 0 {
						c.Shuffle(len(incidents), func(i, j int) { incidents[i], incidents[j] = incidents[j], incidents[i] })
						if n == 0 {
							common := slices.DeleteFunc(slices.Clone(incidents), c.isRare)
							incidents = append(slices.DeleteFunc(incidents, func(i incident) bool { return !c.isRare(i) }), common...)
						}
					}
					c.meets(incidents[n%len(incidents)])
				}
				c.weathered()
			})
		}
	}
}

// proxied is a server as a client of one side sees it.
type proxied struct {
	*redistest.Proxy
	server *redistest.Server
}

func (proxied) Name() string                   { return single }
func (p proxied) Servers() []*redistest.Server { return []*redistest.Server{p.server} }

// newStorm starts a crowd, each side of which has its own proxies.
func newStorm(t *testing.T, world string, k Kind, env ...string) *crowdOf {
	t.Helper()
	redistest.NeedServer(t)
	c := &crowdOf{kind: k, seed: locktest.Seed(t), storm: &storm{env: env}}
	name := fnv.New64()
	_, _ = name.Write([]byte(t.Name()))              // it never fails
	c.chance = chance{newDice(c.seed, name.Sum64())} // of each kind its own
	s := c.storm
	var tops []redistest.Topology
	if world == clustered {
		c.cluster = redistest.StartCluster(t, redistest.WithFailoverAfter(calm), redistest.WithLinks())
		tops = append(tops, c.cluster)
		c.urls = c.cluster.Servers()[0].URL() + "?addr=" + c.cluster.Servers()[1].Addr()
	}
	for range max(k.Servers, 1) {
		if c.cluster != nil {
			break
		}
		args := []redistest.Option{redistest.WithArgs("--dir", t.TempDir(), "--appendonly", "yes", "--appendfsync", "always")}
		if s.clock = newClock(t, k); s.clock != nil {
			args = append(args, redistest.WithClock(s.clock))
		}
		server := redistest.Start(t, args...)
		c.servers = append(c.servers, server)
		for side := range s.sides {
			s.sides[side] = append(s.sides[side], redistest.NewProxy(t, server.Addr()))
		}
		tops = append(tops, proxied{s.sides[0][len(c.servers)-1], server})
	}
	if k.excludesItself() && k.rival().excludesItself() && !k.NoTokens && !k.NoLease {
		s.store = redistest.Start(t)
		s.env = append(s.env, storeEnv+"="+s.store.URL())
	}
	c.World = newRealOn(t, tops...)
	c.Life = max(2*actorLife, k.Shortest) // a quorum of servers that have lost their data grants nothing for so long
	for i := range 2 * eachSide {
		c.begin(i%2 == 1)
	}
	return c
}

// newClock returns a clock for the server of some kinds, if servers can have one here.
func newClock(t *testing.T, k Kind) *redistest.Clock {
	t.Helper()
	if !slices.Contains([]string{"fair", "semaphore", "once"}, k.folder()) || !redistest.HasClocks() {
		return nil
	}
	return redistest.NewClock(t)
}

// urlsOf returns how a side reaches the servers.
func (c *crowdOf) urlsOf(rival bool) string {
	if c.storm == nil || c.cluster != nil {
		return c.urls
	}
	var urls []string
	for _, p := range c.storm.sides[side(rival)] {
		urls = append(urls, p.URL())
	}
	return strings.Join(urls, " ")
}

// meets lets a fault happen, and sometimes a second one while it lasts, and requires that the crowd continues.
func (c *crowdOf) meets(i incident) {
	c.Helper()
	s := c.storm
	s.hit = [2]bool{true, true}
	started := now()
	begun, next := started, int64(0)
	away := i.do(c)
	isAlone := true
	if i.undo != nil {
		if away == nil || c.kind.NoLease {
			begun = 0 // not before it is over
		} else {
			c.continues(i.name, away)
			next = c.firstTake(begun, away)
		}
		if c.IntN(3) == 0 {
			isAlone = false
			c.besides()
			tally.Add(tally.Sound, "faults at once", 1)
		}
		if begun == 0 {
			begun = now()
		}
		i.undo(c, away)
		away = nil
	}
	ended := now()
	c.continues(i.name+", and is over", away)
	if next == 0 {
		next = c.firstTake(begun, away)
	}
	if isAlone { // else it is not known which of the two it is the recovery from
		tally.Time("recovery", i.name, time.Duration(next-begun))
	}
	if i.undo == nil {
		ended = next
	}
	s.active = append(s.active, interval{started, max(ended, next)})
	tally.Add("incidents", i.name, 1)
}

// besides is a further fault, which does not last.
func (c *crowdOf) besides() {
	servers := c.servers
	if c.cluster != nil {
		servers = c.cluster.Servers()
	}
	server := servers[c.IntN(len(servers))]
	choices := []func(){
		func() { server.MustDo(c.T, "SCRIPT", "FLUSH") },
		func() { server.MustDo(c.T, "CLIENT", "KILL", "TYPE", "normal") },
		func() { server.MustDo(c.T, "CLIENT", "KILL", "TYPE", "pubsub") },
	}
	if c.cluster == nil {
		proxies := c.storm.sides[c.IntN(2)]
		proxy, kinds := proxies[c.IntN(len(proxies))], redistest.FaultKinds()
		choices = append(choices, proxy.CutAll, proxy.HalfOpenAll,
			func() { proxy.Arm(redistest.Fault{Kind: kinds[c.IntN(len(kinds))], Delay: c.below(2 * actorLife)}) })
	}
	choices[c.IntN(len(choices))]()
}

// firstTake returns when living actors of each side that was hit had taken the lock, since that time; of a kind without turns, when one
// of them had.
func (c *crowdOf) firstTake(since int64, away *actor) int64 {
	first := [2]int64{now(), now()}
	for _, a := range c.alive {
		if a == away {
			continue
		}
		a.mu.Lock()
		for _, at := range a.takes {
			if at >= since {
				first[side(a.rival)] = min(first[side(a.rival)], at)
			}
		}
		a.mu.Unlock()
	}
	switch {
	case !c.storm.hit[1]:
		return first[0]
	case !c.storm.hit[0]:
		return first[1]
	case c.kind.Turnless:
		return min(first[0], first[1])
	default:
		return max(first[0], first[1])
	}
}

// faults returns what can happen to a crowd in a storm.
func (c *crowdOf) faults() []incident {
	if c.cluster != nil {
		return append(c.incidents(), incident{name: "a node hands over and restarts", do: (*crowdOf).restartNode},
			incident{name: parted, do: (*crowdOf).partNodes, undo: (*crowdOf).healNodes},
			incident{
				name: alone, do: c.loses(c.partPrimary),
				undo: func(c *crowdOf, _ *actor) { c.loses(func() { c.cluster.Heal(c.T) })(c) },
			})
	}
	processes := slices.DeleteFunc(c.incidents(), func(i incident) bool {
		return c.kind.NoLease && strings.HasPrefix(i.name, "a process is killed") // nothing ends what it has
	})
	s := c.storm
	on := func(do func(p *redistest.Proxy)) func(c *crowdOf) *actor {
		return func(c *crowdOf) *actor {
			server, sides := c.IntN(len(c.servers)), c.IntN(3)
			for side := range s.sides {
				s.hit[side] = sides == 2 || sides == side
				if s.hit[side] {
					do(s.sides[side][server])
				}
			}
			return nil
		}
	}
	forSome := func(most time.Duration, do, undo func(p *redistest.Proxy)) (func(c *crowdOf) *actor, func(*crowdOf, *actor)) {
		return func(c *crowdOf) *actor {
				on(do)(c)
				c.pass(most)
				return nil
			}, func(c *crowdOf, _ *actor) {
				for _, proxies := range s.sides {
					for _, p := range proxies {
						undo(p)
					}
				}
			}
	}
	lasting := func(name string, most time.Duration, do, undo func(p *redistest.Proxy)) incident {
		i := incident{name: name}
		i.do, i.undo = forSome(most, do, undo)
		return i
	}
	refuses := func(name string, at func() *redistest.Server, begin, end func(s *redistest.Server)) incident {
		var server *redistest.Server
		return incident{name, func(c *crowdOf) *actor {
			server = at()
			server.MustDo(c.T, "CONFIG", "RESETSTAT")
			begin(server)
			c.pass(actorLife / 2)
			redistest.Await(c, "a request that is refused: "+name, func() bool { return server.Refused(c.T, name) > 0 })
			return nil
		}, func(*crowdOf, *actor) {
			end(server)
			tally.Add(tally.Faults, "request refused: "+name, server.Refused(c.T, name))
		}}
	}
	anyServer := func() *redistest.Server { return c.servers[c.IntN(len(c.servers))] }
	all := append(
		processes,
		incident{name: "connections are cut", do: on((*redistest.Proxy).CutAll)},
		incident{name: "connections are half open", do: on((*redistest.Proxy).HalfOpenAll)},
		incident{name: "a request or a reply is lost", do: on(func(p *redistest.Proxy) {
			kinds := redistest.FaultKinds()
			p.Arm(redistest.Fault{Kind: kinds[c.IntN(len(kinds))], Delay: c.below(2 * actorLife)})
		})},
		lasting("all is late", 2*actorLife, func(p *redistest.Proxy) { p.SetLatency(10*time.Millisecond + c.below(90*time.Millisecond)) },
			func(p *redistest.Proxy) { p.SetLatency(0) }),
		lasting("messages are lost", 2*actorLife, func(p *redistest.Proxy) { p.DropPushes(true) }, func(p *redistest.Proxy) { p.DropPushes(false) }),
		lasting("connections are refused", actorLife, func(p *redistest.Proxy) { p.Refuse(); p.CutAll() }, (*redistest.Proxy).Accept),
		refuses("OOM", anyServer, func(s *redistest.Server) { s.MustDo(c.T, "CONFIG", "SET", "maxmemory", "1") },
			func(s *redistest.Server) { s.MustDo(c.T, "CONFIG", "SET", "maxmemory", "0") }),
		refuses("READONLY", anyServer, func(s *redistest.Server) { s.MustDo(c.T, "REPLICAOF", "127.0.0.1", "1") },
			func(s *redistest.Server) { s.MustDo(c.T, "REPLICAOF", "NO", "ONE") }),
	)
	if len(c.servers) > 1 {
		return append(all, incident{name: partition, do: (*crowdOf).partition, undo: (*crowdOf).join},
			incident{name: flush, do: func(c *crowdOf) *actor {
				tally.Fault("FLUSHALL")
				anyServer().MustDo(c.T, "FLUSHALL")
				c.pass(time.Second)
				return nil
			}})
	}
	if c.kind.NoLease || c.kind.In != nil {
		return all // what was lost is waited for in vain; or is the business of other clients
	}
	all = append(
		all,
		incident{name: "the server is flushed", do: c.loses(func() {
			tally.Fault("FLUSHALL")
			c.servers[0].MustDo(c.T, "FLUSHALL")
		})},
		incident{name: "a key is lost", do: c.loses(func() {
			redistest.Await(c, "a key that is lost", func() bool {
				keys := c.servers[0].Keys("*")
				return len(keys) > 0 && c.servers[0].MustDo(c.T, "DEL", keys[c.IntN(len(keys))]) == int64(1)
			})
			tally.Fault("key lost")
		})},
	)
	if s.clock != nil {
		return append(all, incident{
			name: clock, do: c.loses(func() {
				s.clock.Set(c.T, time.Second+c.below(2*time.Second))
				redistest.Await(c, "a server whose clock is ahead", func() bool { return c.servers[0].Ahead(c.T) > time.Second/2 })
			}),
			undo: func(c *crowdOf, _ *actor) { c.loses(func() { s.clock.Set(c.T, 0) })(c) },
		})
	}
	return append(all, incident{name: failover, do: c.loses(c.failOver)})
}

// loses is something after which the servers have lost what they knew, or let it end too early. By a lease later all is as promised.
func (c *crowdOf) loses(do func()) func(c *crowdOf) *actor {
	return func(c *crowdOf) *actor {
		begun := now()
		do()
		c.storm.losses = append(c.storm.losses, c.lossSince(begun))
		return nil
	}
}

func (c *crowdOf) lossSince(begun int64) interval {
	return interval{begun, now() + int64(max(actorLife, c.kind.Shortest)+4*time.Second)}
}

// failOver lets a replica take over that has missed the last writes.
func (c *crowdOf) failOver() {
	s, primary := c.storm, c.servers[0]
	if s.standby == nil {
		s.standby = redistest.Start(c.T, redistest.WithArgs("--dir", c.TempDir(), "--appendonly", "yes", "--appendfsync", "always"))
	}
	host, port, _ := strings.Cut(primary.Addr(), ":")
	s.standby.MustDo(c.T, "REPLICAOF", host, port)
	redistest.Await(c, "a replica", func() bool {
		info, err := s.standby.Do("INFO", "replication")
		return err == nil && strings.Contains(fmt.Sprint(info), "master_link_status:up")
	})
	s.standby.MustDo(c.T, "REPLICAOF", "NO", "ONE")
	c.pass(500 * time.Millisecond) // these writes are lost
	tally.Fault("failover that loses writes")
	for side := range s.sides {
		s.sides[side][0].SwitchTo(s.standby.Addr())
		s.sides[side][0].CutAll()
	}
	c.servers[0], s.standby = s.standby, primary
}

// partition keeps each side from another server of a quorum.
func (c *crowdOf) partition() *actor {
	tally.Fault("partition of a quorum")
	for side, server := range c.Perm(len(c.servers))[:2] {
		c.storm.sides[side][server].Refuse()
		c.storm.sides[side][server].HalfOpenAll()
	}
	c.pass(2 * actorLife)
	c.continues(partition, nil)
	return nil
}

func (c *crowdOf) join(*actor) {
	for _, proxies := range c.storm.sides {
		for _, p := range proxies {
			p.CutAll()
			p.Accept()
		}
	}
}

// partNodes cuts the links between the node that has the name and another one. All other nodes reach both, so none is replaced.
func (c *crowdOf) partNodes() *actor {
	begun := now()
	owner, others := c.nodes(c.cluster.Slot(c.T, locktest.Key(c.prefix+crowdName)))
	c.storm.owner, c.storm.partedAt = owner, begun
	c.cluster.Part(c.T, owner, others[0])
	c.cluster.AwaitParted(c.T, owner, others[0])
	c.continues(parted, nil)
	return nil
}

// healNodes undoes that. Until the node time-out is long again, others may take the node for dead on a machine that stalls.
func (c *crowdOf) healNodes(*actor) {
	c.cluster.Heal(c.T)
	if c.cluster.Owner(c.T, c.cluster.Slot(c.T, locktest.Key(c.prefix+crowdName))) != c.storm.owner {
		c.storm.losses = append(c.storm.losses, c.lossSince(c.storm.partedAt))
	}
}

// partPrimary cuts all links of the node that has the name, which is replaced: what it granted meanwhile is lost.
func (c *crowdOf) partPrimary() {
	slot := c.cluster.Slot(c.T, locktest.Key(c.prefix+crowdName))
	owner, others := c.nodes(slot)
	c.cluster.Part(c.T, owner, others...)
	c.cluster.AwaitFailover(c.T, slot, owner)
	c.continues(alone, nil)
}

// nodes returns the node that has a slot, and the others in any order.
func (c *crowdOf) nodes(slot int) (owner *redistest.Server, others []*redistest.Server) {
	owner = c.cluster.Owner(c.T, slot)
	others = slices.DeleteFunc(c.cluster.Servers(), func(n *redistest.Server) bool { return n == owner })
	c.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return owner, others
}

// restartNode lets the replica of the node that has the name take over, without loss, and restarts that node.
func (c *crowdOf) restartNode() *actor {
	slot := c.cluster.Slot(c.T, locktest.Key(c.prefix+crowdName))
	tally.Fault("node restarted in its turn")
	owner, _ := c.cluster.HandOver(c.T, slot)
	owner.Restart()
	c.cluster.AwaitReady(c.T)
	return nil
}

// weathered ends the crowd, counts what its actors say of each other, and requires that all of it is as promised.
func (c *crowdOf) weathered() {
	c.Helper()
	said := c.history()
	kind := c.kind.folder()
	holds := holdsOf(c.kind, said)
	overlaps, falling := c.violations(holds)
	inLoss := 0
	for _, h := range holds {
		if c.isInLoss(h) {
			inLoss++
		}
	}
	goroutines := c.goroutines()
	for _, h := range holds {
		if h.ended-h.took > int64(actorLife) && h.good > h.took+int64(actorLife) {
			tally.Add(tally.Sound, "holds longer than a lease", 1)
		}
		if slices.ContainsFunc(c.actors[h.who/users].frozen, func(f interval) bool {
			return f.to-f.from > int64(actorLife) && h.took <= f.from && f.to <= h.ended
		}) {
			tally.Add(tally.Sound, "holders stopped beyond a lease", 1)
		}
		waited := time.Duration(h.took-h.from) > time.Millisecond
		if waited && slices.ContainsFunc(c.storm.active, func(a interval) bool { return a.meets(h.took, h.took) }) {
			tally.Add(tally.Sound, "hand-offs under a fault", 1)
		}
		if !slices.ContainsFunc(c.actors[h.who/users].frozen, func(f interval) bool { return f.meets(h.from, h.took) }) {
			tally.Time("longest wait", kind, time.Duration(h.took-h.from))
		}
	}
	if c.storm.store != nil {
		writes, lost := lostUpdates(c.T, c.storm.store, c.prefix+crowdName)
		tally.Add("updates", kind, writes)
		tally.Add("lost updates", kind, lost)
		require.Zero(c, lost, "lost updates of %d", writes)
		require.Positive(c, writes)
	}
	tally.Add("grants", kind, len(holds)-inLoss)
	tally.Add("grants in a loss", kind, inLoss)
	tally.Add("overlaps", kind, overlaps)
	tally.Add("falling tokens", kind, falling)
	tally.Add("goroutines left", kind, goroutines)
	tally.Add("outcome unknown", kind, c.unknown())
	require.NoError(c, c.write(said))
	require.Zero(c, overlaps, "overlaps")
	require.Zero(c, falling, "tokens that fall")
	require.Zero(c, goroutines, "goroutines of processes that have ended")
	c.leavesNothing()
	immortal := c.immortal()
	tally.Add("keys left", kind, len(immortal))
	require.Empty(c, immortal, "these keys never end")
}

// goroutines returns how many goroutines of the library processes had when they had closed their sessions.
func (c *crowdOf) goroutines() (sum int) {
	for _, n := range c.notes("goroutines") {
		sum += n
	}
	return sum
}

// unknown returns how often a call returned that it is not known whether it was executed.
func (c *crowdOf) unknown() int { return len(c.notes("unconfirmed")) }

// notes returns the numbers that actors said by a name.
func (c *crowdOf) notes(name string) (all []int) {
	for _, a := range c.actors {
		for _, line := range a.said {
			var of string
			var n int
			if _, err := fmt.Sscan(strings.TrimPrefix(line, note), &of, &n); err == nil && strings.HasPrefix(line, note) && of == name {
				all = append(all, n)
			}
		}
	}
	return all
}

// immortal returns the keys of all servers of a storm that never end, whatever their names are.
func (c *crowdOf) immortal() (all []string) {
	servers := c.servers
	if c.cluster != nil {
		servers = c.cluster.Servers()
	}
	for _, server := range servers {
		for _, key := range server.Keys("*") {
			// Other nodes of a cluster than the primary of the key redirect.
			if left, err := server.Do("PTTL", key); err == nil && left == int64(-1) {
				all = append(all, key)
			}
		}
	}
	return all
}

// heldBy is what a user said of one of its holds.
type heldBy struct {
	who        int
	rival      bool
	token      uint64
	from, took int64 // of its request
	good       int64 // it had not ended at that time; before took: not known of any time at which its user had it
	ended      int64 // when its user knew that it had; the last word of one that died
}

// holdsOf returns the holds of a history, in the order of their requests.
func holdsOf(k Kind, said []action) (all []*heldBy) {
	open := make(map[int]*heldBy)
	for _, a := range said {
		switch a.verb {
		case took:
			h := &heldBy{who: a.who, rival: a.rival, token: a.token, from: a.from, took: a.to, good: a.from, ended: a.to}
			open[a.who] = h
			all = append(all, h)
		case gave, lost:
			if h := open[a.who]; h != nil {
				h.good = max(h.good, a.from)
				h.ended = a.to
				if a.verb == lost {
					h.ended = a.to - int64(aftermath)
				}
				delete(open, a.who)
			}
		case had:
		}
	}
	return all
}

// isInLoss reports whether nothing was promised for some time of a hold.
func (c *crowdOf) isInLoss(h *heldBy) bool { return c.meetsLoss(h.took, max(h.took, h.good)) }

// violations returns how many holds began while others took all, and how many tokens fell, beside the times for which nothing is promised.
func (c *crowdOf) violations(holds []*heldBy) (overlaps, falling int) {
	takes := [2]int{c.kind.takes(), c.kind.rival().takes()}
	byTime := slices.SortedFunc(slices.Values(holds), func(a, b *heldBy) int { return cmp.Compare(a.took, b.took) })
	var open []*heldBy
	for i, h := range byTime {
		open = slices.DeleteFunc(open, func(o *heldBy) bool { return o.good <= h.took })
		isHeld := h.good >= h.took // else its process was stopped before it could say that it has it, for longer than its lease
		if isHeld {
			open = append(open, h)
		}
		sum, all := 0, 0
		for _, o := range open {
			all += takes[side(o.rival)]
			if !c.isInLoss(o) {
				sum += takes[side(o.rival)]
			}
		}
		if isHeld && sum > max(c.kind.Of, 1) && !c.isInLoss(h) {
			overlaps++
		} else if isHeld && all > max(c.kind.Of, 1) {
			tally.Add("overlaps in a loss", c.kind.folder(), 1)
		}
		for _, before := range byTime[max(0, i-100):i] {
			excludes := takes[side(before.rival)]+takes[side(h.rival)] > max(c.kind.Of, 1)
			isLater := before.took < h.from && before.token >= h.token
			if excludes && isLater && !c.kind.NoTokens && !c.meetsLoss(h.from, h.took) {
				falling++
				break
			}
		}
	}
	return overlaps, falling
}

func (c *crowdOf) meetsLoss(from, to int64) bool {
	return slices.ContainsFunc(c.storm.losses, func(l interval) bool { return l.meets(from, to) })
}

// write writes the history to the folder of historiesEnv, in parts: what came before each loss, and what came after it.
func (c *crowdOf) write(said []action) error {
	folder := os.Getenv(historiesEnv)
	if folder == "" {
		for _, part := range c.parts(said) {
			require.NotEqual(c, porcupine.Illegal, judge(c.kind, part), "of %v", fmt.Sprint(part))
		}
		return nil
	}
	var failed error
	for n, part := range c.parts(said) {
		h := history{Kind: c.kind.Name}
		for _, a := range part {
			h.Actions = append(h.Actions, fmt.Sprint(a.verb, " ", a.who, " ", a.rival, " ", a.token, " ", a.from, " ", a.to))
		}
		text, err := json.Marshal(h)
		name := fmt.Sprintf("%s-%d-%d-%d.json", strings.ReplaceAll(c.Name(), "/", "-"), c.seed, os.Getpid(), n)
		failed = errors.Join(failed, err, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	return failed
}

// parts returns the history without the times for which nothing is promised. A hold that begins before such a time may end in it. One
// that has not ended after it may have begun in it.
func (c *crowdOf) parts(said []action) (parts [][]action) {
	begun := int64(0)
	for _, l := range append(slices.Clone(c.storm.losses), interval{1 << 62, 1 << 62}) {
		if l.from <= begun {
			begun = max(begun, l.to)
			continue
		}
		if part := partOf(c.kind, said, begun, l.from); len(part) > 0 {
			parts = append(parts, part)
		}
		begun = l.to
	}
	return parts
}

func partOf(k Kind, said []action, begun, ended int64) (part []action) {
	ends := make(map[*heldBy]action)
	open := make(map[int]*heldBy)
	holds := holdsOf(k, said)
	at := 0
	for _, a := range said {
		if a.verb == took {
			open[a.who] = holds[at]
			at++
		} else if h := open[a.who]; h != nil {
			ends[h] = a
		}
	}
	for _, h := range holds {
		end, hasEnd := ends[h]
		if h.took >= ended || h.from < begun && h.good <= begun {
			continue // it began later, or may have been lost before
		}
		take := action{took, h.who, h.rival, h.token, h.from, max(h.took, begun)}
		if !hasEnd || end.from >= ended || end.to >= ended {
			end = action{lost, h.who, h.rival, h.token, min(h.good, ended), now() + int64(aftermath)}
		}
		part = append(part, take, end)
	}
	slices.SortStableFunc(part, func(a, b action) int { return cmp.Compare(a.from, b.from) })
	return part
}

// Client implements redistest.Topology.
func (p proxied) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return p.Proxy.Client(tb, mod)
}
