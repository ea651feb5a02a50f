// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	// Slots is how many slots a cluster has.
	Slots = 16384
	// primaries is the smallest number of primaries of which one may fail. Each has a replica.
	primaries = 3
	// clusterFailover is the node time-out: a primary that was silent for so long has failed. A shorter one
	// would make slow primaries fail.
	clusterFailover = 1500 * time.Millisecond
	// nodesFile is the file in which a node stores what it knows and how it has voted.
	nodesFile = "nodes.conf"
)

// Cluster is six nodes: three primaries, each with a third of the slots, and a replica for each. All
// methods may be called from any goroutine; those that take a test, from its own.
//
// A node that is restarted knows the others, and has no data until it is a replica. A primary that is
// restarted before the others have missed it is the primary still, and its replica becomes
// as empty.
type Cluster struct {
	nodes   []*Server     // primaries first, and then their replicas in the same order, as they were made
	timeout time.Duration // of nodes
	buses   map[*Server]*bus
}

// StartCluster runs a cluster until the test ends. It returns when every node knows that the cluster is
// healthy and the replicas have their links, after about two seconds. It fails the test at once if that
// does not happen.
func StartCluster(tb testing.TB, opts ...Option) *Cluster {
	tb.Helper()
	NeedServer(tb)
	c, err := startCluster(reporter{tb}, newConfig(opts))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// RunCluster is StartCluster for programs that are no tests. The caller must Close it. If the program ends
// without Close, the cluster ends with it.
func RunCluster(opts ...Option) (*Cluster, error) {
	return startCluster(reporter{}, newConfig(opts))
}

func startCluster(r reporter, conf config) (*Cluster, error) {
	if err := conf.several(); err != nil {
		return nil, err
	}
	c := &Cluster{timeout: cmp.Or(conf.failover, clusterFailover)}
	sets := slices.Repeat([]setup{node(conf)}, 2*primaries)
	var buses []*bus
	for i := range sets {
		if !conf.links {
			break
		}
		b, err := startBus()
		if err != nil {
			closeBuses(buses)
			return nil, err
		}
		buses = append(buses, b)
		sets[i].args = slices.Concat(sets[i].args, b.args())
	}
	var err error
	if c.nodes, err = startAll(r, sets...); err != nil {
		closeBuses(buses)
		return nil, err
	}
	c.buses = make(map[*Server]*bus)
	for i, b := range buses {
		b.lead(loopback(c.nodes[i].bus))
		c.buses[c.nodes[i]] = b
	}
	if err = c.form(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// node is a node of a cluster.
func node(conf config) setup {
	return setup{
		bus: true,
		args: append([]string{
			"--cluster-enabled", "yes",
			"--cluster-config-file", nodesFile,
			"--cluster-node-timeout", milliseconds(cmp.Or(conf.failover, clusterFailover)),
			// A primary keeps its replica, even when all its slots are moved away.
			"--cluster-allow-replica-migration", "no",
			"--repl-diskless-sync-delay", "0",
		}, conf.args...),
		keeps: nodesFile,
	}
}

// Name returns "cluster".
func (c *Cluster) Name() string { return nameCluster }

// Client returns a client of the cluster that is closed when the test ends. mod, if not nil,
// changes its options, of which only the addresses are set.
func (c *Cluster) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, rueidis.ClientOption{InitAddress: addresses(c.nodes)}, mod)
}

// Servers returns the six nodes: those that were the primaries first, and then their replicas in the
// same order.
func (c *Cluster) Servers() []*Server { return slices.Clone(c.nodes) }

// Close kills all nodes.
func (c *Cluster) Close() {
	closeAll(c.nodes)
	closeBuses(slices.Collect(maps.Values(c.buses)))
}

// Slot returns the slot of a key, as a node computes it.
func (c *Cluster) Slot(tb testing.TB, key string) int {
	tb.Helper()
	for _, n := range c.nodes {
		if reply, err := n.at().do(viewLimit, "CLUSTER", "KEYSLOT", key); err == nil {
			slot, _ := reply.(int64)
			return int(slot)
		}
	}
	tb.Fatalf("redistest: no node returns the slot of %q", key)
	return 0
}

// Owner returns the node that has the slot: a live primary that says so itself.
func (c *Cluster) Owner(tb testing.TB, slot int) *Server {
	tb.Helper()
	return c.awaitNode(tb, fmt.Sprintf("an owner of slot %d", slot), func() *Server { return c.owner(slot) })
}

// Replica returns the live node that is the replica of the slot's owner.
func (c *Cluster) Replica(tb testing.TB, slot int) *Server {
	tb.Helper()
	return c.awaitNode(tb, fmt.Sprintf("a replica of the owner of slot %d", slot), func() *Server {
		return c.replica(slot)
	})
}

// AwaitFailover waits until another node than old has the slot and every node that replies knows that, and
// returns it. Old must have been killed or frozen, or a failover must have been requested.
func (c *Cluster) AwaitFailover(tb testing.TB, slot int, old *Server) *Server {
	tb.Helper()
	return c.awaitNode(tb, fmt.Sprintf("another owner of slot %d than %s", slot, old.Addr()), func() *Server {
		if owner := c.owner(slot); owner != nil && owner != old && c.agreed(slot, owner, old) {
			return owner
		}
		return nil
	})
}

// abandoned is later than a node gives up a failover that was requested, which is after 5 seconds.
const abandoned = 6 * time.Second

// HandOver lets a replica of the owner of a slot take over without loss, and returns both. All nodes run. A primary votes for the
// replicas of another one once in two time-outs, which are short meanwhile. A request that the nodes do not
// decide in time, as on a busy machine, is forgotten by the replica: it is sent again.
func (c *Cluster) HandOver(tb testing.TB, slot int) (old, owner *Server) {
	tb.Helper()
	c.setTimeout(tb, clusterFailover)
	defer c.setTimeout(tb, c.timeout)
	old = c.Owner(tb, slot)
	var asked time.Time
	return old, c.awaitNode(tb, fmt.Sprintf("another owner of slot %d than %s, which hands over", slot, old.Addr()), func() *Server {
		owner := c.owner(slot)
		if replica := c.replica(slot); owner == old && replica != nil && time.Since(asked) > abandoned {
			asked = time.Now()
			_, _ = replica.Do("CLUSTER", "FAILOVER") // refused while its link is down
		}
		if owner != nil && owner != old && c.agreed(slot, owner, old) {
			return owner
		}
		return nil
	})
}

func (c *Cluster) setTimeout(tb testing.TB, timeout time.Duration) {
	tb.Helper()
	if err := c.configure("cluster-node-timeout", milliseconds(timeout)); err != nil {
		tb.Fatal(err)
	}
}

// AwaitReady waits until all six nodes run, every slot has an owner, every replica has its link, and every
// node knows that. Then the next failover could happen.
func (c *Cluster) AwaitReady(tb testing.TB) {
	tb.Helper()
	mustPollUntil(tb, "six nodes to which all is well", c.ready, c.describe)
}

func (c *Cluster) awaitNode(tb testing.TB, what string, find func() *Server) (found *Server) {
	tb.Helper()
	mustPollUntil(tb, what, func() bool {
		found = find()
		return found != nil
	}, c.describe)
	return found
}

// owner returns the node that says it has the slot, or nil if no node that replies does. Of several it
// returns the one with the latest vote: the others have not known that vote yet.
func (c *Cluster) owner(slot int) (found *Server) {
	epoch := int64(-1)
	for n, node := range c.selfViews() {
		if node.has(slot) && node.epoch > epoch {
			found, epoch = n, node.epoch
		}
	}
	return found
}

func (c *Cluster) replica(slot int) *Server {
	owner := c.owner(slot)
	selves := c.selfViews()
	for n, node := range selves {
		if o, ok := selves[owner]; ok && node.primary == o.id {
			return n
		}
	}
	return nil
}

// agreed reports whether all nodes that reply, except without, see that owner has the slot and that the
// cluster is healthy.
func (c *Cluster) agreed(slot int, owner, without *Server) bool {
	own, err := owner.view()
	return err == nil && all(c.nodes, func(n *Server) bool {
		if n == without || !n.replies() {
			return true
		}
		v, err := n.view()
		return err == nil && v.known(own.self().id).has(slot) && n.isWell()
	})
}

// ready reports whether every node sees all others, and that the cluster is healthy.
func (c *Cluster) ready() bool {
	return all(c.nodes, func(n *Server) bool {
		v, err := n.view()
		if err != nil || !n.isWell() || !v.whole(len(c.nodes)) {
			return false
		}
		return v.self().primary == "" || n.linked()
	})
}

func (c *Cluster) describe() string {
	var text strings.Builder
	for _, n := range c.nodes {
		reply, err := n.at().do(viewLimit, "CLUSTER", "NODES")
		if err != nil {
			reply = err
		}
		fmt.Fprintf(&text, "node %s:\n%v\n", n.Addr(), reply)
	}
	return text.String()
}

// form joins the nodes and returns when the cluster is healthy. Meanwhile their time-out is short, whatever
// it will be later: a node that has seen too few others waits for that long before it says that the cluster
// is healthy.
func (c *Cluster) form() error {
	if err := c.configure("cluster-node-timeout", milliseconds(clusterFailover)); err != nil {
		return err
	}
	if err := c.join(); err != nil {
		return err
	}
	if !PollUntil(startLimit, c.ready) {
		return fmt.Errorf("redistest: the cluster was not ready within %v:\n%s", startLimit, c.describe())
	}
	return c.configure("cluster-node-timeout", milliseconds(c.timeout))
}

func (c *Cluster) configure(name, to string) error {
	for _, n := range c.nodes {
		if _, err := n.Do("CONFIG", "SET", name, to); err != nil {
			return fmt.Errorf("redistest: %s: %w", name, err)
		}
	}
	return nil
}

// join makes six nodes that know nothing a cluster.
func (c *Cluster) join() error {
	if err := c.share(); err != nil {
		return err
	}
	if err := c.meet(); err != nil {
		return err
	}
	return c.replicate()
}

// share gives each primary its third of the slots. Each has an epoch of its own from the start: a node that
// finds a slot claimed twice decides by the epochs, and nodes with equal epochs would have to agree first.
func (c *Cluster) share() error {
	for i, n := range c.nodes {
		if _, err := n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return fmt.Errorf("redistest: epoch: %w", err)
		}
		if i >= primaries {
			continue
		}
		first, end := i*Slots/primaries, (i+1)*Slots/primaries
		if err := n.addSlots(first, end); err != nil {
			return fmt.Errorf("redistest: slots: %w", err)
		}
	}
	return nil
}

