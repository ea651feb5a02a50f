// SPDX-License-Identifier: Apache-2.0

package reentrant

import (
	"cmp"
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/primitive"
	"github.com/signalbox-go/signalbox/internal/renewal"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/settings"
)

// Lock is one name, as one session sees it. It holds nothing itself: what is held is the
// lease. Locks of one name in one session are the same lock. It is safe for concurrent use. New
// makes one; the zero Lock is of no use.
type Lock struct {
	base    primitive.Base
	realm   *session.Realm
	scripts *layout.Reentrant
	taking  []string // the keys of an acquire
	mark    string   // by which waiters of the session are told
	lifeMS  string   // of the first acquire
}

// New answers the lock name of the session. It sends nothing and never fails: a name or an
// option that is not valid is the error of every call, and of Check.
func New(s *signalbox.Session, name string, options ...signalbox.LockOption) *Lock {
	l := &Lock{base: primitive.MakeIn(s, name, settings.Reentrant, options, func(l *layout.Layout) bool { return l.Reentrant != nil })}
	if l.base.Err == nil {
		l.scripts = l.base.Layout.Reentrant
		l.taking = l.scripts.Keys(l.base.Names)
		l.realm = l.base.Session.Reentrant(l.base.Layout)
		l.mark = cmp.Or(l.base.Layout.Mark, l.base.Session.ID())
		l.lifeMS = renewal.Milliseconds(l.base.Set.Life())
	}
	return l
}

// verb returns the command with which scripts publish messages. It is known after the first contact
// with the server.
func (l *Lock) verb() string { return l.base.Session.PublishIn(l.base.Layout) }

// Check returns what is wrong with the name, the options or the session, or nil. It sends
// nothing.
func (l *Lock) Check() error { return l.root().Check() }

// Lock takes the lock, and waits for it as long as ctx lets it. ctx bounds the waiting, not
// the hold: the lease does not end with ctx.
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
	lease, err := l.lock(ctx)
	return signalbox.Lease(lease), l.root().Explain("lock", err)
}

// TryLock takes the lock if that is possible at once, in one round trip. If it is held, TryLock
// returns ErrHeld; if the server refuses for now, ErrRefused. While this session holds the lock or
// waits for it, TryLock fails without a round trip.
//
// If the server is silent, the call returns when ctx ends, or with ErrNoReply when the client gives
// the connection up; see signalbox.Tune.
func (l *Lock) TryLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.tryLock(ctx)
	return signalbox.Lease(lease), l.root().Explain("try lock", err)
}

// Do takes the lock, runs fn and gives the lock back, also when fn panics or ends its goroutine. fn's
// context ends with the lease, and carries it: the lock can be entered again with it. The
// error is fn's, joined with Unlock's: ErrLost among it says that fn's work was not protected to
// its end.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return l.root().Do(ctx, l.lock, fn)
}

// Locker answers the lock as a sync.Locker. ctx bounds every wait of its Lock; leases that it
// carries are left aside.
func (l *Lock) Locker(ctx context.Context) *signalbox.Locker { return l.root().Locker(ctx, l.lock) }

// root returns the base of the lock. A nil Lock has an empty one, whose calls return ErrBadOption.
func (l *Lock) root() *primitive.Base {
	if l == nil {
		return new(primitive.Base)
	}
	return &l.base
}

// keys answers the lock's key, as calls take it.
func (l *Lock) keys() []string { return []string{l.base.Names.Holder} }

// target answers what a waiter of the lock waits for.
func (l *Lock) target() dispatch.Target {
	return dispatch.Target{
		Channel: l.base.Names.Unlocked,
		Key:     l.base.Names.Holder,
		Look:    l.scripts.Look,
		Mark:    l.mark,
		Ways:    l.base.Layout.Ways,
	}
}

// enter answers a lease by the one that ctx carries, if it does, and whether it does.
func (l *Lock) enter(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	if err = l.root().Made(); err != nil {
		return hold.Lease{}, false, err
	}
	return l.base.Enter(ctx, &l.realm.Realm)
}
