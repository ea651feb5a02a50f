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
	"github.com/signalbox-go/signalbox/scripts"
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
			return wire.Call{Script: scripts.HolderForce, Keys: []string{set.Holder}, Args: call.AppendTo(nil)}
		},
	})
}

// breakPermits ends the holds that a semaphore has now: it releases each in its holder's place, and notifies the holder's
// session. A hold that is gone by then is passed over, so it can be repeated.
func breakPermits(ctx context.Context, of *signalbox.Session, name string) error {
	s := (*session.Handle)(of).Session()
	if layoutOf(s) != proto.Native() {
		return breakListedPermits(ctx, s, name)
	}
	set, err := s.Names(proto.Native(), name)
	if err != nil {
		return err
	}
	holds, err := holdsOf(ctx, s, scripts.HoldsList, set.Permits(), "sb1s")
	if err == nil {
		holds, err = session.FilterForceTargets(ctx, holds, identity)
	}
	if err != nil {
		return err
	}
	s.HandshakeInCluster(ctx, set.Permits())
	keys := []string{set.Permits(), set.PermitsQueue(), set.PermitsHeartbeats()}
	channel := proto.Grants(s.Settings.Prefix)
	if s.Runner.Clustered() {
		channel = set.Grants()
	}
	sessions := make(map[string]struct{})
	for batch := range slices.Chunk(holds, maxOfName) {
		calls := make([]wire.Call, len(batch))
		for i, hold := range batch {
			leave := proto.LeaveShared{Hold: hold, Verb: s.PublishCommand(), Channel: channel, KeepMS: floor(s), Certain: proto.Flag(false)}
			calls[i] = wire.Call{Script: scripts.SemaphoreLeave, Keys: keys, Args: leave.AppendTo(nil)}
			sessions[proto.Native().Session(hold)] = struct{}{}
		}
		for _, outcome := range s.Runner.RunMany(ctx, calls) {
			if outcome.Err != nil {
				return outcome.Err
			}
		}
	}
	for owner := range sessions {
		message := wire.Call{Command: "PUBLISH", Args: []string{proto.Session(s.Settings.Prefix, owner), set.Permits()}}
		s.Runner.RunMany(ctx, []wire.Call{message}) // a session that does not receive it finds out by a renewal
	}
	return nil
}

// holdsOf returns the names of all holds in the key of a semaphore, as script lists them. kind is what a key of the kind has as a member.
func holdsOf(ctx context.Context, s *session.Session, script *scripts.Script, key, kind string) (holds []string, err error) {
	for from := 0; ; from += maxOfName {
		reply, err := s.Runner.Run(ctx, proto.ListCall(script, key, kind, from, maxOfName))
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
