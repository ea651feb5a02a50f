// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// stepDownParts is which part of a lease is left when the work of a member must stop.
const stepDownParts = 3

// membership is a member as the server knows it, from a join until it has left or is lost. Its lease is that of all
// its shards.
//
//	state     what its poller does                         ends by
//	joining   sends join until the server replies          the reply: active; Leave: retiring
//	active    polls, and takes what is granted             Leave, a third of the lease before its end, or
//	                                                       "no member" from the server: it retires
//	retiring  takes no more shards; releases each one       all released and the server says that nothing is left,
//	          when its work has stopped, and polls until   "no member", or a lease without a reply: the poller ends
//	          then so that no other member starts it
//
// If the lease was lost, the Member begins the next membership at once, which may live beside this one while that retires.
//
// One goroutine, the poller, sends all calls of a membership, one after the other: so replies are handled in the order of
// their calls. It runs from the start to the end of the membership, and the registry waits for it. The renewals of the
// lease while polls fail, and the timer, run on the goroutines of their packages.
type membership struct {
	member *Member
	old    string                  // the number of the membership that was lost before, or ""
	root   context.Context         //nolint:containedctx // ends when the lease is over here
	cancel context.CancelCauseFunc // ends root
	wake   chan struct{}           // has room for one: ends the sleep of the poller
	began  time.Duration           // monotonic: when it began to join

	// The poller writes these before the membership lives, and no goroutine after that.
	number       string
	term         hold.Term
	timer        timers.Timer // fires when the lease may be over
	subscription notify.Subscription

	// The lock of the Member guards these.
	state    membershipState
	isLost   bool          // its lease is lost: it takes nothing more
	joinedAt time.Duration // monotonic: when the server replied to its join
	isKnown  bool          // the join was reported, and the end was not
	hinted   bool          // a message says that there is news
	heard    bool          // the subscription was confirmed once
	owned    int           // how many grants are not over
	releases []*released   // what the server has yet to learn
	freed    []string      // the names of releases since the last poll: a server that had lost the group has replied to them, too
	known    uint64        // the number of the settings that the server knows; 0 of one that retires before the server knows that

	poller poller // belongs to the goroutine
}

// membershipState is a state of the table above.
type membershipState uint8

const (
	joining membershipState = iota
	active
	retiring
)

func newMembership(m *Member, old string) *membership {
	s := &membership{member: m, old: old, wake: make(chan struct{}, 1), began: timers.Now().Mono()}
	s.root, s.cancel = context.WithCancelCause(context.Background())
	s.timer.Init(s)
	s.poller.seen = noStamp
	return s
}

// wakePoller makes the poller look for work.
func (ms *membership) wakePoller() {
	select {
	case ms.wake <- struct{}{}:
	default: // it is awake, or about to be
	}
}

// live begins the lease that a join gave, which was sent at sent. The settings are those that the join has sent.
func (ms *membership) live(r proto.ShardsJoined, sent timers.Instant, of settings) {
	m, base := ms.member, &ms.member.group.base
	ms.number = r.Number
	ms.term.Init(ms, &hold.Config{
		Keeper: base.Session.Keeper, Script: proto.HoldsRenewScript, Life: base.Terms.Lease, AsGiven: true, Renewed: true,
	}, r.Life, sent)
	m.mu.Lock()
	if of.limit > 0 { // a join cannot say that the member takes nothing: what follows it does, before the first poll
		ms.known = of.number
	}
	if ms.state == joining {
		ms.state = active
	}
	ms.reportJoinedLocked()
	m.mu.failures = [taskCount]error{}
	if !m.hasJoined() {
		close(m.joined)
	}
	m.wakeLocked()
	m.mu.Unlock()
	ms.term.Start(sent) // now that it lives: if the process was stopped meanwhile, the term ends at once
	for t := range ms.poller.tries {
		ms.poller.tries[t].due = timers.Now()
	}
	base.Session.Timers.Schedule(&ms.timer, ms.left())
	ms.subscription.Open(base.Session.Dispatch, m.group.news+base.Session.ID(), notify.ShardedChannel, (*listener)(ms))
}

