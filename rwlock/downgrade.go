// SPDX-License-Identifier: Apache-2.0

package rwlock

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Downgrade turns a writer's lease into a reader's, in one step, with the same token. No other writer
// comes in between, and all waiting readers acquire the lock. Finish writing before you call it. All
// leases of the hold are readers' from then on, also those of further entries.
//
// A lease that is a reader's already stays as it is. Downgrade returns ErrNotHeld for a lease that is
// not of this lock in this session, and ErrLost, ErrMaxHold or ErrReleased for one that has ended. If
// the context has ended or the session is closed, nothing is done: the lease is still a writer's.
//
// After another error the lease is a reader's here, and may still be a writer's at the server. The call
// is then repeated in the background for as long as a lease lasts. Downgrade can be called again, and
// Unlock releases the lock in both cases. One round trip.
func (l *Lock) Downgrade(ctx context.Context, lease signalbox.Lease) error {
	return l.root().Explain("downgrade", l.downgrade(ctx, hold.Lease(lease)))
}

func (l *Lock) downgrade(ctx context.Context, lease hold.Lease) error {
	if err := l.root().Ready(ctx); err != nil {
		return err
	}
	term, isOurs := lease.TermFor(&l.registry.writers, l.writer.Names.Holder)
	if !isOurs {
		term, isOurs = lease.TermFor(&l.registry.readers, l.writer.Names.Holder)
	}
	if !isOurs {
		return fmt.Errorf("%w: the lease is not one of this lock", errs.ErrNotHeld)
	}
	if err := lease.Err(); err != nil {
		return err
	}
	// It writes no more from here on: readers may enter before the reply arrives.
	lease.SetScope(&l.registry.readers)
	s, keys := l.writer.Session, l.registry.KeysOf(l.reader.Names)
	downgrade := proto.Downgrade{
		Hold: lease.ID(), Session: s.ID(), Verb: s.PublishCommandsIn(l.writer.Layout), Channel: keys.Channel, KeepMS: l.writer.Floor,
	}
	call := wire.Call{Script: l.table.Downgrade, Keys: keys.All, Args: downgrade.AppendTo(nil)}
	reply, err := s.Runner.Run(ctx, call)
	if err != nil {
		if wire.Judge(err) != wire.Final {
			l.downgradeLater(call, term)
		}
		return acquire.CutShort(ctx, err)
	}
	l.downgraded(reply, term)
	l.confirm(call, term)
	return lease.Err()
}

// confirmation repeats a downgrade that had a reply, after a third of a lease, while the hold lasts. A failover may have lost the
// downgrade, and not the hold: readers of other sessions would wait for as long as that is renewed.
type confirmation struct {
	timer timers.Timer
	lock  *Lock
	call  wire.Call
	term  *hold.Term
}

func (l *Lock) confirm(call wire.Call, term *hold.Term) {
	c := &confirmation{lock: l, call: call, term: term}
	c.timer.Init(c)
	l.writer.Session.Timers.Schedule(&c.timer, term.Config().Life/3)
}

// Fire implements timers.Firer.
func (c *confirmation) Fire() {
	if c.term.Alive(timers.Now()) == nil {
		c.lock.downgradeLater(c.call, c.term)
	}
}

// downgradeLater repeats a call of unknown outcome until it has a reply, because readers wait for it. It
// may arrive after the release: then the hold that it names is gone.
func (l *Lock) downgradeLater(call wire.Call, term *hold.Term) {
	l.writer.Session.Undoer.Start(&session.Undo{
		Call: call, Until: timers.Now().Add(term.Config().Life),
		OnReply: func(reply wire.Reply) time.Duration {
			l.downgraded(reply, term)
			return 0
		},
	})
}

// downgraded handles a reply: the hold is gone, or readers entered.
func (l *Lock) downgraded(reply wire.Reply, term *hold.Term) {
	downgraded := proto.ReadDowngraded(&reply)
	if downgraded.Code == wire.NotDone {
		term.Gone()
		return
	}
	l.registry.ApplyGranted(l.reader.Names.Holder, downgraded.Granted)
}
