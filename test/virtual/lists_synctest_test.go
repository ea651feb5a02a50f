// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/inspect/inspecthttp"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// perKey is how long a large server works for each key that it examines.
const perKey = 2 * time.Microsecond

// crowdedServer is a server with many keys of other programs, seen through SCAN.
type crowdedServer struct {
	keys int

	mu    sync.Mutex
	life  string        // the run_id of the server
	found []string      // the keys that the page in the middle has
	busy  time.Duration // the time of all SCANs
	first int           // the number of walks that began
}

// hook replies as the large server does to what lists ask.
func (c *crowdedServer) hook(peer *server.Peer, command string, words ...string) bool {
	switch command {
	case "SCAN":
		at, _ := strconv.Atoi(words[0])
		count, _ := strconv.Atoi(words[4])
		time.Sleep(time.Duration(count) * perKey)
		c.page(peer, at, count)
	case "INFO":
		c.mu.Lock()
		defer c.mu.Unlock()
		peer.WriteBulk("# Server\r\nrun_id:" + c.life + "\r\n")
	case "DBSIZE":
		peer.WriteInt(c.keys)
	default:
		return false
	}
	return true
}

func (c *crowdedServer) page(peer *server.Peer, at, count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy += time.Duration(count) * perKey
	if at == 0 {
		c.first++
	}
	next := at + count
	if next >= c.keys {
		next = 0
	}
	var keys []string
	if middle := c.keys / 2; at <= middle && middle < at+count {
		keys = c.found
	}
	var reply strings.Builder
	cursor := strconv.Itoa(next)
	fmt.Fprintf(&reply, "*2\r\n$%d\r\n%s\r\n*%d\r\n", len(cursor), cursor, len(keys))
	for _, key := range keys {
		fmt.Fprintf(&reply, "$%d\r\n%s\r\n", len(key), key)
	}
	peer.WriteRaw(reply.String())
}

// worked returns how long the server has worked for lists.
func (c *crowdedServer) worked() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy
}

// beside makes the server of w a large one, on which these names may be in use.
func (f *fixture) beside(keys int, names ...string) *crowdedServer {
	c := &crowdedServer{keys: keys, life: "one"}
	for _, name := range names {
		c.found = append(c.found, locktest.Key(name))
	}
	f.redis.Server().SetPreHook(c.hook)
	return c
}

// tenth is the most that lists may have cost a server after a time. Before the first pause they may work for 50 ms, and for a page.
func tenth(of time.Duration) time.Duration { return of/10 + 52*time.Millisecond }

// P10: a list takes at most a tenth of the server's time, however many keys there are; and about that, so that it ends.
func TestNamesTakesATenthOfALargeServer(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		defer atOnce(f.T, reentrant.New(s, "n/1")).Unlock()
		c := f.beside(1_000_000, "n/1")
		begun, examined := time.Now(), int64(0)
		for e, err := range inspect.Names(f.Context(), s, "n/", inspect.Progress(func(now, keys int64) {
			require.Equal(f, int64(1_000_000), keys)
			require.Greater(f, now, examined)
			examined = now
			require.LessOrEqual(f, c.worked(), tenth(time.Since(begun)))
		})) {
			require.NoError(f, err)
			require.Equal(f, "n/1", e.Name)
		}
		require.Equal(f, int64(1_000_000), examined)
		require.Equal(f, 2*time.Second, c.worked())
		require.Less(f, time.Since(begun), 21*time.Second, "the share is used")

		// Two loops share the tenth of their session.
		before, begun := c.worked(), time.Now()
		ended, cancel := context.WithTimeout(f.Context(), 10*time.Second)
		defer cancel()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				for range inspect.Names(ended, s, "n/") { // it ends with its context
				}
			})
		}
		both.Wait()
		require.LessOrEqual(f, c.worked()-before, tenth(time.Since(begun)))

		begun = time.Now()
		for range inspect.Names(f.Context(), s, "n/", inspect.FullSpeed()) { // its time matters
		}
		require.Less(f, time.Since(begun), 3*time.Second)
	})
}

