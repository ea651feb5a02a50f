// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// life is how long a Grant can be trusted unless it ends before: for longer than any test lasts, also in virtual time.
const life = 50 * 365 * 24 * time.Hour

// FakeLock is a lock without a server. It makes leases and recognises them; the caller makes at most one at a time.
// It is safe for concurrent use.
type FakeLock struct {
	name   string
	scope  hold.Scope   // compared by address
	keeper *hold.Keeper // never starts anything: no term of it is started
}

// NewFakeLock returns the lock name. It starts nothing and needs no Close.
func NewFakeLock(name string) *FakeLock {
	return &FakeLock{name: name, scope: hold.Scope{Kind: "fake"}, keeper: hold.NewKeeper(nil, timers.New(), nil)}
}

// Grant is one hold of a FakeLock.
type Grant struct {
	hold     hold.Hold
	name     string
	released func()
}

// Grant returns a hold with its first lease. released is called once if the last of its leases is unlocked, and not if
// the hold is lost before.
func (l *FakeLock) Grant(token uint64, released func()) (*Grant, signalbox.Lease) {
	g := &Grant{name: l.name, released: released}
	now := timers.Now()
	g.hold.Term.Init(&g.hold, &hold.Config{Keeper: l.keeper, Life: life, Fixed: true}, life, now)
	return g, signalbox.Lease(g.hold.Begin(g, &l.scope, token, token))
}

// Lose ends the hold with ErrLost. It reports false if the hold had ended before.
func (g *Grant) Lose() bool { return g.hold.Term.Break(errs.ErrLost, true) }

// Key implements hold.Owner.
func (g *Grant) Key() string { return g.name }

// ID implements hold.Owner.
func (g *Grant) ID() string { return g.name }

// OnRelease implements hold.Owner. The term ends once: here or in Lose.
func (g *Grant) OnRelease(now timers.Instant) error {
	if err := g.hold.Term.Stop(now); err != nil {
		return err
	}
	g.released()
	return nil
}

// Named implements hold.Namer.
func (g *Grant) Named(op string, err error) error {
	base := acquire.Base{Name: g.name}
	return base.Named(op, err)
}

// OnLost implements hold.Owner.
func (*Grant) OnLost(hold.End) {}

// Enter returns a further lease if ctx carries one of this lock, and reports whether it does.
func (l *FakeLock) Enter(ctx context.Context) (lease signalbox.Lease, carried bool, err error) {
	outer, carried := hold.Carried(ctx, &l.scope, l.name)
	if !carried {
		return signalbox.Lease{}, false, nil
	}
	inner, err := outer.Reenter()
	return signalbox.Lease(inner), true, err
}

// Ended returns the error of a call whose ctx has ended, as the calls of locks return it.
func Ended(ctx context.Context) error { return errs.Ended(ctx) }

// WhileHeld returns the error of a wait that ctx ended while the lock was held.
func WhileHeld(ctx context.Context) error { return errs.WhileHeld(errs.Ended(ctx)) }

// Do is the Do of the lock: it calls take, then fn with the lease's context, and releases the lease.
func (l *FakeLock) Do(
	ctx context.Context, take func(context.Context) (signalbox.Lease, error),
	fn func(context.Context, signalbox.Lease) error,
) error {
	base := acquire.Base{Name: l.name}
	return base.Do(ctx, func(ctx context.Context) (hold.Lease, error) {
		lease, err := take(ctx)
		return hold.Lease(lease), err
	}, fn)
}
