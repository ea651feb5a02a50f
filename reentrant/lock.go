// SPDX-License-Identifier: Apache-2.0

package reentrant

import (
	"context"
	"errors"
	"fmt"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/renewal"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/settings"
	"github.com/signalbox-go/signalbox/scripts"
)

// Lock is one name, as one session sees it. It holds nothing itself: what is held is the
// lease. Locks of one name in one session are the same lock. It is safe for concurrent use.
type Lock struct {
	session *session.Session
	realm   *session.Realm
	name    string
	names   names.Set
	set     settings.Terms
	err     error  // what New was given is no lock; the error of every call
	lifeMS  string // of the first acquire
}

// New answers the lock name of the session. It sends nothing and never fails: a name or an
// option that is not valid is the error of every call, and of Check.
func New(s *signalbox.Session, name string, options ...signalbox.LockOption) *Lock {
	l := &Lock{session: (*session.Session)(s), name: name}
	if s == nil {
		l.err = l.session.Ready()
		return l
	}
	l.realm = &l.session.Reentrant
	set := l.session.Settings.Lock
	for _, option := range options {
		if option != nil {
			option(&set)
		}
	}
	l.names, l.err = l.session.Names(name)
	l.err = errors.Join(l.err, set.Err)
	l.set = set.Terms
	l.lifeMS = renewal.Milliseconds(l.set.Life())
	return l
}

// Check answers what is wrong with the name, the options or the session, or nil. It sends
// nothing.
func (l *Lock) Check() error {
	err := l.err
	if err == nil {
		err = l.session.Ready()
	}
	return l.explain("check", err)
}

// Lock takes the lock, and waits for it as long as ctx lets it. ctx bounds the waiting, not
// the hold: the lease goes on when ctx ends.
//
// Where ctx carries a lease of this lock (Lease.Enter), it enters again: at once, without a
// round trip, with the token and the terms of the first entry. A carried lease that has ended
// is the error ErrLost or ErrReleased, never a new acquire.
//
// The error is the context's, joined with ErrHeld where the lock was held when last heard of;
// or ErrClosed, ErrBadName, ErrBadOption, ErrWrongKind, ErrDenied, ErrOldServer, or the server's
// own words where waiting cannot help. A server that is away is waited for.
func (l *Lock) Lock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.lock(ctx)
	return signalbox.Lease(lease), l.explain("lock", err)
}

// TryLock takes the lock if that is possible at once, in one round trip, and answers ErrHeld
// where it is not. It is refused without a round trip while this session holds or wants the
// lock.
func (l *Lock) TryLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.tryLock(ctx)
	return signalbox.Lease(lease), l.explain("try lock", err)
}

// Do takes the lock, runs fn and gives the lock back, also when fn panics or ends its goroutine. fn's
// context ends with the lease, and carries it: the lock can be entered again with it. The
// error is fn's, joined with Unlock's: ErrLost among it says that fn's work was not protected to
// its end.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) (err error) {
	lease, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.explain("unlock", lease.Unlock())) }()
	return fn(lease.Enter(ctx), lease)
}

// keys answers the lock's key, as calls take it.
func (l *Lock) keys() []string { return []string{l.names.Holder} }

// target answers what a waiter of the lock waits for.
func (l *Lock) target() dispatch.Target {
	return dispatch.Target{
		Channel: l.names.Unlocked,
		Key:     l.names.Holder,
		Look:    scripts.ReentrantLook,
		Mark:    l.session.ID(),
	}
}

// enter answers a lease by the one that ctx carries, if it does, and whether it does.
func (l *Lock) enter(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	switch {
	case l.err != nil:
		return hold.Lease{}, false, l.err
	case ctx == nil:
		return hold.Lease{}, false, fmt.Errorf("%w: the context is nil", errs.ErrBadOption)
	}
	outer, carried := hold.Carried(ctx, &l.realm.Realm, l.names.Holder)
	if !carried {
		if err = l.session.Ready(); err == nil && ctx.Err() != nil {
			err = ended(ctx)
		}
		return hold.Lease{}, false, err
	}
	lease, err = outer.Again()
	if err == nil && isDone(ctx) {
		_ = lease.Unlock() // beside the outer one: no more than a count
		return hold.Lease{}, true, ended(ctx)
	}
	return lease, true, err
}

// isDone reports whether ctx has ended, without the look at the clock that the Err of a lease's
// context takes: entering has just looked.
func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// explain gives an error the operation and the name.
func (l *Lock) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	return &signalbox.OpError{Op: op, Name: l.name, Err: err}
}

// ended answers the error of a context that has ended, with its cause where it has another.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return errors.Join(err, cause)
}