// meetRetry is when CLUSTER MEET is sent again. Nodes meet within milliseconds, and give up after their
// time-out, as on a machine that is suspended.
const meetRetry = 3 * clusterFailover

// meet sends CLUSTER MEET for the first node to the others, until each node knows all others.
func (c *Cluster) meet() error {
	host := c.nodes[0]
	port := host.bus
	if b := c.buses[host]; b != nil {
		port = b.reserved.port
	}
	for ends := time.Now().Add(startLimit); ; {
		for _, n := range c.nodes[1:] {
			if _, err := n.Do("CLUSTER", "MEET", "127.0.0.1", host.port, port); err != nil {
				return fmt.Errorf("redistest: meet: %w", err)
			}
		}
		if PollUntil(meetRetry, c.met) {
			return nil
		}
		if time.Now().After(ends) {
			return fmt.Errorf("redistest: the nodes did not meet within %v:\n%s", startLimit, c.describe())
		}
	}
}

// met reports whether each node knows all others.
func (c *Cluster) met() bool {
	return all(c.nodes, func(n *Server) bool {
		v, err := n.view()
		if err != nil || len(v) != len(c.nodes) {
			return false
		}
		return !slices.ContainsFunc(v, func(node nodeInfo) bool { return node.flagged("handshake") })
	})
}

