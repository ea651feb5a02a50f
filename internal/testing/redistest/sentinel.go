// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	// MasterSet is the name under which the sentinels know the primary.
	MasterSet = "signalbox"
	// sentinels is the smallest number of which one may be away.
	sentinels, quorum = 3, 2
	// sentinelFailover is how long the sentinels must have had no reply from the primary. A shorter time
	// saves little: they check each other once a second.
	sentinelFailover = time.Second
	// failoverTimeout is half of the time after which sentinels whose votes were split vote again, and
	// more than a promotion takes.
	failoverTimeout = 5 * time.Second
	// refresh is how often a client asks the sentinels, for changes that it missed.
	refresh = time.Second
)

// sentinelFile is the configuration that a sentinel rewrites as it learns.
const sentinelFile = "sentinel.conf"

// Sentinel is a primary, its replica, and three sentinels that watch them and make the replica the primary
// when the primary has failed. All methods may be called from any goroutine; those with a test as an
// argument, from the test's own.
//
// A data server that is restarted is empty, and the sentinels make it a replica a second or two later. A primary that is restarted
// before they have noticed remains the primary, and its replica becomes as empty.
type Sentinel struct {
	data, watch []*Server
}

// StartSentinel runs a primary, a replica and three sentinels until the test ends. It returns
// when a failover could happen, after some two seconds. It fails the test at once if that
// does not come about.
func StartSentinel(tb testing.TB, opts ...Option) *Sentinel {
	tb.Helper()
	NeedServer(tb)
	s, err := startSentinel(reporter{tb}, newConfig(opts))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// RunSentinel is StartSentinel for programs that are no tests. The caller must Close it; if the
// program ends without, it ends with it.
func RunSentinel(opts ...Option) (*Sentinel, error) {
	return startSentinel(reporter{}, newConfig(opts))
}

func startSentinel(r reporter, c config) (*Sentinel, error) {
	if err := c.several(); err != nil {
		return nil, err
	}
	s := new(Sentinel)
	// A replica that asks for all data is served at once, not after the five seconds in which others
	// might ask as well.
	data := setup{args: append([]string{"--repl-diskless-sync-delay", "0"}, c.args...)}
	var err error
	if s.data, err = startAll(r, data, data); err != nil {
		return nil, err
	}
	if err = s.follow(); err == nil {
		// After the replica has its link: sentinels ask the primary for its replicas when they start,
		// and then each ten seconds.
		s.watch, err = startAll(r, slices.Repeat([]setup{watcher(s.data[0], c)}, sentinels)...)
	}
	if err == nil {
		err = s.hasten()
	}
	if err == nil && !PollUntil(startLimit, s.ready) {
		err = fmt.Errorf("redistest: the sentinels did not find each other within %v:\n%s", startLimit, s.describe())
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// watcher is a sentinel of the primary.
func watcher(primary *Server, c config) setup {
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d %[3]d\n"+
		"sentinel down-after-milliseconds %[1]s %[4]s\n"+
		"sentinel failover-timeout %[1]s %[5]s\n",
		MasterSet, primary.port, quorum, milliseconds(cmp.Or(c.failover, sentinelFailover)), milliseconds(failoverTimeout))
	return setup{
		first: []string{sentinelFile, "--sentinel"},
		files: []file{{sentinelFile, text}},
		keeps: sentinelFile,
	}
}

// follow makes the second data server the replica of the first. Not by its command line, which it would
// follow at every restart.
func (s *Sentinel) follow() error {
	if _, err := s.data[1].Do("REPLICAOF", "127.0.0.1", s.data[0].port); err != nil {
		return err
	}
	if !PollUntil(startLimit, s.data[1].linked) {
		return fmt.Errorf("redistest: no replication within %v; the replica logged:\n%s", startLimit, s.data[1].Log())
	}
	return nil
}

// hasten makes the sentinels publish and ask for changes more often than by default, every two and ten
// seconds. The time after which a primary has failed does not change, but all else is quicker. A sentinel
// that is restarted is slow again, and so is one before Redis 7.0.
func (s *Sentinel) hasten() error {
	for _, w := range s.watch {
		if isOld(w.binary) {
			return nil
		}
		if _, err := w.Do("SENTINEL", "DEBUG", "PUBLISH-PERIOD", 250, "INFO-PERIOD", 500); err != nil {
			return fmt.Errorf("redistest: sentinel: %w", err)
		}
	}
	return nil
}

// Name returns "sentinel".
func (s *Sentinel) Name() string { return nameSentinel }

// Client returns a client that asks the sentinels for the primary, and is closed when the test
// ends. mod, if not nil, changes its options, of which only those of the sentinels are set.
func (s *Sentinel) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, rueidis.ClientOption{
		InitAddress: addresses(s.watch),
		Sentinel:    rueidis.SentinelOption{MasterSet: MasterSet, TopologyRefreshInterval: refresh},
	}, mod)
}

// Servers returns the two servers with data, the first primary first, and then the sentinels.
func (s *Sentinel) Servers() []*Server { return slices.Concat(s.data, s.watch) }

// Sentinels returns the three sentinels.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.watch) }

// Close kills all five.
func (s *Sentinel) Close() { closeAll(s.Servers()) }

// Primary returns the present primary: the server that all sentinels that reply name, once it agrees.
func (s *Sentinel) Primary(tb testing.TB) *Server {
	tb.Helper()
	return s.awaitPrimary(tb, "a primary", func(*Server) bool { return true })
}

// Replica returns the data server that is not the primary. It may be away, or not know yet.
func (s *Sentinel) Replica(tb testing.TB) *Server {
	tb.Helper()
	if s.Primary(tb) == s.data[0] {
		return s.data[1]
	}
	return s.data[0]
}

