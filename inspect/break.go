// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Break ends the holds of a name by force, of whatever kind, and hands the name to the waiters: for people, and for
// holders that hang. Of a lock, a read-write lock and an election it is ForceUnlock. Of a once it is ForceUnlock of the
// lock; the outcome stays, and once.Forget deletes it. Of a semaphore it releases the permits of all holders, and of a
// latch it resets the round. Of a group of shards it ends the members, whose shards go to others. Of a redlock it breaks the part of this server; call it on a majority.
//
// If kinds are given, only these are broken. If the name is held as several kinds and none is given, Break breaks
// nothing and returns ErrBadOption. If nothing is held it returns ErrNotHeld, and ErrWrongKind if it does not know what
// the key is. In a layout of others it ends permits by their ids, also those of others, and returns ErrBadOption for a
// semaphore whose permits have no ids.
//
// Holders are notified by message; if it is lost, their next renewal reports the loss. Until then they work beside the
// next holder, whose fencing token is greater.
func Break(ctx context.Context, s *signalbox.Session, name string, kinds ...string) error {
	if err := breakName(ctx, s, name, kinds); err != nil {
		return &signalbox.OpError{Op: "break", Name: (*session.Handle)(s).Session().DisplayName(name), Err: err}
	}
	return nil
}

// BreakSeen is Break for the holds that an entry of Names or Name lists, and for no others: the name may have
// changed hands since a person saw them. Holders that are not listed, if there are too many, keep their holds. If
// none of the holds exists any more it returns ErrNotHeld, or ErrHeld if there are others, and ends nothing.
//
// In a layout of others a holder of a lock that acquires it again may have the same hold. Of an entry that is Hashed, set Name to
// the name as New takes it.
func BreakSeen(ctx context.Context, s *signalbox.Session, seen Entry) error {
	var ids []string
	for _, h := range seen.Holders {
		ids = append(ids, h.Hold)
	}
	if len(ids) == 0 && seen.IsHeld() {
		ids = []string{proto.RoundID(seen.Since)} // what is held without holders is a round
	}
	if ctx != nil {
		ctx = session.WithForceTargets(ctx, ids)
	}
	return Break(ctx, s, seen.Name, seen.Kind)
}

// identity returns hold: here the name of a hold is the hold itself.
func identity(hold string) string { return hold }

func breakName(ctx context.Context, s *signalbox.Session, name string, kinds []string) error {
	entries, err := inspect(ctx, (*session.Handle)(s).Session(), name)
	if err != nil {
		return err
	}
	var held []string
	strange := false
	for _, e := range entries {
		switch {
		case len(kinds) > 0 && !slices.Contains(kinds, e.Kind):
		case e.Kind == Foreign || e.Kind == Number:
			strange = true
		case e.IsHeld():
			held = append(held, e.Kind)
		}
	}
	switch {
	case len(held) > 1 && len(kinds) == 0:
		return fmt.Errorf("%w: it is held as %s: name the kind", errs.ErrBadOption, strings.Join(held, " and as "))
	case len(held) == 0 && strange:
		return fmt.Errorf("%w: what the key is cannot be told", errs.ErrWrongKind)
	case len(held) == 0:
		return errs.ErrNotHeld
	}
	var failures []error
	for _, kind := range held {
		if err := breakKind(ctx, s, name, kind); err != nil {
			failures = append(failures, err)
		}
	}
	return errs.Join(failures...)
}

func breakKind(ctx context.Context, s *signalbox.Session, name, kind string) error {
	end, known := breakers[kind]
	if !known {
		end = breakers[Reentrant]
	}
	return acquire.WithoutOp(end(ctx, s, name))
}

// floor is how long the server remembers the tokens of what was broken, as a release of the session does.
func floor(s *session.Session) string { return wire.Milliseconds(s.Settings.Lock.Floor) }

// breakRedlockPart ends this server's part of the hold of a redlock.
func breakRedlockPart(ctx context.Context, of *signalbox.Session, name string) error {
	s := (*session.Handle)(of).Session()
	set, err := s.Names(proto.Native(), name)
	if err != nil {
		return err
	}
	return s.Force(ctx, session.ForceRequest{
		Layout: proto.Native(), Key: set.Holder, CompatibleKinds: "q",
		Call: func(hold, channel string) wire.Call {
			call := proto.Force{ID: hold, Verb: s.PublishCommand(), Channel: set.Unlocked(), Forced: channel, KeepMS: floor(s)}
			return wire.Call{Script: proto.HolderForceScript, Keys: []string{set.Holder}, Args: call.AppendTo(nil)}
		},
	})
}

