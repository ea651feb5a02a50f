// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

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

// MoveSlot moves a slot with its keys to another node, and returns when every node knows.
func (c *Cluster) MoveSlot(tb testing.TB, slot int, to *Server) {
	tb.Helper()
	m := c.BeginMove(tb, slot, to)
	m.Keys(tb)
	m.Finish(tb)
}

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
	mustPollUntil(tb, fmt.Sprintf("slot %d at %s", m.Slot, m.To.Addr()), func() bool {
		return m.cluster.agreed(m.Slot, m.To, nil)
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
