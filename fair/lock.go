// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/ground"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/line"
	"github.com/signalbox-go/signalbox/internal/member"
	"github.com/signalbox-go/signalbox/internal/primitive"
	"github.com/signalbox-go/signalbox/internal/settings"
	"github.com/signalbox-go/signalbox/internal/tenure"
)

// Lock is one name, as one session sees it. It holds nothing itself: what is held is the
// lease. Locks of one name in one session are the same lock. It is safe for concurrent use. New
// makes one; the zero Lock is of no use.
type Lock struct {
	base   primitive.Base
	tenure tenure.Lock
}

// New answers the lock name of the session. It sends nothing and never fails: a name or an
// option that is not valid is the error of every call, and of Check.
func New(s *signalbox.Session, name string, options ...signalbox.LockOption) *Lock {
	l := &Lock{base: primitive.MakeIn(s, name, settings.Fair, options, func(l *layout.Layout) bool { return l.Fair != nil })}
	if l.base.Err != nil {
		return l
	}
	realm := realmOf(l.base.Session, l.base.Layout)
	l.tenure = tenure.Lock{
		Kind: &realm.Kind, Realm: &realm.hold, Base: &l.base, Keys: ground.Keys(&l.base, &l.base.Layout.Fair.Ground),
		Wish: line.Wish{Life: l.base.Set.Life(), Floor: l.base.Floor},
	}
	return l
}

// Check returns what is wrong with the name, the options or the session, or nil. It sends
// nothing.
func (l *Lock) Check() error { return l.root().Check() }

// Place answers where the lock stands among all locks, for package multilock.
func (l *Lock) Place() signalbox.Place { return l.root().Place(kind, member.Whole, nil) }

// Lock takes the lock, and waits for it as long as ctx lets it: behind everybody, of whatever process,
// who asked before, and before everybody who asks later. ctx bounds the waiting, not the hold: the
// lease does not end with ctx. Who leaves and comes again stands at the end.
//
// Where ctx carries a lease of this lock (Lease.Enter), it enters again: at once, without a
// round trip, with the token and the terms of the first entry. A carried lease that has ended
// is the error ErrLost or ErrReleased, never a new acquire.
//
// The error is the context's, joined with ErrHeld if the lock was held by the last reply, or with
// ErrRefused and the server's words if the server refused. If waiting cannot help, the error is
// ErrClosed, ErrBadName, ErrBadOption, ErrWrongKind, ErrDenied, ErrOldServer, ErrNotReplicated, or
// the server's own words. While the server is away, or refuses for now, Lock waits.
func (l *Lock) Lock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.acquire(ctx)
	return signalbox.Lease(lease), l.root().Explain("lock", err)
}

// TryLock takes the lock if it is free and the queue is empty, in one round trip. Otherwise it
// returns ErrHeld: it does not overtake a waiter. If the server refuses for now, it returns
// ErrRefused. While this session holds the lock or waits for it, TryLock fails without a round
// trip.
//
// If the server is silent, the call returns when ctx ends, or with ErrNoReply when the client gives
// the connection up; see signalbox.Tune.
func (l *Lock) TryLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.tryAcquire(ctx)
	return signalbox.Lease(lease), l.root().Explain("try lock", err)
}

// Do takes the lock, runs fn and gives the lock back, also when fn panics or ends its goroutine. fn's
// context ends with the lease, and carries it: the lock can be entered again with it. The
// error is fn's, joined with Unlock's: ErrLost among it says that fn's work was not protected to
// its end.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return l.root().Do(ctx, l.acquire, fn)
}

// Locker answers the lock as a sync.Locker. ctx bounds every wait of its Lock; leases that it
// carries are left aside.
func (l *Lock) Locker(ctx context.Context) *signalbox.Locker { return l.root().Locker(ctx, l.acquire) }

// root returns the base of the lock. A nil Lock has an empty one, whose calls return ErrBadOption.
func (l *Lock) root() *primitive.Base {
	if l == nil {
		return new(primitive.Base)
	}
	return &l.base
}
