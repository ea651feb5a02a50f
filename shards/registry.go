// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/session"
)

// shardRegistry holds the state of one session for groups of shards: the observed ones, and the members.
type shardRegistry struct {
	notify.Registry

	session *session.Session
	rounds  atomic.Uint64  // how many rounds over all names have begun
	pollers sync.WaitGroup // the goroutines of memberships; added to under the lock of members, while it is not closed

	members struct {
		sync.Mutex
		all    map[*Member]struct{} // the members that are not over
		closed bool                 // no poller is started any more
	}
}

func registryOf(s *session.Session) *shardRegistry {
	return session.RegistryOf(s, "shards", func() *shardRegistry {
		r := &shardRegistry{session: s}
		r.Init(s.Timers, s.Dispatch, s.Runner)
		r.members.all = make(map[*Member]struct{})
		return r
	})
}

// add remembers a member until remove.
func (r *shardRegistry) add(m *Member) {
	r.members.Lock()
	defer r.members.Unlock()
	r.members.all[m] = struct{}{}
}

// remove forgets a member that is over.
func (r *shardRegistry) remove(m *Member) {
	r.members.Lock()
	delete(r.members.all, m)
	r.members.Unlock()
	r.session.End()
}

func (r *shardRegistry) list() []*Member {
	r.members.Lock()
	defer r.members.Unlock()
	return slices.Collect(maps.Keys(r.members.all))
}

// begin starts the poller of a membership, and reports whether it did: not if the session has closed.
func (r *shardRegistry) begin(poll func()) bool {
	r.members.Lock()
	defer r.members.Unlock()
	if r.members.closed {
		return false
	}
	r.pollers.Go(poll)
	return true
}

// Refuse implements session.KindRegistry: observations end, and members leave. Their functions have until Evict.
func (r *shardRegistry) Refuse(err error) {
	r.Registry.Refuse(err)
	for _, m := range r.list() {
		m.leave(fmt.Errorf("%w: %w", ErrLeft, err))
	}
}

// Evict implements session.KindRegistry: the leases of all members end for cause.
func (r *shardRegistry) Evict(cause error) {
	for _, m := range r.list() {
		m.evict(cause)
	}
}

// Close implements session.KindRegistry: it ends the pollers, and waits for them.
func (r *shardRegistry) Close() {
	r.members.Lock()
	r.members.closed = true
	r.members.Unlock()
	r.Registry.Close() // which ends the context of their calls
	r.pollers.Wait()
}
