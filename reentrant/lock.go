// SPDX-License-Identifier: Apache-2.0

package reentrant

import (
	"context"
	"iter"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
)

// Lock is one name, as one session sees it. It holds nothing itself: what is held is the
// lease. Locks of one name in one session are the same lock. It is safe for concurrent use. New
// makes one; the zero Lock is of no use.
type Lock struct{ core acquire.Exclusive }

// New returns the lock name of the session. It sends nothing and never fails: if the name or an
// option is not valid, every call returns the error, and so does Check.
func New(s *signalbox.Session, name string, options ...signalbox.LockOption) *Lock {
	l := new(Lock)
	l.core.Make(s, name, acquire.Turns, options)
	return l
}

// Check returns what is wrong with the name, the options or the session, or nil. It sends
// nothing.
func (l *Lock) Check() error { return l.root().Check() }

// Place returns the position of the lock in the order of all locks, for package multilock.
func (l *Lock) Place() signalbox.Place { return l.root().Place() }

// Lock acquires the lock. It blocks until the lock is acquired or ctx ends. ctx bounds the waiting,
// not the hold: the lease does not end with ctx. Goroutines of this process are served first in, first out. A waiter
// in another process is delayed by at most one turn of each session ahead of it; see the package doc.
//
// If ctx carries a lease of this lock (Lease.Enter), Lock enters it again: at once, without a round
// trip, with the token and the terms of the first entry. If that lease has ended, Lock returns
// ErrLost or ErrReleased, and never acquires anew.
//
// The error is the context's, joined with ErrHeld if the lock was held by the last reply, or with
// ErrRefused and the server's words if the server refused. If waiting cannot help, the error is
// ErrBusy, ErrClosed, ErrBadName, ErrBadOption, ErrWrongKind, ErrDenied, ErrOldServer, ErrUnsupported or
// ErrNotReplicated. While the server is away, or refuses for now, Lock waits.
func (l *Lock) Lock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.root().Acquire(ctx)
	return signalbox.Lease(lease), l.root().Explain("lock", err)
}

// TryLock acquires the lock if it is free and no living waiter is in the queue, in one round trip.
// Otherwise it returns ErrHeld: it does not overtake a waiter. If the server refuses for now, it
// returns ErrRefused. While this session holds the lock or waits for it, TryLock fails without a
// round trip.
//
// If the server is silent, the call returns when ctx ends, or with ErrNoReply when the client gives
// the connection up; see signalbox.Tune.
func (l *Lock) TryLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.root().TryAcquire(ctx)
	return signalbox.Lease(lease), l.root().Explain("try lock", err)
}

// Do acquires the lock, runs fn and releases the lock, also if fn panics or ends its goroutine. fn's
// context ends with the lease, and carries it: fn can enter the lock again with it. The error is
// fn's, joined with Unlock's: ErrLost in it says that fn's work was not protected to its end.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return l.root().Do(ctx, l.root().Acquire, fn)
}

// Locker returns the lock as a sync.Locker. ctx bounds every wait of its Lock; leases that it
// carries are ignored.
func (l *Lock) Locker(ctx context.Context) *signalbox.Locker {
	return l.root().Locker(ctx, l.root().Acquire)
}

// Holder returns the holder of the lock, as the server knows it, or ErrNotHeld. Its Kind says whether the
// holder uses package reentrant or fair; they are one lock. If a lock of another kind has the name, Kind
// names that. If the key is no lock's, the error is ErrWrongKind. One round trip, without a second try.
func (l *Lock) Holder(ctx context.Context) (signalbox.Holder, error) { return l.root().Holder(ctx) }

// IsLocked reports whether the lock is held, as the server says: by this process, another one, or a
// lock of another kind. The result may be outdated when it is read. One round trip.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) { return l.root().IsLocked(ctx) }

// Waiters returns the tickets in the queue, of all processes, the first one first. A ticket stands for
// all goroutines of a session that want the lock on the same terms; Waiter.Goroutines says for how many
// if the ticket is this session's. It costs one round trip for 100 tickets. The queue moves meanwhile,
// so together they are a picture and no promise. An error ends the sequence. In a layout of
// others there is no queue at the server: the error is ErrBadOption.
func (l *Lock) Waiters(ctx context.Context) iter.Seq2[signalbox.Waiter, error] {
	return l.root().Waiters(ctx)
}

// ForceUnlock ends the hold of the present holder, in any process, and hands the lock over to the next
// waiter. It is for people, and for holders that hang. It returns nil if the hold that it found is gone,
// and ErrNotHeld if there was none. If a lock of another kind has the name, it returns ErrWrongKind and
// changes nothing.
//
// The holder is notified at once, by message: its lease ends with ErrLost, and its contexts with it. If the
// message is lost, or the holder's session polls, it finds out at its next renewal. Until then it works
// beside the next holder, whose token is greater than any token that the old one can have: fencing tokens
// are for that.
//
// After an error it may be done or not. It is safe to repeat, but then ends the hold of the holder at that
// time. Two round trips; if the lock changes hands between them ten times in a row, the error is ErrHeld.
func (l *Lock) ForceUnlock(ctx context.Context) error { return l.root().ForceUnlock(ctx) }

// root returns the core of the lock. A nil Lock has an empty one, whose calls return ErrBadOption.
func (l *Lock) root() *acquire.Exclusive {
	if l == nil {
		return new(acquire.Exclusive)
	}
	return &l.core
}
