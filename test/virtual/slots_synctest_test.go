// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/reentrant"
)

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
			bubble(t, func(f *fixture) {
				t := f.T
				s, node, end := f.clusterSession()
				defer end()
				for _, name := range []string{"n/1", "n/2"} {
					defer atOnce(t, reentrant.New(s, name)).Unlock()
				}
				f.slotsAre(c.slots(node))
				entries, failures := listOf(f, s)
				require.Len(t, entries, c.found)
				if c.fails == "" {
					require.Empty(t, failures)
					return
				}
				require.Len(t, failures, 1)
				require.ErrorContains(t, failures[0], c.fails)
				if of := new(inspect.NodeError); c.at != "" {
					require.ErrorAs(t, failures[0], &of)
					require.Equal(t, c.at, of.Node)
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
	bubble(t, func(f *fixture) {
		t := f.T
		s, node, end := f.clusterSession()
		defer end()
		defer atOnce(t, reentrant.New(s, "n/1")).Unlock()
		for _, slots := range []string{slotsOf(node, "gone.example:1"), slotsOf("gone.example:1", node)} {
			f.slotsAre(slots)
			yielded := 0
			for range inspect.Names(f.Context(), s, "n/") {
				yielded++
				break
			}
			require.Equal(t, 1, yielded)
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
