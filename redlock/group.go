// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// kind is the name by which sessions know these locks.
const kind = "redlock"

// sessionGroup is several sessions with all that the locks over them share: a queue for each name in this process, and
// the keeping of leases. The closing of any of its sessions is the end of it.
type sessionGroup struct {
	scope  hold.Scope
	queues *waitroom.Table
	holds  holdTable

	name    string             // the ids of the sessions, joined
	members []*session.Session // the sessions in the order of their ids
	keeper  *hold.Keeper
	ctx     context.Context //nolint:containedctx // for renewals under way; ends at close
	cancel  context.CancelFunc
	late    sync.WaitGroup // renewals that continue after a quorum replied, and heals; added to by the keeper's batches alone
	closing chan struct{}  // closed when a session closes: all waits end
	refused sync.Once
	closed  sync.Once

	rounds   atomic.Uint64 // the number of rounds of renewals that began
	healPace healPace
}

// groupRegistry is what one session keeps for these locks: the groups that it is a member of.
type groupRegistry struct {
	mu struct {
		sync.Mutex
		groups map[string]*sessionGroup
	}
}

func registryOf(s *session.Session) *groupRegistry {
	return session.RegistryOf(s, kind, func() *groupRegistry {
		r := new(groupRegistry)
		r.mu.groups = make(map[string]*sessionGroup)
		return r
	})
}

// groupOf returns the group of these sessions, in whatever order they come. Registries are locked in the
// order of their sessions' ids.
func groupOf(members []*session.Session) *sessionGroup {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b *session.Session) int { return cmp.Compare(a.ID(), b.ID()) })
	var name strings.Builder
	for _, m := range members {
		name.WriteString(m.ID())
	}
	first := registryOf(members[0])
	first.mu.Lock()
	defer first.mu.Unlock()
	if g := first.mu.groups[name.String()]; g != nil {
		return g
	}
	g := newGroup(name.String(), members)
	first.mu.groups[g.name] = g
	for _, m := range members[1:] {
		r := registryOf(m)
		r.mu.Lock()
		r.mu.groups[g.name] = g
		r.mu.Unlock()
	}
	return g
}

func newGroup(name string, members []*session.Session) *sessionGroup {
	g := &sessionGroup{
		scope: hold.Scope{Kind: kind}, queues: waitroom.NewTable(members[0].Timers), name: name, members: members, closing: make(chan struct{}),
	}
	g.ctx, g.cancel = errs.WithCancel(context.Background(), errs.ErrClosed)
	g.keeper = hold.NewKeeper(quorumRunner{g}, members[0].Timers, members[0].Settings.Observer)
	return g
}

// close ends what is under way, waits for it, and forgets the group.
func (g *sessionGroup) close() {
	g.closed.Do(func() {
		g.cancel()
		g.keeper.Close()
		g.late.Wait()
		for _, m := range g.members {
			r := registryOf(m)
			r.mu.Lock()
			delete(r.mu.groups, g.name)
			r.mu.Unlock()
		}
	})
}

// each calls visit for every group, under no lock.
func (r *groupRegistry) each(do func(*sessionGroup)) {
	r.mu.Lock()
	groups := slices.Collect(maps.Values(r.mu.groups))
	r.mu.Unlock()
	for _, g := range groups {
		do(g)
	}
}

// Refuse implements session.KindRegistry.
func (r *groupRegistry) Refuse(err error) {
	r.each(func(g *sessionGroup) {
		g.refused.Do(func() { close(g.closing) })
		g.queues.Refuse(err)
	})
}

// LocalHolds implements session.HoldRegistry.
func (r *groupRegistry) LocalHolds(key string, recheck bool) (all []session.LocalHold) {
	r.each(func(g *sessionGroup) { all = append(all, g.holds.list(key, recheck)...) })
	return all
}

// Close implements session.KindRegistry.
func (r *groupRegistry) Close() { r.each((*sessionGroup).close) }

// runAll runs a call for each of members at once, each on a goroutine of its own that ends with the call. Sessions
// count it, so that they do not close before the undo that it may need has begun. The caller must be counted
// in itself.
func runAll(members []*session.Session, call func(i int, m *session.Session)) {
	for i, m := range members {
		m.BeginDetached()
		go func() {
			defer m.End()
			call(i, m)
		}()
	}
}

// holdTable has the holds of a group, by key, for Close and ForceUnlock to find. A hold that is being released is not in it.
type holdTable struct {
	mu struct {
		sync.Mutex
		byKey    map[string]*quorumHold
		rechecks uint64 // how often holds were rechecked so far
	}
}

// recheckCount returns how often holds were rechecked so far. A ballot reads it before it asks for a hold.
func (h *holdTable) recheckCount() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.rechecks
}

// add puts hold into the table. It reports whether holds were rechecked since recheckCount returned since: the server may have
// granted hold before that, so hold is to be rechecked too.
func (h *holdTable) add(hold *quorumHold, since uint64) (needsRecheck bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.byKey == nil {
		h.mu.byKey = make(map[string]*quorumHold)
	}
	h.mu.byKey[hold.Key()] = hold
	return h.mu.rechecks != since
}

// find returns the holds of a batch of renewals by key: nil for one that is being released.
func (h *holdTable) find(batch wire.KeyedCall) []*quorumHold {
	h.mu.Lock()
	defer h.mu.Unlock()
	holds := make([]*quorumHold, len(batch.Keys))
	for k, key := range batch.Keys {
		if hold := h.mu.byKey[key]; hold != nil && hold.ballot.attempt == proto.RenewalAt(batch.PerKey, k).Hold {
			holds[k] = hold
		}
	}
	return holds
}

// remove takes hold out of the table.
func (h *holdTable) remove(hold *quorumHold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.byKey[hold.Key()] == hold {
		delete(h.mu.byKey, hold.Key())
	}
}

// list returns the hold of key, or all holds if key is "". With recheck, ballots learn that their holds are to be rechecked.
func (h *holdTable) list(key string, recheck bool) (holds []session.LocalHold) { //nolint:revive // see session.KindRegistry
	h.mu.Lock()
	defer h.mu.Unlock()
	if recheck {
		h.mu.rechecks++
	}
	for of, hold := range h.mu.byKey {
		if key == "" || key == of {
			holds = append(holds, hold)
		}
	}
	return holds
}

// The arithmetic of votes. Any two quorums of the same servers share one, and a verdict never changes: what is still to
// come cannot turn it.

// majority is how many of n servers decide.
func majority(n int) int { return n/2 + 1 }

// verdict is the result of a count of replies.
type verdict int

const (
	// open: missing replies decide.
	open verdict = iota
	// carried: a quorum said yes.
	carried
	// failed: no quorum can say yes any more.
	failed
)

// tally counts the replies of n servers. Each replies once, or never.
type tally struct{ n, yes, no int }

// verdict returns what the count comes to, whatever is still to come.
func (t *tally) verdict() verdict {
	switch {
	case t.yes >= majority(t.n):
		return carried
	case t.n-t.no < majority(t.n):
		return failed
	}
	return open
}

// add counts one more reply, and reports whether it decided.
func (t *tally) add(yes bool) (decided bool) { //nolint:revive // a reply, not a switch
	before := t.verdict()
	if yes {
		t.yes++
	} else {
		t.no++
	}
	return before == open && t.verdict() != open
}