// replicate makes the second half of the nodes the replicas of the first.
func (c *Cluster) replicate() error {
	var selves map[*Server]nodeInfo
	if !PollUntil(startLimit, func() bool {
		selves = c.selfViews()
		return len(selves) == len(c.nodes)
	}) {
		return fmt.Errorf("redistest: not all nodes replied within %v:\n%s", startLimit, c.describe())
	}
	for i, n := range c.nodes[primaries:] {
		if _, err := n.Do("CLUSTER", "REPLICATE", selves[c.nodes[i]].id); err != nil {
			return fmt.Errorf("redistest: replicate: %w", err)
		}
	}
	return nil
}

// AddAllSlots makes the server, which has --cluster-enabled, the only node of a cluster.
func (s *Server) AddAllSlots(tb testing.TB) {
	tb.Helper()
	if err := s.addSlots(0, Slots); err != nil {
		tb.Fatal(err)
	}
}

// addSlots gives a node the slots from first to the one before end.
func (s *Server) addSlots(first, end int) error {
	words := []any{"CLUSTER", "ADDSLOTSRANGE", first, end - 1}
	if isOld(s.binary) {
		words = []any{"CLUSTER", "ADDSLOTS"}
		for slot := first; slot < end; slot++ {
			words = append(words, slot)
		}
	}
	_, err := s.Do(words...)
	return err
}
