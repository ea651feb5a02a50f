// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// nodeInfo is a node of a cluster, as one of them sees it.
type nodeInfo struct {
	id        string
	flags     []string
	primary   string // the id of its primary, if it is a replica
	epoch     int64
	connected bool
	slots     []slotRange
}

// slotRange is from first to last, both included.
type slotRange struct{ first, last int }

// nodeView is what one node sees.
type nodeView []nodeInfo

// view asks the node what it sees.
func (s *Server) view() (nodeView, error) {
	reply, err := s.at().do(viewLimit, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	return parseView(fmt.Sprint(reply))
}

// parseView reads the reply to CLUSTER NODES, a line for each node:
//
//	<id> <ip:port@bus,...> <flag,...> <primary or -> <ping> <pong> <epoch> <link> <slot or first-last>...
//
// Slots that are being moved come last, in brackets; they still belong to their owner.
func parseView(text string) (nodeView, error) {
	var v nodeView
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 8 {
			return nil, fmt.Errorf("redistest: not a node of a cluster: %q", line)
		}
		node := nodeInfo{id: words[0], flags: strings.Split(words[2], ","), connected: words[7] == "connected"}
		if words[3] != "-" {
			node.primary = words[3]
		}
		var err error
		if node.epoch, err = strconv.ParseInt(words[6], 10, 64); err != nil {
			return nil, fmt.Errorf("redistest: epoch of a node: %w", err)
		}
		for _, word := range words[8:] {
			if r, ok := parseRange(word); ok {
				node.slots = append(node.slots, r)
			}
		}
		v = append(v, node)
	}
	return v, nil
}

func parseRange(word string) (r slotRange, ok bool) {
	first, last, several := strings.Cut(word, "-")
	if !several {
		last = first
	}
	var errs [2]error
	r.first, errs[0] = strconv.Atoi(first)
	r.last, errs[1] = strconv.Atoi(last)
	return r, errs[0] == nil && errs[1] == nil
}

// has reports whether the member is a primary that has the slot.
func (n nodeInfo) has(slot int) bool {
	return n.primary == "" && slices.ContainsFunc(n.slots, func(r slotRange) bool { return r.first <= slot && slot <= r.last })
}

func (n nodeInfo) flagged(flag string) bool { return slices.Contains(n.flags, flag) }

// self returns the node that was asked.
func (v nodeView) self() nodeInfo {
	for _, node := range v {
		if node.flagged("myself") {
			return node
		}
	}
	return nodeInfo{}
}

// known returns the member of an id.
func (v nodeView) known(id string) nodeInfo {
	for _, node := range v {
		if node.id == id {
			return node
		}
	}
	return nodeInfo{}
}

// whole reports whether there are n members, each of them well, known by all of its names, and half of
// them replicas.
func (v nodeView) whole(n int) bool {
	replicas := 0
	for _, node := range v {
		if node.flagged("handshake") || node.flagged("noaddr") || node.flagged("fail") || node.flagged("fail?") {
			return false
		}
		if !node.connected && !node.flagged("myself") {
			return false
		}
		if node.primary != "" {
			replicas++
		}
	}
	return len(v) == n && 2*replicas == n
}

// selfViews returns what each node that replies says of itself.
func (c *Cluster) selfViews() map[*Server]nodeInfo {
	var mu sync.Mutex
	selves := make(map[*Server]nodeInfo)
	all(c.nodes, func(n *Server) bool {
		v, err := n.view()
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			selves[n] = v.self()
		}
		return true
	})
	return selves
}

// replies reports whether the node is neither down nor frozen.
func (s *Server) replies() bool {
	_, err := s.at().do(viewLimit, "PING")
	return err == nil
}

// isWell reports whether the node says that every slot has an owner and that it may serve its own.
func (s *Server) isWell() bool {
	reply, err := s.at().do(viewLimit, "CLUSTER", "INFO")
	return err == nil && parseInfo(fmt.Sprint(reply))["cluster_state"] == "ok"
}

