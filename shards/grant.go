// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"errors"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
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

	name  string
	stamp wire.Stamp
	alone bool // the server refused it with others
}

// releaseLocked makes the poller release a shard at the server.
func (ms *membership) releaseLocked(name string, stamp wire.Stamp, how release) {
	ms.releases = append(ms.releases, &released{release: how, tries: tries{due: timers.Now()}, name: name, stamp: stamp})
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
	delete(m.mu.grants, g.name)
	g.membership.owned--
	g.membership.releaseLocked(g.name, g.stamp, how)
	g.membership.wakePoller()
	m.wakeLocked()
}
