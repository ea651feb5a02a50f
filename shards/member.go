// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Member is a member of a group until it leaves. If its lease is lost it joins again by itself. All methods may be
// called by any goroutine. Join makes one; the zero Member is of no use.
//
// Own returns a shard that it owns, and Changes yields those that come and go.
type Member struct {
	// At the server a Member is one membership after the other (see membership). Its lock guards the state of those, and of
	// all grants. Under it nothing blocks, no call is sent, and no context is ended: what is bound to one may call back. The
	// lock of the registry's members is acquired after it.

	group   *Group
	reports *observe.MemberReports // nil without an observer
	joined  chan struct{}          // closed when the server knows the first membership
	done    chan struct{}          // closed when the member is over

	mu struct {
		sync.Mutex
		cause       error                     // why the member leaves; nil while it stays
		current     *membership               // the one that joins or lives; nil once the member leaves
		memberships int                       // how many have a poller
		grants      map[string]*grant         // every grant that is not over, of all memberships, by the name of the shard
		changes     []*grant                  // the changes for the reader, in order; those of grants that have no change are skipped
		reader      reader                    // what is known of the goroutine that reads them
		changed     chan struct{}             // closed when something changes that a goroutine may wait for, and replaced
		last        wire.Stamp                // the greatest token of a grant: a later grant has a greater one
		desired     settings                  // what SetWeight and SetValue have set
		away        map[string]timers.Instant // the time until which a shard that work gave away is declined, if the server has forgotten it
		count       int                       // how many shards the set had at the last poll; 0 if it has names
		lost        []string                  // the names of the shards that the last memberships had when they were lost; see lose
		lostOf      string                    // when a caller gave the group the set of those names, as the last poll knew
		unsaid      bool                      // whether the server has lost those names, and has not got them again
		failures    [taskCount]error          // why the last call of each task failed; nil after one that had a reply
		refused     refusal                   // the last settings that the server has called wrong
		over        bool
	}
}

// settings are what the server knows of a member by SetWeight and SetValue, and of its reader.
type settings struct {
	number uint64 // the number of these settings, which rises with each change
	limit  int    // the limit of the option, or less while shards are not taken up
	weight int    // 0 is a member that pauses
	value  string
	known  string // what the last poll said of the group: a later join repeats it
}

// mode returns whether a member takes shards, or pauses.
func (s *settings) mode() string {
	if s.weight == 0 {
		return "p"
	}
	return "l"
}

// refusal says which settings the server has called wrong, and why.
type refusal struct {
	number uint64
	err    error
}

func newMember(ctx context.Context, g *Group) *Member {
	m := &Member{group: g, reports: g.base.Member(context.WithoutCancel(ctx)), joined: make(chan struct{}), done: make(chan struct{})}
	m.mu.grants = make(map[string]*grant)
	m.mu.changed, m.mu.away = make(chan struct{}), make(map[string]timers.Instant)
	m.mu.desired = settings{number: 1, limit: g.options.Limit, weight: g.options.Weight, value: g.options.Value}
	return m
}

// start makes the member join. The session has counted it in.
func (m *Member) start() {
	m.group.registry.add(m)
	m.mu.Lock()
	if m.mu.cause == nil { // else Close has begun since, and the member is over
		m.joinLocked("")
	}
	m.unlock()
	if err := m.group.base.Session.Ready(); err != nil {
		m.leave(err) // Close may have begun before the registry knew the member
	}
}

// joinLocked begins a membership, after the one that the server calls old, or "".
func (m *Member) joinLocked(old string) {
	s := newMembership(m, old)
	m.mu.memberships++
	if !m.group.registry.begin(s.run) {
		m.mu.memberships--
		m.mu.cause = errs.ErrClosed
		return
	}
	m.mu.current = s
}

// hasJoined reports whether the server has known a membership of m.
func (m *Member) hasJoined() bool {
	select {
	case <-m.joined:
		return true
	default:
		return false
	}
}

// failure returns why the last calls failed, or nil.
func (m *Member) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []error
	for _, err := range m.mu.failures {
		if err != nil && !slices.ContainsFunc(all, func(other error) bool { return other.Error() == err.Error() }) {
			all = append(all, err)
		}
	}
	return errs.Join(all...)
}

// failed records how a call of a task ended.
func (m *Member) failed(t task, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.failures[t] = err
}

// root returns the base of the group, an empty one if no Join made m.
func (m *Member) root() *acquire.Base {
	if m == nil {
		return new(acquire.Base)
	}
	return m.group.root()
}

// unlock releases the lock of m, and ends m if it is over.
func (m *Member) unlock() {
	ends := m.mu.cause != nil && m.mu.memberships == 0 && len(m.mu.grants) == 0 && !m.mu.over
	m.mu.over = m.mu.over || ends
	m.mu.Unlock()
	if ends {
		m.group.registry.remove(m)
		close(m.done)
	}
}

