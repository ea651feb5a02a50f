// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// kindLetter is the kind of this lock in holder keys.
const kindLetter = "q"

// Holder returns the holder of the lock, by a majority of the servers, or ErrNotHeld if no holder has a
// majority. Its Session is that of one of the servers, its Token the greatest that a server returned, and
// its Until the earliest. If too few servers reply, the error is theirs. One round trip.
func (l *Lock) Holder(ctx context.Context) (signalbox.Holder, error) {
	h, err := l.holder(ctx)
	return signalbox.Holder(h), l.root().Explain("holder", err)
}

// IsLocked reports whether the lock is held, as a majority of the servers says: by this process,
// another one, or a lock of another kind that has the name on as many servers. The result may be
// outdated when it is read. One round trip.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	_, err := l.holder(ctx)
	if errors.Is(err, errs.ErrNotHeld) {
		return false, nil
	}
	return err == nil, l.root().Explain("is locked", err)
}

// ForceUnlock ends the hold of the lock on every server. It is for people, and for holders that hang. It
// returns nil if the hold is gone from a majority, and ErrNotHeld if there was none on a majority. The
// other servers are asked as well, in the background. The holder is notified by message; if that is
// lost, it finds out at its next renewal, and gives no server the hold back.
//
// After an error it may be done or not. It is safe to repeat, but then ends the hold that exists by
// that time. Two round trips to all servers at once.
func (l *Lock) ForceUnlock(ctx context.Context) error {
	return l.root().Explain("force unlock", l.root().ReportForced(ctx, l.force(ctx)))
}

// holderReport is what one server says about the holder.
type holderReport struct {
	holder proto.HolderInfo
	hold   string
	err    error
}

// queryAll asks every server, each for at most longestReply, and hands each reply to handle, until handle returns
// true, all have replied, or ctx ends.
func (l *Lock) queryAll(ctx context.Context, query func(context.Context, *session.Session) holderReport, handle func(holderReport) bool) error {
	err := l.base.CheckContext(ctx)
	if err == nil && ctx.Err() != nil {
		err = errs.Ended(ctx)
	}
	if err == nil {
		err = l.beginAll()
	}
	if err != nil {
		return err
	}
	reports := make(chan holderReport, len(l.members))
	for i, m := range l.members {
		go func() { //nolint:contextcheck // a server that is late continues when ctx ends
			defer m.End()
			patience := m.Patient(longestReply)
			defer patience.End()
			o := query(patience, m)
			if !errors.Is(o.err, errs.ErrNotHeld) {
				o.err = l.withNumber(i, o.err)
			}
			reports <- o
		}()
	}
	for range l.members {
		select {
		case o := <-reports:
			if handle(o) {
				return nil
			}
		case <-ctx.Done():
			return errs.Ended(ctx)
		}
	}
	return nil
}

func (l *Lock) holder(ctx context.Context) (proto.HolderInfo, error) {
	if err := l.root().CheckArgs(); err != nil {
		return proto.HolderInfo{}, err
	}
	enough := majority(len(l.members))
	holders, counts := make(map[string]proto.HolderInfo), make(map[string]int)
	free, most, best := 0, 0, ""
	var failures []error
	err := l.queryAll(ctx, func(ctx context.Context, m *session.Session) (o holderReport) {
		o.holder, o.hold, o.err = m.Hold(ctx, l.keys[0])
		return o
	}, func(o holderReport) bool {
		switch {
		case errors.Is(o.err, errs.ErrNotHeld):
			free++
		case o.err != nil:
			failures = append(failures, o.err)
		default:
			key := o.holder.Kind
			if key == kind {
				key = o.hold[max(len(o.hold)-attemptSize, 0):]
			}
			holders[key] = mergeHolders(holders[key], o.holder)
			if counts[key]++; counts[key] > most {
				most, best = counts[key], key
			}
		}
		return most >= enough || free >= enough
	})
	switch {
	case err != nil:
		return proto.HolderInfo{}, err
	case most >= enough:
		return holders[best], nil
	case most+len(failures) < enough:
		return proto.HolderInfo{}, errs.ErrNotHeld
	}
	return proto.HolderInfo{}, errs.Join(failures...)
}

// attemptSize is the length of what the servers' holds of one attempt have in common.
const attemptSize = 19

// mergeHolders combines what two servers say about one holder.
func mergeHolders(a, b proto.HolderInfo) proto.HolderInfo {
	if a.Kind == "" {
		return b
	}
	if b.Token > a.Token {
		a.Token, a.Since = b.Token, b.Since
	}
	if b.Until.Before(a.Until) {
		a.Until = b.Until
	}
	return a
}

func (l *Lock) force(ctx context.Context) error {
	if err := l.root().CheckArgs(); err != nil {
		return err
	}
	count := tally{n: len(l.members)}
	taken := false
	var failures []error
	err := l.queryAll(ctx, func(ctx context.Context, m *session.Session) holderReport {
		return holderReport{err: m.Force(ctx, session.ForceRequest{
			Layout: proto.Native(),
			Key:    l.keys[0], CompatibleKinds: kindLetter,
			Call: func(hold, channel string) wire.Call {
				return wire.Call{
					Script: proto.HolderForceScript,
					Keys:   l.keys[:1],
					Args: proto.Force{
						ID: hold, Verb: m.PublishCommand(), Channel: l.base.Names.Unlocked(), Forced: channel, KeepMS: l.base.Floor,
					}.AppendTo(nil),
				}
			},
		})}
	}, func(o holderReport) bool {
		isFree := o.err == nil || errors.Is(o.err, errs.ErrNotHeld)
		count.add(isFree)
		if !isFree {
			failures = append(failures, o.err)
		}
		taken = taken || o.err == nil
		return count.verdict() != open
	})
	switch {
	case err != nil:
		return err
	case count.verdict() == failed:
		return errs.Join(failures...)
	case !taken:
		return errs.ErrNotHeld
	}
	return nil
}