// P10: a round lasts minutes, and Snapshot returns at once: with the holders of the moment, and the age of what is known.
func TestListOfALargeServerIsFreshAndSaysItsAge(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user(signalbox.WithLabel("first")).Session
		other := f.user(signalbox.WithLabel("second")).Session
		lease := atOnce(f.T, reentrant.New(s, "n/1", signalbox.WithFixedLease(24*time.Hour)))
		server := f.beside(2_000_000, "n/1", "n/2")
		begun := time.Now()
		l, stop := listed(f, s)
		defer stop()

		first := l.Snapshot(f.Context())
		require.NoError(f, first.Err)
		require.Empty(f, first.Entries)
		require.False(f, first.Complete)
		require.Less(f, time.Since(begun), 3*time.Second)
		scrapes := func(until func(inspect.Snapshot) bool) (last inspect.Snapshot) {
			for last = l.Snapshot(f.Context()); !until(last); last = l.Snapshot(f.Context()) {
				require.NoError(f, last.Err)
				require.LessOrEqual(f, server.worked(), tenth(time.Since(begun)))
				require.Less(f, time.Since(begun), time.Hour)
				time.Sleep(5 * time.Second)
			}
			return last
		}
		round := scrapes(func(now inspect.Snapshot) bool { return now.Complete })
		require.InDelta(f, 40, round.Took.Seconds(), 2)
		require.Len(f, round.Entries, 1)
		require.Equal(f, "first", round.Entries[0].Holders[0].Label)

		// Another holder is seen at once, by the key that is known. The age grows until the next round ends.
		time.Sleep(5 * time.Second)
		require.NoError(f, locktest.IgnoreUnconfirmed(lease.Unlock()))
		defer atOnce(f.T, reentrant.New(other, "n/1", signalbox.WithFixedLease(24*time.Hour))).Unlock()
		before := time.Now()
		l.Invalidate()
		now := l.Snapshot(f.Context())
		require.Less(f, time.Since(before), time.Second)
		require.Equal(f, "second", now.Entries[0].Holders[0].Label)
		require.Greater(f, now.Age, round.Age)
		next := scrapes(func(now inspect.Snapshot) bool { return now.Age < round.Age })
		require.Len(f, next.Entries, 1)

		// A list that is not asked any more ceases to work.
		time.Sleep(6 * time.Minute)
		worked := server.worked()
		time.Sleep(time.Hour)
		require.Equal(f, worked, server.worked())
	})
}

// listed returns a list that runs, and what ends it.
func listed(f *fixture, s *signalbox.Session) (l *inspect.List, stop func()) {
	l = inspect.NewList(s, "n/", 5*time.Second)
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }() // until stop
	time.Sleep(time.Millisecond)
	return l, func() {
		cancel()
		require.ErrorIs(f, <-ended, context.Canceled)
	}
}

// A cursor means nothing to another server: the walk begins anew, and yields what that server has.
func TestListBeginsAnewAtAnotherServer(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		defer atOnce(f.T, reentrant.New(s, "n/1", signalbox.WithFixedLease(24*time.Hour))).Unlock()
		c := f.beside(200_000)
		replaced := false
		entries := 0
		for _, err := range inspect.Names(f.Context(), s, "n/", inspect.Progress(func(examined, _ int64) {
			if examined > 150_000 && !replaced {
				replaced = true
				c.mu.Lock()
				c.life, c.found = "two", []string{locktest.Key("n/1")}
				c.mu.Unlock()
			}
		})) {
			require.NoError(f, err)
			entries++
		}
		require.Equal(f, 1, entries)
		require.Equal(f, 2, c.first)
	})
}

// slotsOf returns what CLUSTER SLOTS returns if the nodes have equal shares of the slots.
func slotsOf(nodes ...string) string {
	var reply strings.Builder
	fmt.Fprintf(&reply, "*%d\r\n", len(nodes))
	share := 16384 / len(nodes)
	for i, node := range nodes {
		host, port, _ := strings.Cut(node, ":")
		fmt.Fprintf(&reply, "*3\r\n:%d\r\n:%d\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$2\r\nid\r\n", i*share, (i+1)*share-1, len(host), host, port)
	}
	return reply.String()
}

// slotsAre lets the server reply to CLUSTER SLOTS from now on.
func (f *fixture) slotsAre(reply string) {
	f.redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
		if command == "CLUSTER" {
			peer.WriteRaw(reply)
		}
		return command == "CLUSTER"
	})
}