// left returns how long the work of the member may continue without a further renewal. A young lease is shorter.
func (ms *membership) left() time.Duration {
	left, given := ms.term.Life(timers.Now())
	return left - given/stepDownParts
}

// err returns nil while the lease can be trusted, else why it ended. It compares the clock. Only the holder of a grant may
// call it, so there is a term.
func (ms *membership) err() error {
	if ms.root.Err() == nil && ms.left() <= 0 {
		ms.lose(errs.ErrLostLate)
	}
	return context.Cause(ms.root)
}

// Fire implements timers.Firer: the lease may be over.
func (ms *membership) Fire() {
	if ms.err() == nil {
		ms.member.group.base.Session.Timers.Schedule(&ms.timer, ms.left())
	}
}

// Renewed implements hold.Owner.
func (ms *membership) Renewed() (key, hold string) { return ms.member.group.ends, ms.number }

// OnTermEnd implements hold.Owner.
func (ms *membership) OnTermEnd(end hold.End) { ms.lose(end.Why()) }

// lose ends the lease here, first the contexts that are bound to it. The member joins again, unless it leaves. What it has is recorded
// before that: work may return, and release or finish its shard, as soon as its context ends.
func (ms *membership) lose(cause error) {
	m := ms.member
	m.mu.Lock()
	isFirst := ms.state == active && !ms.isLost
	ms.isLost = true
	had := ms.grantsLocked() // all: from here on nothing is taken
	if isFirst {
		isYoung := timers.Now().Mono()-ms.joinedAt < m.group.base.Terms.Lease // the shards of the last one may have no owner yet
		m.lostLocked(ms.lostNamesLocked(had), setIn(m.mu.desired.known), isYoung || m.mu.unsaid)
	}
	m.mu.Unlock()
	ms.cancel(m.group.base.Named("", cause)) // by each caller, which finds it ended
	if !isFirst {
		return
	}
	m.mu.Lock()
	if ms.state != active { // it leaves
		m.mu.Unlock()
		return
	}
	ms.retireLocked()
	ms.reportEndLocked(context.Cause(ms.root))
	m.mu.current = nil
	if m.mu.cause == nil {
		m.joinLocked(ms.number)
	}
	m.unlock()
	if len(had) > 0 {
		m.group.base.LogLost(hold.End{Cause: cause, Leased: true})
	}
	m.stopAll(had, context.Cause(ms.root), Lost)
}

// grantsLocked returns the grants of the membership that are not over.
func (ms *membership) grantsLocked() []*grant {
	return slices.DeleteFunc(ms.member.grantsLocked(), func(g *grant) bool { return g.membership != ms })
}

// lostNamesLocked returns the names that may have no owner any more if the server has lost the group: of grants, and of releases of which
// it has yet to learn, or may have learned when it had lost it.
func (ms *membership) lostNamesLocked(had []*grant) []string {
	lost := append(namesOf(had), ms.freed...)
	for _, r := range ms.releases {
		if !r.leaves {
			lost = append(lost, r.name)
		}
	}
	return lost
}

// namesOf returns the names of the shards of grants, but of those that leave the set.
func namesOf(all []*grant) (names []string) {
	for _, g := range all {
		if !errors.Is(context.Cause(g.root), ErrRemoved) {
			names = append(names, g.name)
		}
	}
	return names
}

// retireLocked begins the end of the membership.
func (ms *membership) retireLocked() {
	ms.state, ms.known = retiring, 0
	ms.wakePoller()
}

// evict ends the contexts of all memberships with cause: the session does not wait any longer.
func (m *Member) evict(cause error) {
	m.leave(fmt.Errorf("%w: %w", ErrLeft, cause))
	m.mu.Lock()
	all := m.grantsLocked()
	m.mu.Unlock()
	for _, g := range all {
		g.membership.cancel(cause)
	}
}

