// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// describedHold is a hold that a holder key names.
type describedHold struct {
	proto.HolderInfo

	kind, hold string
}

// Holder returns the holder of the lock of key, of any kind, or ErrNotHeld. It is one round trip.
func (s *Session) Holder(ctx context.Context, l *proto.Layout, key string) (proto.HolderInfo, error) {
	h, err := describe(ctx, s.Runner, l, key)
	return h.HolderInfo, err
}

// Hold is Holder in the library's own layout. It also returns the hold's id.
func (s *Session) Hold(ctx context.Context, key string) (proto.HolderInfo, string, error) {
	h, err := describe(ctx, s.Runner, proto.Native(), key)
	return h.HolderInfo, h.hold, err
}

func describe(ctx context.Context, r *wire.Runner, l *proto.Layout, key string) (describedHold, error) {
	reply, err := r.Run(ctx, l.DescribeCall(key))
	if err != nil {
		return describedHold{}, err
	}
	var h describedHold
	h.HolderInfo, h.hold, h.kind, err = l.ReadHold(reply)
	return h, err
}

// ForceRequest describes how a kind of lock is taken from its holder.
type ForceRequest struct {
	Layout          *proto.Layout
	Key             string
	CompatibleKinds string // the letters of the kinds whose holds may be ended
	// Call makes the call that takes the lock from hold, and from no other, and publishes that to the hold's
	// session on channel. It returns 0 if the hold had gone before, else 1.
	Call func(hold, channel string) wire.Call
}

// maxForces bounds how often Force begins again. A lock whose holder changes so often between two round trips
// is not stuck.
const maxForces = 10

// Force takes a lock from its holder: it asks for the hold, and ends that hold and no other. If the holder
// has changed meanwhile it begins again, unless the call is meant for certain holds; see WithForceTargets. If the
// reply is lost it checks whether the hold is gone.
func (s *Session) Force(ctx context.Context, f ForceRequest) error {
	var sent string // the hold whose release was sent, without a reply
	var lost error
	s.HandshakeInCluster(ctx, f.Key)
	for range maxForces {
		h, err := describe(ctx, s.Runner, f.Layout, f.Key)
		switch {
		case sent != "" && (errors.Is(err, errs.ErrNotHeld) || err == nil && h.hold != sent):
			return nil // gone, by that or by itself
		case err != nil:
			return errs.Join(err, lost)
		case !strings.Contains(f.CompatibleKinds, h.kind):
			return proto.WrongKind(h.kind)
		case !IsForceTarget(ctx, proto.HoldID(h.hold)):
			return ErrOtherHold
		}
		reply, err := s.Runner.Run(ctx, f.Call(h.hold, proto.Session(s.Settings.Prefix, h.Session)))
		switch {
		case err != nil && (wire.Judge(err) != wire.Unknown || ctx.Err() != nil):
			return err
		case err != nil:
			sent, lost = h.hold, err
			continue
		}
		if h.Session == s.id {
			s.Recheck(f.Key) // as the message would do, and also if no session listens
		}
		if reply.Code() == wire.Done {
			return nil
		}
		sent, lost = "", nil
	}
	if lost != nil {
		return lost
	}
	return fmt.Errorf("%w: it changed hands %d times while it was to be taken", errs.ErrHeld, maxForces)
}

type forceTargetsKey struct{}

// WithForceTargets returns a context for calls that end holds by force: they end the holds with these ids, and no others. The ids
// travel in the context, as the right to enter does, so that ForceUnlock of every kind needs no second form.
func WithForceTargets(ctx context.Context, ids []string) context.Context {
	return context.WithValue(ctx, forceTargetsKey{}, ids)
}

// IsForceTarget reports whether a call that ends holds by force is meant for the hold with this id.
func IsForceTarget(ctx context.Context, id string) bool {
	ids, limited := ctx.Value(forceTargetsKey{}).([]string)
	return !limited || slices.Contains(ids, id)
}

// FilterForceTargets returns the holds that the call is meant for. If there are only others it returns an error.
func FilterForceTargets[H any](ctx context.Context, holds []H, hold func(H) string) ([]H, error) {
	targets := slices.DeleteFunc(slices.Clone(holds), func(h H) bool { return !IsForceTarget(ctx, proto.HoldID(hold(h))) })
	if len(targets) == 0 && len(holds) > 0 {
		return nil, ErrOtherHold
	}
	return targets, nil
}

// ErrOtherHold is the error of a call that is meant for a hold which has ended, if another one holds the lock.
var ErrOtherHold = fmt.Errorf("%w: another hold than the one that was meant", errs.ErrHeld)
