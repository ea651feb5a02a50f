// SPDX-License-Identifier: Apache-2.0

package rwlock

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// writing is the phase of a lock that a writer holds.
const writing = "1"

// IsLocked reports whether the lock is held for reading or writing, as the server says: by this
// process, another one, or a lock of another kind. The result may be outdated when it is read. One
// round trip.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) { return l.root().IsLocked(ctx) }

// Holders returns the holders of the lock, as the server knows them, in the order in which their leases
// end: a writer, or readers, one for all that share a hold in a session. If the lock is free it returns an
// empty sequence. Shared is set for readers. Since and Token are those of a writer; the server keeps
// neither for readers, so both are zero.
//
// It takes one round trip for 100 holders. Holders may change meanwhile, so the result is no consistent
// snapshot. An error ends the sequence: ErrWrongKind if a lock of another kind has the name.
func (l *Lock) Holders(ctx context.Context) iter.Seq2[signalbox.Holder, error] {
	return func(yield func(signalbox.Holder, error) bool) {
		if err := l.eachHold(ctx, func(h listedHold) bool { return yield(h.holder, nil) }); err != nil {
			yield(signalbox.Holder{}, l.root().Explain("holders", err))
		}
	}
}

// listedHold is one hold, as the server lists it.
type listedHold struct {
	name   string
	holder signalbox.Holder
}

// eachHold calls yield for each hold, until it returns false.
func (l *Lock) eachHold(ctx context.Context, yield func(listedHold) bool) error {
	if err := l.root().CheckArgs(); err != nil {
		return err
	}
	return l.writer.EachHold(ctx, &l.table.HoldLister, func(list *proto.HoldsListed, hold proto.ListedHold) bool {
		name := hold.Name
		h := signalbox.Holder{
			Kind: kind, Session: l.writer.Layout.Session(name), Label: l.table.LabelOf(name),
			Until: hold.Ends.Time(), Shared: list.Phase != writing,
		}
		if list.Floor != 0 && !h.Shared {
			h.Since, h.Token = list.Floor.Time(), list.Floor.Token()
		}
		return yield(listedHold{name, h})
	})
}

// ForceUnlock ends the hold of the writer, or the holds of all readers, in any process, and hands the
// lock over to the next waiters. It is for people, and for holders that hang. It returns nil if the
// holds that it found are gone, and ErrNotHeld if there were none. If a lock of another kind has the
// name, it returns ErrWrongKind and changes nothing.
//
// The holders are notified at once, by message: their leases end with ErrLost, and their contexts with
// them. If a message is lost, or a holder's session polls, that holder finds out at its next renewal.
// Until then it works beside the next holder, whose token is greater: fencing tokens are for that.
//
// After an error it may be done, in part, or not. It is safe to repeat, but then ends the holds that
// exist by that time. Two round trips for 100 holds.
func (l *Lock) ForceUnlock(ctx context.Context) error {
	return l.root().Explain("force unlock", l.root().ReportForced(ctx, l.force(ctx)))
}

func (l *Lock) force(ctx context.Context) error {
	var found []listedHold
	err := l.eachHold(ctx, func(h listedHold) bool {
		found = append(found, h)
		return true
	})
	if err == nil && len(found) == 0 {
		err = errs.ErrNotHeld
	}
	if err == nil {
		found, err = session.FilterForceTargets(ctx, found, func(h listedHold) string { return h.name })
	}
	if err != nil {
		return err
	}
	for page := range slices.Chunk(found, acquire.HoldsPage) {
		if err := l.forceHolds(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

// forceHolds removes the holds that still exist. If the reply is lost it sends the script once more: the
// holds that the first one removed are gone then.
func (l *Lock) forceHolds(ctx context.Context, holds []listedHold) error {
	var text strings.Builder
	for _, h := range holds {
		text.WriteString(h.holder.Session + "\n" + h.name + "\n")
	}
	s := l.writer.Session
	s.HandshakeInCluster(ctx, l.reader.Names.Holder)
	keys := l.registry.KeysOf(l.reader.Names)
	force := proto.RWForce{
		Verb: s.PublishCommandsIn(l.writer.Layout), Channel: keys.Channel, ForcedChannel: proto.Session(s.Settings.Prefix, ""),
		Holds: text.String(), KeepMS: l.writer.Floor,
	}
	call := wire.Call{Script: l.table.Force, Keys: keys.All, Args: force.AppendTo(nil)}
	_, err := s.Runner.Run(ctx, call)
	if err != nil && wire.Judge(err) == wire.Unknown && ctx.Err() == nil {
		_, err = s.Runner.Run(ctx, call)
	}
	if err != nil {
		return acquire.CutShort(ctx, err)
	}
	l.writer.Session.Recheck(l.writer.Names.Holder) // as the message would, also without a listener
	return nil
}