// listener is a membership that receives messages: each is the number of a member for which there is news.
type listener membership

// OnMessage implements notify.Handler.
func (l *listener) OnMessage(number string) {
	if number == l.number {
		l.hint()
	}
}

// OnSubscribed implements notify.Handler: messages before now may be lost. If it is not the first time, the server may be another one,
// which has not got the newest settings, nor that the member leaves: they are sent again.
func (l *listener) OnSubscribed() {
	m := l.member
	m.mu.Lock()
	if l.heard {
		m.mu.desired.number++
	}
	l.heard = true
	m.mu.Unlock()
	l.hint()
}

// OnUnsubscribed implements notify.Handler. The next poll is the first of a session that receives no messages.
func (l *listener) OnUnsubscribed() { l.hint() }

func (l *listener) hint() {
	s := (*membership)(l)
	s.member.mu.Lock()
	s.hinted = true
	s.member.mu.Unlock()
	s.wakePoller()
}

// take makes a grant of what the server granted, or declines it:
//
//   - a membership that retires, or is about to since its lease is lost, takes nothing more: nobody would stop that;
//   - work of an earlier grant of the shard still runs in this process. The shard goes to another member, or comes again;
//   - the token is not greater than that of an earlier grant, so a server that lost writes or an old reply grants it;
//   - the reader of Changes has not taken up what was granted before.
func (ms *membership) take(e newsEntry, count int) {
	m := ms.member
	m.mu.Lock()
	defer m.unlock()
	known := m.mu.grants[e.name]
	switch {
	case known != nil && known.membership == ms && known.stamp == e.stamp:
		return // replied before
	case ms.state == retiring, ms.isLost:
		ms.known = 0 // the server does not know that it leaves, or has not known it
		ms.releaseLocked(e.name, e.stamp, release{declined: true}, nil)
		return
	case m.isAwayLocked(e.name):
		left := m.mu.away[e.name].Mono() - timers.Now().Mono()
		m.mu.last = max(m.mu.last, e.stamp)
		ms.releaseLocked(e.name, e.stamp, release{declined: true, elsewhere: left}, nil)
		return
	case known != nil, e.stamp <= m.mu.last, m.mu.reader.isStuck():
		m.mu.last = max(m.mu.last, e.stamp)
		ms.releaseLocked(e.name, e.stamp, release{declined: true, elsewhere: declinePause}, nil)
		return
	}
	m.mu.last = e.stamp
	g := &grant{membership: ms, name: e.name, index: -1, count: count, stamp: e.stamp, losses: e.losses}
	if count > 0 {
		g.index = indexOf(e.name)
	}
	g.root, g.cancel = context.WithCancelCause(ms.root)
	m.mu.grants[e.name] = g
	g.reportGrantedLocked()
	ms.owned++
	m.reportLocked(g, Granted)
}

// awaySlack is by how much earlier a shard may come back than the member counts: the server counts from a later moment.
const awaySlack = time.Second

// isAwayLocked reports whether the work of the member has given the shard away for longer than until now. The server keeps it away
// by the number of the membership, so it does not after a lost lease or lost data, or by a clock that was set forward.
func (m *Member) isAwayLocked(name string) bool {
	until, is := m.mu.away[name]
	return is && until.Mono()-timers.Now().Mono() > awaySlack
}

// forgetAwayLocked forgets what was given away until now. The shards of another count are others, of the same names.
func (m *Member) forgetAwayLocked(count int) {
	now := timers.Now().Mono()
	maps.DeleteFunc(m.mu.away, func(_ string, until timers.Instant) bool { return count != m.mu.count || until.Mono() <= now })
	m.mu.count = count
}

// declinePause is how long a shard does not come back that was declined.
const declinePause = 2 * time.Second