// AwaitFailover waits until another server than old is the primary, and returns it. Old must have
// been killed or frozen, or a failover have been asked for.
func (s *Sentinel) AwaitFailover(tb testing.TB, old *Server) *Server {
	tb.Helper()
	return s.awaitPrimary(tb, "another primary than "+old.Addr(), func(now *Server) bool { return now != old })
}

// HandOver makes the sentinels switch to the other data server, as operators do, and returns both. A sentinel refuses while it knows no
// fit replica, or switches already: it is asked again.
func (s *Sentinel) HandOver(tb testing.TB) (old, primary *Server) {
	tb.Helper()
	old = s.Primary(tb)
	Await(tb, "a sentinel that switches", func() bool {
		_, err := s.watch[0].Do("SENTINEL", "FAILOVER", MasterSet)
		return err == nil || strings.HasPrefix(err.Error(), "INPROG")
	})
	return old, s.AwaitFailover(tb, old)
}

// AwaitLastFailover is AwaitFailover, after which the primary stays: the sentinels begin no further failover before it has been
// silent for a minute, and none is under way. A test calls it before it restarts old. Otherwise a stall of a second makes old
// the primary again, which is empty.
func (s *Sentinel) AwaitLastFailover(tb testing.TB, old *Server) *Server {
	tb.Helper()
	s.AwaitFailover(tb, old)
	for _, w := range s.watch {
		w.MustDo(tb, "SENTINEL", "SET", MasterSet, "down-after-milliseconds", milliseconds(changeLimit))
	}
	mustPollUntil(tb, "sentinels without a failover", func() bool { return all(s.watch, (*Server).isCalm) }, s.describe)
	return s.AwaitFailover(tb, old)
}

// AwaitReady waits until all five are up, one primary and its replica with its link, and every
// sentinel knows: until the next failover could happen.
func (s *Sentinel) AwaitReady(tb testing.TB) {
	tb.Helper()
	mustPollUntil(tb, "two data servers and three sentinels that agree", s.ready, s.describe)
}

func (s *Sentinel) awaitPrimary(tb testing.TB, what string, good func(*Server) bool) (found *Server) {
	tb.Helper()
	mustPollUntil(tb, what, func() bool {
		found = s.elected()
		return found != nil && good(found) && found.isPrimary()
	}, s.describe)
	return found
}

func addresses(servers []*Server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Addr()
	}
	return list
}

// elected returns the data server that all sentinels name, or nil. A sentinel that does not reply counts against it: it may
// not know of a failover yet, and makes the promoted server a replica of its former primary as soon as that is up again.
func (s *Sentinel) elected() *Server {
	names := make(chan string, sentinels)
	all(s.watch, func(w *Server) bool {
		names <- w.named()
		return true
	})
	close(names)
	count := make(map[string]int)
	for addr := range names {
		count[addr]++
	}
	for _, d := range s.data {
		if count[d.Addr()] == sentinels {
			return d
		}
	}
	return nil
}

// named returns the address that a sentinel has for the primary, "" if it does not reply.
func (s *Server) named() string {
	reply, err := s.at().do(viewLimit, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterSet)
	if pair, ok := reply.([]any); err == nil && ok && len(pair) == 2 {
		return fmt.Sprintf("%v:%v", pair[0], pair[1])
	}
	return ""
}

// ready reports whether the next failover could happen and no sentinel has anything left to correct. A
// sentinel that sees a server which is not yet the replica it should be makes it one, and cuts all its
// connections.
func (s *Sentinel) ready() bool {
	primary := s.elected()
	if primary == nil || !primary.isPrimary() {
		return false
	}
	want := fmt.Sprintf("status=ok,address=%s,slaves=1,sentinels=%d", primary.Addr(), sentinels)
	return all(s.watch, func(w *Server) bool { return strings.HasSuffix(w.watched(), want) && w.seesReplica(primary) }) &&
		all(s.data, func(d *Server) bool { return d == primary || d.linked() })
}

// watched returns what a sentinel says of the primary.
func (s *Server) watched() string {
	info, err := s.at().info(viewLimit, "sentinel")
	if err != nil {
		return err.Error()
	}
	return info["master0"]
}

// seesReplica reports whether a sentinel knows a replica of the primary to which all is well.
func (s *Server) seesReplica(of *Server) bool {
	reply, err := s.at().do(viewLimit, "SENTINEL", "REPLICAS", MasterSet)
	list, _ := reply.([]any)
	if err != nil || len(list) != 1 {
		return false
	}
	seen := fieldsOf(list[0])
	return seen["flags"] == "slave" && seen["role-reported"] == "slave" && seen["master-link-status"] == "ok" &&
		seen["master-port"] == strconv.Itoa(of.port)
}

// isCalm reports whether a sentinel knows of nothing wrong with the primary, and runs no failover.
func (s *Server) isCalm() bool {
	reply, err := s.at().do(viewLimit, "SENTINEL", "MASTER", MasterSet)
	return err == nil && fieldsOf(reply)["flags"] == "master"
}

// fieldsOf returns the fields that a sentinel lists of a server.
func fieldsOf(reply any) map[any]any {
	list, _ := reply.([]any)
	fields := make(map[any]any)
	for i := 0; i+1 < len(list); i += 2 {
		fields[list[i]] = list[i+1]
	}
	return fields
}

func (s *Sentinel) describe() string {
	var text strings.Builder
	for _, w := range s.watch {
		fmt.Fprintf(&text, "sentinel %s: %s\n", w.Addr(), w.watched())
	}
	for _, d := range s.data {
		info, err := d.at().info(viewLimit, "replication")
		fmt.Fprintf(&text, "server %s: role %s, link %s (%v)\n", d.Addr(), info["role"], info["master_link_status"], err)
	}
	return text.String()
}