// Err returns nil while the member stays, also while it joins again after a lost lease. Otherwise it returns why it
// leaves or has left: ErrLeft after Leave, ErrClosed, or the error with which the server refused to let it join again.
func (m *Member) Err() error {
	if m == nil || m.group == nil {
		return errs.ErrNotHeld
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.cause
}

// Done returns a channel that is closed when the member has left and all its shards are released.
func (m *Member) Done() <-chan struct{} {
	if m == nil || m.group == nil {
		return Shard{}.Done()
	}
	return m.done
}

// Own returns the ownership of a shard, and whether the member owns it and may work: by its lease and this host's clocks. It
// takes the shard up, as a reader of Changes does: call Shard.Release when Shard.Done is closed and the work has stopped. The name of a
// shard of Count is its index, in decimal. No round trip.
func (m *Member) Own(name string) (Shard, bool) {
	if m == nil || m.group == nil {
		return Shard{}, false
	}
	m.mu.Lock()
	m.mu.reader.owns = true
	g := m.mu.grants[name]
	m.mu.Unlock()
	if g == nil || g.err() != nil {
		return Shard{}, false // not taken up: the member releases it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if g.state > working {
		return Shard{}, false
	}
	g.state = working
	return Shard{g}, true
}

// Owned returns how many shards the member has that are not released, those included whose work must stop.
func (m *Member) Owned() int {
	if m == nil || m.group == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.grants)
}

// Leave ends the membership. Every shard is asked for (see Changes), and Leave returns when all are released and the
// server has confirmed that, or gives up after a lease without a reply; each shard then ends with its lease. It returns
// the context's error if ctx ends first; the member leaves all the same. Do not call it on the goroutine that reads Changes, nor in
// the work of a shard, which it waits for: unless ctx ends with that, as a context of Shard.Bind does.
func (m *Member) Leave(ctx context.Context) error {
	base := m.root()
	err := base.CheckContext(ctx)
	if err == nil {
		m.leave(ErrLeft)
		select {
		case <-m.done:
		case <-ctx.Done():
			err = errs.Join(errs.Ended(ctx), fmt.Errorf("%d shards are not released", m.Owned()), m.failure())
		}
	}
	return base.Explain("leave", err)
}

// leave makes the member leave for cause, unless it leaves already.
func (m *Member) leave(cause error) {
	m.mu.Lock()
	if m.mu.cause != nil {
		m.mu.Unlock()
		return
	}
	m.mu.cause = cause // so that nothing is granted from here on
	if s := m.mu.current; s != nil {
		m.mu.current = nil
		s.retireLocked()
	}
	all := m.grantsLocked()
	m.wakeLocked()
	m.unlock()
	m.stopAll(all, cause, Wanted)
}

// grantsLocked returns the grants that are not over.
func (m *Member) grantsLocked() []*grant { return slices.Collect(maps.Values(m.mu.grants)) }

// stopAll stops the work of these grants.
func (m *Member) stopAll(all []*grant, cause error, kind ChangeKind) {
	for _, g := range all {
		g.cancel(cause)
	}
	m.mu.Lock()
	for _, g := range all {
		m.stopLocked(g, kind)
	}
	m.unlock()
}

// SetWeight sets the weight of the member, from 0 to MaxWeight, and returns when the server knows it. With 0 the member
// pauses: it stays in the group and owns nothing. So it can warm up before it owns shards, or give them away before it
// ends.
func (m *Member) SetWeight(ctx context.Context, w int) error {
	err := checkWeight(w)
	if err == nil {
		err = m.set(ctx, func(s *settings) { s.weight = w })
	}
	return m.root().Explain("set weight", err)
}

// SetValue sets what observers read of the member, and returns when the server knows it.
func (m *Member) SetValue(ctx context.Context, value string) error {
	err := session.CheckValue(value, MaxValue)
	if err == nil {
		err = m.set(ctx, func(s *settings) { s.value = value })
	}
	return m.root().Explain("set value", err)
}

// set changes the settings, and waits until a membership has sent them.
func (m *Member) set(ctx context.Context, change func(*settings)) error {
	if err := m.root().Ready(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	change(&m.mu.desired)
	m.mu.desired.number++
	number := m.mu.desired.number
	for {
		s, changed, cause := m.mu.current, m.mu.changed, m.mu.cause
		isKnown, refused := s != nil && s.known >= number, m.mu.refused
		if s != nil {
			s.wakePoller()
		}
		m.mu.Unlock()
		switch {
		case isKnown && refused.number >= number:
			return refused.err
		case isKnown:
			return nil
		case cause != nil:
			return cause
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errs.Join(errs.Ended(ctx), m.failure())
		}
		m.mu.Lock()
	}
}
