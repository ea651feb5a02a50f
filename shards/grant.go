// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// grant is one ownership of a shard, from the reply that grants it to its release.
//
//	         delivered                 asked, or lost                  Release
//	pending -----------> working ----------------------> stopping ----------------> over
//	   |                    |                                                         ^
//	   |                    +------------------------- Release -----------------------+
//	   +-- asked, lost, or unread: no function has begun, so it is released at once --+
//
// The fields down to cancel are assigned when the grant is made, and only read after that. The lock of the Member
// guards the fields from state on, and bonds have one of their own.
type grant struct {
	membership *membership
	name       string
	index      int // -1 if the set has names
	count      int // how many shards the set has; 0 if it has names
	stamp      wire.Stamp
	losses     int
	root       context.Context         //nolint:containedctx // ends when the work must stop; a child of the membership's
	cancel     context.CancelCauseFunc // ends root
	bonds      hold.Bonds              // the contexts that end with root

	state   grantState
	version string     // the version of the last news of the shard; "" if the server is to list it again
	change  ChangeKind // the change that the reader of Changes has not got yet, or 0
	reports grantReports
}

// grantState is a state of the table above.
type grantState uint8

const (
	pending grantState = iota
	working
	stopping
	over
)

// release says what is to become of a shard that is released.
type release struct {
	elsewhere time.Duration // how long this member does not get it again, unless it was asked for
	declined  bool          // no work of it has begun: the shard is as if it had not been granted
	finished  bool          // the name leaves the set
	unread    bool          // the shard was not taken up, and the member takes no other one for it
}

// released is a release that the server has not confirmed. The poller of its membership alone writes it once it is in releases.
type released struct {
	release
	tries

	name   string
	stamp  wire.Stamp
	leaves bool // the name leaves the set
	alone  bool // the server refused it with others
}

// releaseLocked makes the poller release a shard at the server, that was asked for because of cause, or of nothing.
func (ms *membership) releaseLocked(name string, stamp wire.Stamp, how release, cause error) {
	ms.releases = append(ms.releases, &released{
		release: how, tries: tries{due: timers.Now()}, name: name, stamp: stamp, leaves: how.finished || errors.Is(cause, ErrRemoved),
	})
}

// err returns nil while the work may continue, else why not.
func (g *grant) err() error {
	if g.root.Err() == nil {
		if g.membership.err() == nil {
			return nil
		}
	}
	return context.Cause(g.root)
}

// release ends g here, and lets the poller of its membership release it at the server.
func (g *grant) release(how release) error {
	ended := g.err()
	m := g.membership.member
	m.mu.Lock()
	if g.state == over {
		m.mu.Unlock()
		return errs.ErrNotHeld
	}
	if ended != nil {
		how.elsewhere = 0 // it was asked for, or is lost
	}
	m.endLocked(g, how)
	m.unlock()
	g.cancel(errs.ErrReleased)
	if errors.Is(ended, errs.ErrLost) {
		return ended
	}
	return nil
}

// stopLocked reports that the work of g must stop, whose context has ended. If its work has not begun, g is declined at
// once.
func (m *Member) stopLocked(g *grant, kind ChangeKind) {
	switch g.state {
	case pending:
		m.endLocked(g, release{declined: true}) // it had no owner
	case working:
		g.state = stopping
		g.reportDrainingLocked()
		m.reportLocked(g, kind)
	case stopping, over: // its work knows already
	}
}

// endLocked ends g. Its poller sends the release.
func (m *Member) endLocked(g *grant, how release) {
	g.reportReleasedLocked()
	g.state, g.change = over, 0
	if how.elsewhere > 0 {
		m.mu.away[g.name] = timers.Now().Add(how.elsewhere)
	}
	if how.finished {
		m.mu.lost = slices.DeleteFunc(slices.Clone(m.mu.lost), func(name string) bool { return name == g.name })
	}
	delete(m.mu.grants, g.name)
	g.membership.owned--
	g.membership.releaseLocked(g.name, g.stamp, how, context.Cause(g.root))
	g.membership.wakePoller()
	m.wakeLocked()
}

