// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
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

// Why a Shard has ended, besides signalbox.ErrLost: what Shard.Err returns, and context.Cause of a context that
// is bound to it. The owner must stop its work then, and release the shard.
var (
	// ErrMoved: another member is to own the shard.
	ErrMoved = errors.New("the shard moves to another member")
	// ErrRemoved: the set has the shard no more.
	ErrRemoved = errors.New("the shard was removed")
	// ErrResized: the number of shards changes, so that keys belong to other shards.
	ErrResized = errors.New("the number of shards changes")
	// ErrLeft: the member leaves the group.
	ErrLeft = errors.New("the member leaves")
)

// Finished is what a function of Run returns if the work of a named shard is done for good: the name leaves the
// set. It may be wrapped. For a shard of Count it is an error like any other.
var Finished = errors.New("the shard is finished") //nolint:errname,gochecknoglobals,revive,staticcheck // a word of the function's, as io.EOF is

// DefaultElsewhere is how long this member does not get a shard back after Elsewhere with a time of 0, and after
// a panic.
const DefaultElsewhere = 30 * time.Second

// maxElsewhere is how long a shard is kept from a member at most: the script takes 15 digits of microseconds.
const maxElsewhere = 365 * 24 * time.Hour

// elsewhereError is what Elsewhere returns.
type elsewhereError struct {
	err   error
	pause time.Duration
}

// Elsewhere returns an error by which a function of Run gives its shard away: it is released, and this member
// does not get it again for d: DefaultElsewhere if d is not positive, and a year if it is longer. err says why, and may
// be nil.
func Elsewhere(err error, d time.Duration) error {
	if d <= 0 {
		d = DefaultElsewhere
	}
	return &elsewhereError{err, min(d, maxElsewhere)}
}

// Error implements error.
func (e *elsewhereError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("not here for %v", e.pause)
	}
	return errs.OneLine(fmt.Sprintf("not here for %v: %v", e.pause, e.err))
}

// Unwrap returns why.
func (e *elsewhereError) Unwrap() error { return e.err }