// give stops the work of a shard that was asked for. If it was never replied of, or its work has not begun, it is released
// at once. A release that is due already may be refused for what it says of the shard, and this one says nothing.
func (ms *membership) give(e newsEntry, cause error) {
	m := ms.member
	m.mu.Lock()
	g := m.mu.grants[e.name]
	m.mu.last = max(m.mu.last, e.stamp) // so that no late reply begins its work
	if g == nil || g.membership != ms || g.stamp != e.stamp {
		isDue := slices.ContainsFunc(ms.releases, func(r *released) bool { return r.stamp == e.stamp })
		ms.releaseLocked(e.name, e.stamp, release{declined: !isDue}, cause)
		m.mu.Unlock()
		return
	}
	m.mu.Unlock()
	m.stopAll([]*grant{g}, cause, Wanted)
}

// stoppedBy returns the error of a shard in a state, or nil if its work may continue.
func stoppedBy(state byte) error {
	switch state {
	case stateMoves:
		return ErrMoved
	case stateRemoved:
		return ErrRemoved
	case stateResized:
		return ErrResized
	default:
		return nil
	}
}

// compare compares what the member owns with what the server knows of that. Both leave out what has changed since seen, which the
// news say. They differ if the server lost writes, as in a failover to a replica that was behind: the newest change that a member
// has read is lost, or a release. Then the member lets the server list all again: what it does not know of it releases, and what is
// not listed is lost. Without that a shard would have two owners for as long as both live. A drain that DrainLimit ended differs, too.
// set says when a caller gave the group the set that it had before this poll.
func (ms *membership) compare(p proto.ShardsPolled, seen, set string) {
	if p.More {
		return // there is more news
	}
	m := ms.member
	m.mu.Lock()
	last, count := noStamp, 0
	var own, lost []*grant
	for _, g := range m.grantsLocked() {
		if g.membership != ms {
			continue
		}
		own = append(own, g)
		switch {
		case g.version == "" && g.state < stopping:
			lost = append(lost, g)
		case g.version != "" && g.version <= seen:
			last, count = max(last, g.version), count+1
		}
	}
	// What the server has yet to learn makes a difference.
	if len(ms.releases) == 0 && last+strconv.Itoa(count) != p.Read {
		for _, g := range own {
			g.version = ""
		}
		lost, ms.poller.seen, ms.poller.tries[pollTask].due = nil, noStamp, timers.Now()
		ms.poller.lostOf = set
	}
	m.mu.Unlock()
	if len(lost) > 0 {
		m.group.base.LogLost(hold.End{Cause: errLostWrites, Leased: true})
		ms.addNames(namesOf(lost), ms.poller.lostOf) // a name that left the set would have been asked for
		m.stopAll(lost, m.group.base.Named("", errLostWrites), Lost)
	}
}

// setIn returns when a caller gave the group the set that known describes, or less if it is not known.
func setIn(known string) string { return known[:min(stampSize, len(known))] }

func (ms *membership) handle(p proto.ShardsPolled, news []newsEntry) {
	count := p.Count
	if ms.member.group.set.count == 0 {
		count = 0 // the server counts names, too
	}
	ms.member.mu.Lock()
	if known := &ms.member.mu.desired.known; p.Known < setIn(*known) {
		ms.poller.lostSet = *known
	} else {
		*known = p.Known
	}
	ms.member.forgetAwayLocked(count)
	ms.member.mu.Unlock()
	for _, e := range news {
		switch cause := stoppedBy(e.state); {
		case cause != nil:
			ms.give(e, cause)
		case e.state == stateOwned:
			ms.take(e, count)
		}
		ms.poller.seen = max(ms.poller.seen, e.version)
	}
	ms.member.mu.Lock()
	for _, e := range news {
		if g := ms.member.mu.grants[e.name]; g != nil && g.membership == ms && g.stamp == e.stamp {
			g.version = e.version
		}
	}
	ms.member.mu.Unlock()
	if p.WantsNames && ms.poller.names == nil {
		ms.poller.names = newSyncer(ms.member.group, ms.member.group.set.names)
		ms.poller.names.since = max(setIn(p.Known), p.Now.Text())
	}
}
