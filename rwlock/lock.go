// SPDX-License-Identifier: Apache-2.0

package rwlock

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/handoff"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Lock is one name, as one session sees it. It holds nothing itself: what is held is the
// lease. Locks of one name in one session are the same lock. It is safe for concurrent use. New
// makes one; the zero Lock is of no use.
type Lock struct {
	base          acquire.Base
	table         *layout.RWLock
	realm         *realm
	reads, writes acquire.Lock
}

// New returns the lock name of the session. It sends nothing and never fails: a name or an
// option that is not valid is the error of every call, and of Check.
func New(s *signalbox.Session, name string, options ...signalbox.LockOption) *Lock {
	l := &Lock{base: acquire.MakeIn(s, name, session.RWLock, options, func(l *layout.Layout) bool { return l.RWLock != nil })}
	if l.base.Err != nil {
		return l
	}
	l.table = l.base.Layout.RWLock
	l.realm = realmOf(l.base.Session, l.base.Layout)
	life := l.base.Set.First()
	l.writes = acquire.Lock{
		Kind: &l.realm.Kind, Realm: &l.realm.writers, Base: &l.base, Keys: acquire.KeysOf(&l.base, &l.table.Ground, nil),
		Wish: &queue.Wish{
			Life: life, Floor: l.base.Floor, Args: []string{"w"},
			// A writer asks also while its session writes: the lock may be taken by force, or the writer downgraded.
			Like: acquire.Like(&l.table.Ground, handoff.Request{}, handoff.Request{Way: handoff.Own}),
		},
	}
	l.reads = l.writes
	l.reads.Realm = &l.realm.readers
	l.reads.Wish = &queue.Wish{
		Life: life, Floor: l.base.Floor, Args: []string{"r"}, Beside: true,
		Like: acquire.Like(&l.table.Ground, l.shared(), handoff.Request{Way: handoff.Own, Beside: true}),
	}
	return l
}

// Check returns what is wrong with the name, the options or the session, or nil. It sends
// nothing.
func (l *Lock) Check() error { return l.root().Check() }

// Lock takes the lock to write: alone. It waits as long as ctx lets it: for the readers and the writer that have the
// lock, for the writers that asked before, and, where a writer has it, for the readers that wait then. Readers that
// come later wait for it. ctx bounds the waiting, not the hold: the lease does not end with ctx.
//
// Where ctx carries a writer's lease of this lock (Lease.Enter), it enters again: at once, without a round trip, with
// the token and the terms of the first entry. Where it carries a reader's lease the error is ErrUpgrade, at once: two
// readers that waited to become writers would wait for each other. A carried lease that has ended is the error
// ErrLost or ErrReleased, never a new acquire.
//
// The error is the context's, joined with ErrHeld if the lock was held by the last reply, or with
// ErrRefused and the server's words if the server refused. If waiting cannot help, the error is
// ErrBusy, ErrClosed, ErrBadName, ErrBadOption, ErrUpgrade, ErrWrongKind, ErrDenied, ErrOldServer,
// ErrNotReplicated, or the server's own words. While the server is away, or refuses for now, Lock
// waits.
func (l *Lock) Lock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.lock(ctx)
	return signalbox.Lease(lease), l.root().Explain("lock", err)
}

// TryLock takes the lock to write if it is free and the queue is empty, in one round trip.
// Otherwise it returns ErrHeld. If the server refuses for now, it returns ErrRefused. While this
// session has the lock, waits for it or is releasing it, TryLock fails without a round trip.
//
// If the server is silent, the call returns when ctx ends, or with ErrNoReply when the client gives
// the connection up; see signalbox.Tune.
func (l *Lock) TryLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.tryLock(ctx)
	return signalbox.Lease(lease), l.root().Explain("try lock", err)
}

// RLock takes the lock to read, beside other readers. It waits as Lock does, for the writer that has the lock, or for
// the one that waits for it: a writer that waits closes the door for readers that come later, and all readers that wait
// when a writer is done come in together, before the next writer.
//
// Readers of one session share one hold: where one of them has the lock, another enters beside it without a round
// trip. Once in 20 ms the server is asked whether a writer waits elsewhere. Readers with a FixedLease, MaxHold or
// WaitReplicas have holds of their own.
//
// Where ctx carries a lease of this lock, a reader's or a writer's, it enters that again, past every writer that waits: a
// writer may read. A reader that reads again without that context waits for the writer that waits for it. Errors are
// those of Lock.
func (l *Lock) RLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.rLock(ctx)
	return signalbox.Lease(lease), l.root().Explain("read lock", err)
}

// TryRLock takes the lock to read if that is possible at once, and answers ErrHeld where it is not: a writer has it or
// waits for it, never because of another reader; or ErrRefused where the server refuses for now. In one round trip, or none beside a reader; one more where that asks
// whether a writer waits.
func (l *Lock) TryRLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.tryRLock(ctx)
	return signalbox.Lease(lease), l.root().Explain("try read lock", err)
}

// Do takes the lock to write, runs fn and gives the lock back, also when fn panics or ends its goroutine. fn's
// context ends with the lease, and carries it: the lock can be entered again with it, to write and to read. The
// error is fn's, joined with Unlock's: ErrLost among it says that fn's work was not protected to
// its end.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return l.root().Do(ctx, l.lock, fn)
}

// RDo is Do for a reader.
func (l *Lock) RDo(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return l.root().DoAs(ctx, "read lock", l.rLock, fn)
}

// Locker returns the writing side as a sync.Locker. ctx bounds every wait of its Lock; leases that it
// carries are left aside.
func (l *Lock) Locker(ctx context.Context) *signalbox.Locker { return l.root().Locker(ctx, l.lock) }

// RLocker returns the reading side as a sync.Locker. Goroutines that share it exclude each other; those that are to
// read beside each other need one each.
func (l *Lock) RLocker(ctx context.Context) *signalbox.Locker {
	return l.root().LockerAs(ctx, "read lock", l.rLock)
}

// root returns the base of the lock. A nil Lock has an empty one, whose calls return ErrBadOption.
func (l *Lock) root() *acquire.Base {
	if l == nil {
		return new(acquire.Base)
	}
	return &l.base
}
