// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
)

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