// Move is a slot on its way from one node to another. Between its steps a test sees what clients see while
// a cluster is resharded: [Cluster.BeginMove], then [Move.Keys] any number of times, then [Move.Finish]. A
// move that is not finished leaves the slot open.
type Move struct {
	Slot     int
	From, To *Server

	cluster *Cluster
}

// migrateLimit bounds the transfer of keys, in milliseconds. It takes about one.
const migrateLimit = 10_000

// awaitAgain is how long nodes have to agree on the owner of a slot before they are notified again.
const awaitAgain = 5 * time.Second

// BeginMove opens a slot at both of its ends. From then on its owner redirects a request for a key that it
// does not have to the other node (ASK), and refuses a request for several keys if only some of them are
// away (TRYAGAIN).
func (c *Cluster) BeginMove(tb testing.TB, slot int, to *Server) *Move {
	tb.Helper()
	tally.Fault("slot moved")
	m := &Move{Slot: slot, From: c.Owner(tb, slot), To: to, cluster: c}
	if m.From == to {
		tb.Fatalf("redistest: slot %d is at %s already", slot, to.Addr())
	}
	selves := m.selves(tb)
	to.MustDo(tb, "CLUSTER", "SETSLOT", slot, "IMPORTING", selves[m.From].id)
	m.From.MustDo(tb, "CLUSTER", "SETSLOT", slot, "MIGRATING", selves[to].id)
	return m
}

// selves waits until both ends of the move reply, and returns what each node says of itself.
func (m *Move) selves(tb testing.TB) (selves map[*Server]nodeInfo) {
	tb.Helper()
	mustPollUntil(tb, "both ends of slot "+strconv.Itoa(m.Slot), func() bool {
		selves = m.cluster.selfViews()
		return selves[m.From].id != "" && selves[m.To].id != ""
	}, m.cluster.describe)
	return selves
}

// Keys transfers these keys of the slot, or all that there are where none is named.
func (m *Move) Keys(tb testing.TB, keys ...string) {
	tb.Helper()
	if len(keys) == 0 {
		keys = m.left(tb)
	}
	if len(keys) == 0 {
		return
	}
	words := []any{"MIGRATE", "127.0.0.1", m.To.port, "", 0, migrateLimit, "KEYS"}
	for _, key := range keys {
		words = append(words, key)
	}
	m.From.MustDo(tb, words...)
}

// Finish transfers what was left, gives the slot to its new owner, and returns when every node that replies
// knows. The new owner is notified first. Otherwise clients that the other nodes redirect could reach it
// before it knows, and it would send them back.
func (m *Move) Finish(tb testing.TB) {
	tb.Helper()
	m.Keys(tb)
	selves := m.selves(tb)
	notified := []*Server{m.To, m.From}
	for n, self := range selves {
		if self.primary == "" && n != m.To && n != m.From {
			notified = append(notified, n)
		}
	}
	for _, n := range notified {
		n.MustDo(tb, "CLUSTER", "SETSLOT", m.Slot, "NODE", selves[m.To].id)
	}
	// A node that hears of an older owner in that moment, as beside another move, takes the slot back: it is notified again.
	again := time.Now().Add(awaitAgain)
	mustPollUntil(tb, fmt.Sprintf("slot %d at %s", m.Slot, m.To.Addr()), func() bool {
		if m.cluster.agreed(m.Slot, m.To, nil) {
			return true
		}
		if time.Now().After(again) {
			again = time.Now().Add(awaitAgain)
			for _, n := range notified {
				_, _ = n.at().do(viewLimit, "CLUSTER", "SETSLOT", m.Slot, "NODE", selves[m.To].id)
			}
		}
		return false
	}, m.cluster.describe)
}

// left returns the keys that have not been transferred.
func (m *Move) left(tb testing.TB) []string {
	tb.Helper()
	count, _ := m.From.MustDo(tb, "CLUSTER", "COUNTKEYSINSLOT", m.Slot).(int64)
	list, _ := m.From.MustDo(tb, "CLUSTER", "GETKEYSINSLOT", m.Slot, count).([]any)
	keys := make([]string, len(list))
	for i, key := range list {
		keys[i] = fmt.Sprint(key)
	}
	return keys
}
