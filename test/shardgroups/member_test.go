// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"fmt"
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
)

// channel is what news is published to, without the session.
const channel = "news:"

// news is a shard of which a poll said something.
type news struct {
	version, token, state, shard string
	losses                       int
}

func readNews(text string) (all []news) {
	for text != "" {
		length, _ := strconv.Atoi(text[37:39])
		losses, _ := strconv.Atoi(text[33:37])
		all = append(all, news{version: text[:16], token: text[16:32], state: text[32:33], losses: losses, shard: text[39 : 39+length]})
		text = text[39+length:]
	}
	return all
}

// member plays a member as a client does.
type member struct {
	*group

	world    *world
	number   string
	seen     string
	owns     map[string]string // shard to token: those whose function runs, asked for or not
	due      map[string]bool
	deadline int64 // the time until which the member counts itself as the owner
	weight   int
	limit    int
	said     int    // the number of the last settings
	isLost   bool   // the lease is over, as the member knows
	isGone   bool   // the member polls no more
	isBack   bool   // the member has joined again after that
	hangs    bool   // the member releases nothing
	known    string // what the last poll said of the group
	leaves   bool
	wanted   bool // the last poll asked for the names of the set
}

// world is a group, its members, and what is true of its shards.
type world struct {
	*group

	members []*member
	time    int64              // passes as the clock does, unless that is set
	tokens  map[string]string  // the greatest token that was granted, by shard
	last    map[string]*member // the member that had the shard last
	moves   int                // grants of shards that another member had before
	moved   map[string]int     // the same by shard
	count   int
}

func newWorld(g *group, count int) *world {
	return &world{group: g, count: count, tokens: make(map[string]string), last: make(map[string]*member), moved: make(map[string]int)}
}

func (w *world) add(s settings) *member {
	w.Helper()
	reply := w.join(s)
	require.Equal(w, int64(1), reply[0], "%v", reply)
	m := &member{
		group: w.group, world: w, number: textOf(reply[1]), seen: never, owns: make(map[string]string), due: make(map[string]bool),
		deadline: w.time + integer(reply[3])*2/3, weight: s.weight, limit: s.limit,
	}
	w.members = append(w.members, m)
	return m
}

// polls sends polls until no more is due at once.
func (m *member) polls() {
	m.Helper()
	for n := 0; m.poll(); n++ {
		require.Less(m, n, 10_000, "there is always more")
	}
}

// poll returns whether another poll is due at once.
func (m *member) poll() bool {
	m.Helper()
	reply := m.call(proto.ShardsPollScript, m.number, m.seen, "PUBLISH", channel)
	if integer(reply[0]) == 0 {
		m.lose()
		return false
	}
	m.deadline = m.world.time + integer(reply[2])*2/3
	m.known, m.wanted = textOf(reply[6]), integer(reply[7]) == 1
	for _, n := range readNews(textOf(reply[5])) {
		m.seen = n.version
		m.read(n)
	}
	return integer(reply[3]) == 1
}

func (m *member) read(n news) {
	m.Helper()
	if n.state == "o" {
		if m.owns[n.shard] >= n.token {
			return
		}
		m.world.granted(m, n)
		m.owns[n.shard] = n.token
		delete(m.due, n.shard)
		return
	}
	m.due[n.shard] = true
	if m.owns[n.shard] < n.token { // asked for before it knew of the grant
		m.world.granted(m, n)
		m.owns[n.shard] = n.token
	}
}

// granted checks that no other member that is alive owns the shard, and that tokens rise.
func (w *world) granted(m *member, n news) {
	w.Helper()
	for _, other := range w.members {
		if other != m && !other.isLost && !other.isGone && w.time < other.deadline {
			require.Empty(w, other.owns[n.shard], "%s and %s own %s", m.number, other.number, n.shard)
		}
	}
	require.Greater(w, n.token, w.tokens[n.shard], "token of %s", n.shard)
	w.tokens[n.shard] = n.token
	if last := w.last[n.shard]; last != nil && last != m {
		w.moves++
		w.moved[n.shard]++
	}
	w.last[n.shard] = m
}

// lose is what a member does that learns that it is no member any more.
func (m *member) lose() {
	m.isLost, m.isGone = true, true
	clear(m.owns)
}

// release returns whether the server took it.
func (m *member) release(shard, ending string, pause int64) bool {
	m.Helper()
	entry := fmt.Sprintf("%s%s%015d%02d%s", m.owns[shard], ending, pause, len(shard), shard)
	reply := m.call(proto.ShardsReleaseScript, m.number, entry, "PUBLISH", channel)
	delete(m.owns, shard)
	delete(m.due, shard)
	return textOf(reply[3]) == "1"
}

// drains releases all that was asked for.
func (m *member) drains() {
	m.Helper()
	for shard := range m.due {
		if _, owned := m.owns[shard]; owned {
			m.release(shard, "r", 0)
		}
		delete(m.due, shard)
	}
}

// set changes what the member said when it joined.
func (m *member) set(weight, limit int, mode string) {
	m.Helper()
	m.said++
	reply := m.call(proto.ShardsSetScript, m.number, weight, limit, mode, "elsewhere", m.said, "PUBLISH", channel)
	if integer(reply[0]) == 1 {
		m.weight, m.limit = weight, limit
	}
}

// leave returns how many shards it still has.
func (m *member) leave() int64 {
	m.Helper()
	m.leaves = true
	reply := m.call(proto.ShardsLeaveScript, m.number, proto.Flag(len(m.owns) == 0), "PUBLISH", channel)
	if integer(reply[0]) == 0 || integer(reply[3]) == 0 {
		m.isGone = true
		clear(m.owns)
		return 0
	}
	return integer(reply[3])
}

// goes releases all and leaves.
func (m *member) goes() {
	m.Helper()
	for n := 0; m.leave() > 0; n++ {
		require.Less(m, n, 10_000, "there is always more")
		m.polls()
		for shard := range m.owns {
			m.release(shard, "r", 0)
		}
	}
	m.isGone = true
}

// kill ends a member without a word.
func (m *member) kill() {
	m.isGone = true
	clear(m.owns)
}

// counted returns how many moves there were since it was called last, and how often one shard moved at most.
func (w *world) counted() (moves, most int) {
	for _, n := range w.moved {
		most = max(most, n)
	}
	moves, w.moves = w.moves, 0
	clear(w.moved)
	return moves, most
}

// alive returns the members that poll.
func (w *world) alive() (all []*member) {
	for _, m := range w.members {
		if !m.isGone {
			all = append(all, m)
		}
	}
	return all
}

// passes lets time pass.
func (w *world) passes(span int64) { w.clock, w.time = w.clock+span, w.time+span }

// runs lets time pass, in steps at which all alive members poll, drain and leave.
func (w *world) runs(span, step int64) {
	w.Helper()
	for end := w.clock + span; w.clock < end; w.passes(step) {
		w.turn()
	}
	for _, m := range w.alive() {
		m.polls() // what was granted by the last releases
	}
}

// turn is a poll of all, and their drains.
func (w *world) turn() {
	w.Helper()
	for _, m := range w.alive() {
		m.polls()
	}
	for _, m := range w.alive() {
		m.drains()
		if m.leaves && !m.isGone {
			for shard := range m.owns {
				m.release(shard, "r", 0)
			}
			m.leave()
		}
	}
}

// loads returns how many shards each alive member owns.
func (w *world) loads() (all []int) {
	for _, m := range w.alive() {
		all = append(all, len(m.owns))
	}
	return all
}
