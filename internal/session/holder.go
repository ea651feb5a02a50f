// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// HolderInfo describes the holder of a lock. signalbox.Holder has the same fields, and documents them.
type HolderInfo struct {
	Kind           string
	Shared         bool
	MayBeIdle      bool
	Label, Session string
	Since, Until   time.Time
	Token          uint64
}

// describedHold is a hold that a holder key names.
type describedHold struct {
	HolderInfo

	kind, hold string
}

// keptMode is the letter of a reentrant lock that its session may keep while no goroutine uses it.
const keptMode = "k"

// kinds are the kinds of locks by their letters.
//
//nolint:gochecknoglobals // a constant table
var kinds = map[string]string{"r": "reentrant", keptMode: "reentrant", "R": "reentrant", "f": "fair", "F": "fair", "w": "rwlock", "q": "redlock", "l": "reentrant or fair"}

// KindName returns the kind for a letter of a holder key: the letter itself if a later release wrote it.
func KindName(letter string) string {
	if name, known := kinds[letter]; known {
		return name
	}
	return letter
}

// WrongKind returns the error of a call that found a key of another kind: by its letter, or "?" if it is no
// lock.
func WrongKind(letter string) error {
	if letter == "?" {
		return fmt.Errorf("%w: the key is not a lock's", errs.ErrWrongKind)
	}
	return fmt.Errorf("%w: a lock of another kind holds it (%s)", errs.ErrWrongKind, KindName(letter))
}

// Holder returns the holder of the lock of key, of any kind, or ErrNotHeld. It is one round trip.
func (s *Session) Holder(ctx context.Context, l *layout.Layout, key string) (HolderInfo, error) {
	h, err := s.describe(ctx, l, key)
	return h.HolderInfo, err
}

// Hold is Holder in the library's own layout. It also returns the hold's id.
func (s *Session) Hold(ctx context.Context, key string) (HolderInfo, string, error) {
	h, err := s.describe(ctx, layout.Native(), key)
	return h.HolderInfo, h.hold, err
}

// DescribeCall is the call whose reply ReadHold reads, in the library's own layout.
func DescribeCall(key string) wire.Call { return describeCall(layout.Native(), key) }

func describeCall(l *layout.Layout, key string) wire.Call {
	return wire.Call{Script: l.Describe, Keys: []string{key}}
}

// ReadHold returns what the reply to DescribeCall says: the holder, its hold, and the letter of its kind.
func ReadHold(reply wire.Reply) (holder HolderInfo, hold, letter string, err error) {
	h, err := readHeld(layout.Native(), reply)
	return h.HolderInfo, h.hold, h.kind, err
}

// ListCall is the call of a script that lists holds of a key which has several: count of them, from the one with the index from
// on. kind is what a key of its kind has as a member; "" in a layout of others.
func ListCall(script *scripts.Script, key, kind string, from, count int) wire.Call {
	return wire.Call{Script: script, Keys: []string{key}, Args: []string{kind, strconv.Itoa(from), strconv.Itoa(count)}}
}

func (s *Session) describe(ctx context.Context, l *layout.Layout, key string) (describedHold, error) {
	reply, err := s.Runner.Run(ctx, describeCall(l, key))
	if err != nil {
		return describedHold{}, err
	}
	return readHeld(l, reply)
}

func readHeld(l *layout.Layout, reply wire.Reply) (describedHold, error) {
	switch {
	case reply.Code() == wire.NotDone:
		return describedHold{}, errs.ErrNotHeld
	case reply.Code() < wire.NotDone:
		return describedHold{}, WrongKind("?")
	}
	h := describedHold{kind: reply.Text(1), hold: reply.Text(3)}
	h.HolderInfo = HolderInfo{
		Kind: KindName(h.kind), MayBeIdle: h.kind == keptMode, Label: reply.Text(4), Session: l.Session(h.hold),
	}
	if since := reply.Stamp(2); since != 0 {
		h.Since, h.Token = since.Time(), since.Token()
	}
	if ends := reply.Int(5); ends >= 0 {
		h.Until = time.UnixMilli(ends)
	}
	return h, nil
}

// ForceRequest describes how a kind of lock is taken from its holder.
type ForceRequest struct {
	Layout          *layout.Layout
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
		h, err := s.describe(ctx, f.Layout, f.Key)
		switch {
		case sent != "" && (errors.Is(err, errs.ErrNotHeld) || err == nil && h.hold != sent):
			return nil // gone, by that or by itself
		case err != nil:
			return errs.Join(err, lost)
		case !strings.Contains(f.CompatibleKinds, h.kind):
			return WrongKind(h.kind)
		case !IsForceTarget(ctx, HoldID(h.hold)):
			return ErrOtherHold
		}
		reply, err := s.Runner.Run(ctx, f.Call(h.hold, names.Session(s.Settings.Prefix, h.Session)))
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

// HoldID identifies a hold for people: another hold has another one. It is a digest, since a client that knows the
// hold itself may release it.
func HoldID(hold string) string {
	sum := sha256.Sum256([]byte(hold))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// RoundID identifies the round of a latch that began at that time of the server.
func RoundID(began time.Time) string {
	return HoldID("round " + strconv.FormatInt(began.UnixMicro(), 10))
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
	targets := slices.DeleteFunc(slices.Clone(holds), func(h H) bool { return !IsForceTarget(ctx, HoldID(hold(h))) })
	if len(targets) == 0 && len(holds) > 0 {
		return nil, ErrOtherHold
	}
	return targets, nil
}

// ErrOtherHold is the error of a call that is meant for a hold which has ended, if another one holds the lock.
var ErrOtherHold = fmt.Errorf("%w: another hold than the one that was meant", errs.ErrHeld)