// Shard is the ownership of one shard by a member, from its grant to its release. It is a small value, free to
// copy; all copies are the same ownership, and any goroutine may use it. The zero Shard owns nothing: its Err is
// signalbox.ErrNotHeld.
//
// It ends when the shard is asked for, when the member's lease is about to end (a third of the lease before
// that), and by Release. The server keeps the shard for the member until Release, as long as the lease lasts.
type Shard struct{ grant *grant }

// Index returns the index of a shard of Count, and -1 for one of Names.
func (s Shard) Index() int {
	if s.grant == nil {
		return -1
	}
	return s.grant.index
}

// Name returns the name of the shard: of a shard of Count the index, in decimal.
func (s Shard) Name() string {
	if s.grant == nil {
		return ""
	}
	return s.grant.name
}

// Count returns how many shards the set had when this one was granted: for Index. It is 0 for one of Names.
func (s Shard) Count() int {
	if s.grant == nil {
		return 0
	}
	return s.grant.count
}

// Token returns the fencing token. It is greater than that of every earlier owner of any shard of the group. Hand
// it to what the owner changes, and let that refuse smaller ones. The zero Shard returns 0.
func (s Shard) Token() uint64 {
	if s.grant == nil {
		return 0
	}
	return s.grant.stamp.Token()
}

// Since returns when the shard was granted, by the server's clock.
func (s Shard) Since() time.Time {
	if s.grant == nil {
		return time.Time{}
	}
	return s.grant.stamp.Time()
}

// Losses returns how many owners before this one, in a row, lost their lease while they owned the shard. A shard
// whose work kills its process has a number that grows.
func (s Shard) Losses() int {
	if s.grant == nil {
		return 0
	}
	return s.grant.losses
}

// Err returns nil while the work may continue, else why it must stop: ErrMoved, ErrRemoved, ErrResized, ErrLeft,
// signalbox.ErrLost, or signalbox.ErrReleased. It compares the clock itself: if the lease ended while the process
// was paused, the first call returns that. No round trip.
func (s Shard) Err() error {
	if s.grant == nil {
		return errs.ErrNotHeld
	}
	return s.grant.err()
}

// Done returns a channel that is closed when Err returns an error. That of the zero Shard is closed.
func (s Shard) Done() <-chan struct{} {
	if s.grant == nil {
		return signalbox.Lease{}.Done()
	}
	return s.grant.root.Done()
}

// Deadline returns until when the work may continue if no renewal succeeds any more, by this host's clock. All
// shards of a member have the same one, and each renewal moves it. It returns the zero time if Err returns an
// error.
func (s Shard) Deadline() time.Time {
	if s.grant == nil || s.grant.err() != nil {
		return time.Time{}
	}
	at := time.Now() // read before the clock of left, so that a pause between the two makes it too early
	return at.Add(s.grant.membership.left())
}

// Bind returns a child of ctx that also ends when Err returns an error, with that as its context.Cause. Its Err
// compares the clock itself. If ctx is nil, the context has ended with ErrBadOption as its cause.
//
// It needs no cancel. Contexts that are bound to one ownership and have the same parent share their state, which goes when the ownership
// or that parent ends. So bind as often as you like.
func (s Shard) Bind(ctx context.Context) context.Context {
	if s.grant == nil || ctx == nil {
		return signalbox.Lease{}.Bind(ctx)
	}
	return s.grant.bonds.Bind(ctx, s.grant.root, s.grant.err)
}

// Release gives the shard to the next owner. Call it when the work has stopped, also if the lease was lost; Run
// does it. A shard that was not asked for does not come back to this member for DefaultElsewhere.
//
// It sends nothing itself: the member releases all shards of some milliseconds in one request, and repeats that until the
// server replies. Release returns nil if the shard was owned until now. Otherwise it returns signalbox.ErrLost if the lease
// was lost before, and signalbox.ErrNotHeld if the shard was released before.
func (s Shard) Release() error {
	if s.grant == nil {
		return errs.ErrNotHeld
	}
	return s.grant.release(release{elsewhere: DefaultElsewhere})
}