func breakSemaphore(ctx context.Context, of *signalbox.Session, name string) error {
	s := (*session.Handle)(of).Session()
	if layoutOf(s) != proto.Native() {
		return breakListedPermits(ctx, s, name)
	}
	return breakPermits(ctx, s, name, proto.Native().Semaphore)
}

// breakPermits ends the holds that a name has now whose holds are permits: it releases each in its holder's place, and notifies the
// holder's session. A hold that is gone by then is passed over, so it can be repeated.
func breakPermits(ctx context.Context, s *session.Session, name string, table *proto.SemaphoreTable) error {
	set, err := s.Names(proto.Native(), name)
	if err != nil {
		return err
	}
	set = table.Names(set)
	holds, err := holdsOf(ctx, s, &table.HoldLister, set.Holder)
	if err == nil {
		holds, err = session.FilterForceTargets(ctx, holds, identity)
	}
	if err != nil {
		return err
	}
	s.HandshakeInCluster(ctx, set.Holder)
	keys := table.Keys(set).All
	channel := proto.Grants(s.Settings.Prefix)
	if s.Runner.Clustered() {
		channel = set.Grants()
	}
	sessions := make(map[string]struct{})
	for batch := range slices.Chunk(holds, maxOfName) {
		calls := make([]wire.Call, len(batch))
		for i, hold := range batch {
			leave := proto.LeaveShared{Hold: hold, Verb: s.PublishCommand(), Channel: channel, KeepMS: floor(s), Certain: proto.Flag(false)}
			calls[i] = wire.Call{Script: table.Queue.Leave, Keys: keys, Args: leave.AppendTo(nil)}
			sessions[proto.Native().Session(hold)] = struct{}{}
		}
		for _, outcome := range s.Runner.RunMany(ctx, calls) {
			if outcome.Err != nil {
				return outcome.Err
			}
		}
	}
	for owner := range sessions {
		message := wire.Call{Command: "PUBLISH", Args: []string{proto.Session(s.Settings.Prefix, owner), set.Holder}}
		s.Runner.RunMany(ctx, []wire.Call{message}) // a session that does not receive it finds out by a renewal
	}
	return nil
}

// holdsOf returns the names of all holds of a key.
func holdsOf(ctx context.Context, s *session.Session, lister *proto.HoldLister, key string) (holds []string, err error) {
	for from := 0; ; from += maxOfName {
		reply, err := s.Runner.Run(ctx, lister.ListCall(key, from, maxOfName))
		if err != nil {
			return nil, err
		}
		list, err := proto.ReadHoldsListed(&reply)
		if err != nil {
			return nil, err
		}
		for _, hold := range list.Holds {
			holds = append(holds, hold.Name)
		}
		if len(holds) < from+maxOfName {
			return holds, nil
		}
	}
}

// breakMembers ends the members that a group of shards has now, by force: their shards go to others when their functions have
// returned, or when the lease ends. A member that is gone by then
// is passed over, so it can be repeated.
func breakMembers(ctx context.Context, of *signalbox.Session, name string) error {
	s := (*session.Handle)(of).Session()
	set, err := s.Names(proto.Native(), name)
	if err != nil {
		return err
	}
	reply, err := s.Runner.Run(ctx, proto.ListMembersCall(set, maxOfName))
	if err != nil {
		return err
	}
	group, err := proto.ReadShardsListed(&reply)
	if err != nil || group.Code != wire.Done {
		return errs.ErrNotHeld
	}
	var members []string
	for _, m := range group.Members {
		members = append(members, m.Number)
	}
	if members, err = session.FilterForceTargets(ctx, members, identity); err != nil {
		return err
	}
	s.HandshakeInCluster(ctx, set.Shards())
	for _, number := range members {
		call := proto.ShardsMember{Number: number, Publish: proto.Publish{Verb: s.PublishCommand(), Channel: set.ShardNews()}}
		end := wire.Call{Script: proto.ShardsEndScript, Keys: set.ShardKeys(), Args: call.AppendTo(nil)}
		for more := true; more; {
			reply, err := s.Runner.Run(ctx, end)
			if err != nil {
				return err
			}
			more = proto.ReadShardsChanged(&reply).More
		}
	}
	return nil
}

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
	ids, err := holdsOf(ctx, s, &l.Semaphore.HoldLister, permits.Holder)
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
	holds, err := holdsOf(ctx, s, &plain.HoldLister, plain.Names(set).Holder)
	if err == nil && len(holds) > 0 {
		return fmt.Errorf("%w: it is a plain semaphore, whose permits have no ids: they cannot be broken", errs.ErrBadOption)
	}
	return err
}