// P10: a list of a cluster asks the nodes that have slots. A node that the client does not know is an error of its own, and an
// address that only the servers know is passed over.
func TestListOfAClusterAsksTheNodesThatTheServersName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slots func(node string) string
		found int    // entries
		fails string // the one error; "" if there is no error
		at    string // the node of the error; "" if it is about no node
	}{
		"Known":        {func(node string) string { return slotsOf(node) }, 2, "", ""},
		"Unnamed":      {func(node string) string { _, port, _ := strings.Cut(node, ":"); return slotsOf(":" + port) }, 2, "", ""},
		"OneUnknown":   {func(node string) string { return slotsOf(node, "gone.example:1") }, 2, "does not reach this node", "gone.example:1"},
		"AllUnknown":   {func(string) string { return slotsOf("behind.proxy.example:1") }, 2, "", ""},
		"ShortRow":     {func(string) string { return "*1\r\n*2\r\n:0\r\n:16383\r\n" }, 0, "the reply to CLUSTER SLOTS cannot be read", ""},
		"ShortAddress": {func(string) string { return "*1\r\n*3\r\n:0\r\n:16383\r\n*1\r\n$1\r\na\r\n" }, 0, "the reply to CLUSTER SLOTS cannot be read", ""},
		"Denied":       {func(string) string { return "-NOPERM no\r\n" }, 0, "NOPERM", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				s, node, end := f.clusterSession()
				defer end()
				for _, name := range []string{"n/1", "n/2"} {
					defer atOnce(f.T, reentrant.New(s, name)).Unlock()
				}
				f.slotsAre(c.slots(node))
				entries, failures := listOf(f, s)
				require.Len(f, entries, c.found)
				if c.fails == "" {
					require.Empty(f, failures)
					return
				}
				require.Len(f, failures, 1)
				require.ErrorContains(f, failures[0], c.fails)
				if of := new(inspect.NodeError); c.at != "" {
					require.ErrorAs(f, failures[0], &of)
					require.Equal(f, c.at, of.Node)
				}
			})
		})
	}
}

// clusterSession returns a session of a client that takes the server for a cluster of one node, and the address of that.
func (f *fixture) clusterSession() (s *signalbox.Session, node string, end func()) {
	c, _ := f.clusterClient()
	nodes := slices.Collect(maps.Keys(c.Nodes()))
	require.Len(f, nodes, 1)
	s = signalbox.NewSession(c)
	return s, nodes[0], func() {
		require.NoError(f, s.Close(f.Context()))
		c.Close()
		time.Sleep(2 * time.Second) // a client of a cluster closes connections later
	}
}

// A list that is left early asks no further node.
func TestListOfAClusterEndsWithItsLoop(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, node, end := f.clusterSession()
		defer end()
		defer atOnce(f.T, reentrant.New(s, "n/1")).Unlock()
		for _, slots := range []string{slotsOf(node, "gone.example:1"), slotsOf("gone.example:1", node)} {
			f.slotsAre(slots)
			yielded := 0
			for range inspect.Names(f.Context(), s, "n/") {
				yielded++
				break
			}
			require.Equal(f, 1, yielded)
		}
	})
}

// listOf returns what a list yields.
func listOf(f *fixture, s *signalbox.Session) (entries []inspect.Entry, failures []error) {
	for e, err := range inspect.Names(f.Context(), s, "n/") {
		if err != nil {
			failures = append(failures, err)
			continue
		}
		entries = append(entries, e)
	}
	return entries, failures
}

// The list behind pages is kept up to date for 30 s after the last request. A later request begins again, and Close of the session ends it.
func TestPagesReadForAWhileAfterARequest(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		pages, resting := inspecthttp.New(s, inspecthttp.Options{}), locktest.Goroutines()
		ask := func() { require.NoError(f, pages.Snapshot(f.Context()).Err) }
		isRead := func() bool {
			synctest.Wait()
			return locktest.Goroutines() > resting
		}
		for range 2 {
			for range 2 {
				ask()
				time.Sleep(29 * time.Second)
				require.True(f, isRead())
			}
			time.Sleep(2 * time.Second)
			require.False(f, isRead())
		}
		ask()
		require.NoError(f, s.Close(f.Context()))
		require.False(f, isRead())
		require.ErrorIs(f, pages.Snapshot(f.Context()).Err, signalbox.ErrClosed)
	})
}

// Pages that were asked for while the server was away show names soon after it comes: the reason is asked for again each second.
func TestPagesShowNamesSoonAfterALateStart(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, link, end := f.lateSession(t)
		f.ends = append(f.ends, end)
		pages := inspecthttp.New(s, inspecthttp.Options{})
		require.ErrorContains(f, pages.Snapshot(f.Context()).Err, "refused")
		link.refuses.Store(false)
		time.Sleep(3 * time.Second)
		require.NoError(f, pages.Snapshot(f.Context()).Err)
	})
}