// sendReleases releases the shards that are due at the server, in calls of some shards each. Those of a call without a reply are
// sent again. Those of a call that the server refused are sent one by one, so that none takes another with it, unless it refuses all.
func (ms *membership) sendReleases() error {
	g, m := ms.member.group, ms.member
	m.mu.Lock()
	parts := ms.dueLocked(timers.Now())
	m.mu.Unlock()
	calls := make([]wire.Call, 0, len(parts))
	for _, part := range parts {
		calls = append(calls, g.releaseCall(ms.number, part))
	}
	ctx, cancel := errs.WithTimeout(g.registry.Context(), patience)
	defer cancel()
	var failed error
	over := make(map[*released]struct{})
	for i, outcome := range g.base.Session.Runner.RunMany(ctx, calls) {
		err := outcome.Err
		if err == nil {
			err = g.observe(proto.ReadShardsHead(&outcome.Reply))
		}
		switch {
		case err != nil:
			failed = err
		case outcome.Reply.Code() == wire.NotDone:
			ms.goneNow()
		default:
			ms.pollSoon(proto.ReadShardsChanged(&outcome.Reply))
		}
		for _, r := range parts[i] {
			was := *r
			if err == nil || len(parts[i]) == 1 && isWrong(err) && !ms.isLeft(r, err) {
				over[r] = struct{}{}
				continue
			}
			r.alone = isWrong(err) || wire.IsReplyError(err) && (wire.Judge(err) != wire.Temporary || wire.OutOfMemory(err))
			isChanged := r.alone && !was.alone || r.release != was.release // it is sent in another way at once
			if !isChanged {
				r.failed()
			}
		}
	}
	if len(over) == 0 {
		return failed
	}
	m.mu.Lock()
	for r := range over {
		if !r.leaves {
			ms.freed = append(ms.freed, r.name)
		}
	}
	ms.releases = slices.DeleteFunc(ms.releases, func(r *released) bool {
		_, is := over[r]
		return is
	})
	m.wakeLocked()
	m.mu.Unlock()
	ms.poller.tries[leaveTask].due = timers.Now() // one of them may have been the last one
	return nil
}

// isAlone reports whether a release is sent by itself: the server has refused it with others. While polls are refused, too, none is.
func (ms *membership) isAlone(r *released) bool {
	refusesAll := !ms.poller.gone && ms.poller.tries[pollTask].fails > 0
	return r.alone && !refusesAll
}

// waitTogetherLocked lets the releases that go together wait as long as those of them that have failed. One for which the last calls had no
// room, or that is new, would otherwise be sent at once, and the first ones with it, without any pause.
func (ms *membership) waitTogetherLocked() {
	var last *released
	for _, r := range ms.releases {
		if !ms.isAlone(r) && r.fails > 0 && (last == nil || r.due.Mono() > last.due.Mono()) {
			last = r
		}
	}
	for _, r := range ms.releases {
		if last != nil && !ms.isAlone(r) && r.due.Mono() < last.due.Mono() {
			r.tries = last.tries
		}
	}
}

// dueLocked returns the releases that are due, in parts: one for each call. The others than those that are alone go together when one of
// them is due: a call each, and again while the server refuses all, would be many.
func (ms *membership) dueLocked(now timers.Instant) (parts [][]*released) {
	var part []*released
	isDue := func(r *released) bool { return r.due.Mono() <= now.Mono() }
	together := slices.ContainsFunc(ms.releases, func(r *released) bool { return !ms.isAlone(r) && isDue(r) })
	for _, r := range ms.releases {
		switch {
		case len(parts) == maxPipeline:
			return parts
		case ms.isAlone(r) && !isDue(r), !ms.isAlone(r) && !together:
			continue
		case ms.isAlone(r):
			parts = append(parts, []*released{r})
			continue
		}
		if part = append(part, r); len(part) == maxReleases {
			parts, part = append(parts, part), nil
		}
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}

// isLeft reports whether a release that the server calls wrong can be sent in another way: without what the work said of it. If that
// is wrong as well the release is given up, and the lease ends, so that the shard is granted anew.
func (ms *membership) isLeft(r *released, err error) bool {
	ms.member.group.base.LogFailed(fmt.Errorf("shard %.80q: the server calls its release wrong: %w", r.name, err))
	if r.release != (release{}) {
		r.release = release{}
		return true
	}
	ms.poller.gone, ms.poller.removed = true, true // so that it does not poll for ever; the lease ends at the server when all work has stopped
	ms.lose(fmt.Errorf("%w: a release is wrong: %w", errs.ErrLostGone, err))
	return false
}
