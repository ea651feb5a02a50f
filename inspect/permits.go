// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// permitsPerScript is how many permits one script ends: they keep the server busy for less than a millisecond.
const permitsPerScript = 500

// breakListedPermits ends the permits that a semaphore in a layout of others has now, by their ids. A permit that is gone
// by then is passed over, so it can be repeated.
func breakListedPermits(ctx context.Context, s *session.Session, name string) error {
	l := layoutOf(s)
	if l.Semaphore == nil {
		return fmt.Errorf("%w: %s has no semaphores", errs.ErrBadOption, l.Name)
	}
	set, err := s.Names(l, name)
	if err != nil {
		return err
	}
	permits := l.Semaphore.Names(set)
	ids, err := holdsOf(ctx, s, l.Semaphore.List, permits.Holder, "")
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return requireIDs(ctx, s, l.PlainSemaphore, set)
	}
	if slices.ContainsFunc(ids, func(id string) bool { return len(id) != l.Semaphore.HoldSize }) {
		return proto.WrongKind("?") // before any permit is ended
	}
	if ids, err = session.FilterForceTargets(ctx, ids, identity); err != nil {
		return err
	}
	s.HandshakeInCluster(ctx, permits.Holder)
	for page := range slices.Chunk(ids, permitsPerScript) {
		if err := breakPage(ctx, s, l, permits, page); err != nil {
			return err
		}
	}
	return nil
}

// breakPage ends some permits, and notifies the sessions of this library that had them.
func breakPage(ctx context.Context, s *session.Session, l *proto.Layout, permits proto.Set, page []string) error {
	var sessions []string
	for _, id := range page {
		if alias := l.Semaphore.AliasInHold(id); alias != "" {
			sessions = append(sessions, alias)
		}
	}
	slices.Sort(sessions)
	sessions = slices.Compact(sessions)
	keys := l.Semaphore.Keys(permits)
	_, err := s.Runner.Run(ctx, wire.Call{
		Script: l.Semaphore.Force,
		Keys:   keys.All,
		Args: proto.PermitsForce{
			Verb: s.PublishCommandsIn(l), Channel: keys.Channel, ForcedChannel: proto.Session(s.Settings.Prefix, ""),
			Sessions: strings.Join(sessions, " "), IDs: strings.Join(page, ""),
		}.AppendTo(nil),
	})
	if slices.Contains(sessions, l.Semaphore.SessionAlias(s.ID())) {
		s.Recheck(permits.Holder) // as the message would do, and also if no session listens
	}
	return err
}

// requireIDs returns why the permits of a semaphore cannot be ended: they are those of a plain semaphore. It
// returns nil if there is no hold.
func requireIDs(ctx context.Context, s *session.Session, plain *proto.SemaphoreTable, set proto.Set) error {
	holds, err := holdsOf(ctx, s, plain.List, plain.Names(set).Holder, "")
	if err == nil && len(holds) > 0 {
		return fmt.Errorf("%w: it is a plain semaphore, whose permits have no ids: they cannot be broken", errs.ErrBadOption)
	}
	return err
}
