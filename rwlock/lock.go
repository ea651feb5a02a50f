// SPDX-License-Identifier: Apache-2.0

package rwlock

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/waitroom"
)

// Lock is one name, as one session sees it. It holds nothing itself: what is held is the
// lease. Locks of one name in one session are the same lock. It is safe for concurrent use. New
// makes one; the zero Lock is of no use.
type Lock struct {
	writer, reader acquire.Acquirer
	table          *proto.RWLockTable
	registry       *rwRegistry
}

// New returns the lock name of the session. It sends nothing and never fails: if the name or an option
// is not valid, every call returns the error, and so does Check.
func New(s *signalbox.Session, name string, options ...signalbox.LockOption) *Lock {
	l := new(Lock)
	l.writer.Base = acquire.Make(s, name, &proto.RWLock, options)
	if l.writer.Err != nil {
		return l
	}
	l.table = l.writer.Layout.RWLock
	l.registry = registryOf(l.writer.Session, l.writer.Layout)
	of := &l.registry.shared
	if len(options) > 0 {
		of = l.registry.newShared(l.table, l.writer.Resolved)
	}
	l.writer.Names = l.table.Names(l.writer.Names)
	l.reader = acquire.Acquirer{Base: l.writer.Base, Shared: &of.reader}
	l.writer.Shared = &of.writer
	return l
}

// shared has what locks with certain options share.
type shared struct{ writer, reader acquire.Shared }

func (r *rwRegistry) newShared(table *proto.RWLockTable, s *session.Resolved) *shared {
	life, writes, reads := s.Terms.First(), proto.RWTerms{Mode: "w"}, proto.RWTerms{Mode: "r"}
	return &shared{
		writer: r.NewShared(&r.writers, &queue.Request{
			Life: life, FloorTTL: s.Floor, Args: writes.AppendTo(nil),
			// A writer requests the lock also while its session writes: the lock may be taken by force, or the writer downgraded.
			ShareKey: acquire.ShareKeyFor(&table.Table, waitroom.ShareKey{}, waitroom.ShareKey{Policy: waitroom.Own}),
		}, s.Terms.Lease),
		reader: r.NewShared(&r.readers, &queue.Request{
			Life: life, FloorTTL: s.Floor, Args: reads.AppendTo(nil), Concurrent: true,
			ShareKey: acquire.ShareKeyFor(&table.Table, shareKey(s), waitroom.ShareKey{Policy: waitroom.Own, Concurrent: true}),
		}, s.Terms.Lease),
	}
}

// Check returns what is wrong with the name, the options or the session, or nil. It sends
// nothing.
func (l *Lock) Check() error { return l.root().Check() }

// Lock acquires the lock for writing, alone. It blocks until the lock is acquired or ctx ends. It waits
// for the readers or the writer that hold the lock and for the writers whose calls the server received
// earlier. If a writer holds the lock, it also waits for the readers that are waiting already. Later
// readers wait for it. ctx bounds the waiting, not the hold: the lease does not end with ctx.
//
// If ctx carries a writer's lease of this lock (Lease.Enter), Lock enters it again: at once, without a
// round trip, with the token and the terms of the first entry. If ctx carries a reader's lease, Lock
// returns ErrUpgrade at once: two readers that waited to become writers would wait for each other. If
// the carried lease has ended, Lock returns ErrLost or ErrReleased, and never acquires anew.
//
// The error is the context's, joined with ErrHeld if the lock was held by the last reply, or with
// ErrRefused and the server's words if the server refused. If waiting cannot help, the error is
// ErrBusy, ErrClosed, ErrBadName, ErrBadOption, ErrUpgrade, ErrWrongKind, ErrDenied, ErrOldServer,
// ErrUnsupported or ErrNotReplicated. While the server is away, or refuses for now, Lock
// waits.
func (l *Lock) Lock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.lock(ctx)
	return signalbox.Lease(lease), l.root().Explain("lock", err)
}

// TryLock acquires the lock for writing if it is free and the queue is empty, in one round trip.
// Otherwise it returns ErrHeld. If the server refuses for now, it returns ErrRefused. While this
// session holds the lock, waits for it or is releasing it, TryLock fails without a round trip.
//
// If the server is silent, the call returns when ctx ends, or with ErrNoReply when the client gives
// the connection up; see signalbox.Tune.
func (l *Lock) TryLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.write(ctx, (*acquire.Acquirer).TryAcquire)
	return signalbox.Lease(lease), l.root().Explain("try lock", err)
}

// RLock acquires the lock for reading, beside other readers. It blocks while a writer holds the lock or
// waits for it: a waiting writer keeps later readers out. When a writer is done, all readers that wait
// acquire the lock together, before the next writer.
//
// Readers of one session share a hold: while one of them holds the lock, another one enters beside it
// without a round trip. Once in 20 ms the session asks the server whether a writer waits elsewhere.
// Readers with WithFixedLease, WithMaxHold or WithReplicas have holds of their own.
//
// If ctx carries a lease of this lock, a reader's or a writer's, RLock enters it again, before every
// waiting writer. Calling RLock again without that context deadlocks if a writer is waiting. The errors
// are those of Lock.
func (l *Lock) RLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.rLock(ctx)
	return signalbox.Lease(lease), l.root().Explain("read lock", err)
}

// TryRLock acquires the lock for reading if that is possible at once. It returns ErrHeld if a writer
// holds the lock or waits for it, and ErrRefused if the server refuses for now. Other readers do not
// make it fail. It takes one round trip, or none beside a reader of this session; one more if it asks
// whether a writer waits.
func (l *Lock) TryRLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.read(ctx, (*acquire.Acquirer).TryAcquire)
	return signalbox.Lease(lease), l.root().Explain("try read lock", err)
}

// Do acquires the lock for writing, runs fn and releases the lock, also if fn panics or ends its
// goroutine. fn's context ends with the lease, and carries it: fn can enter the lock again with it, to
// write and to read. The error is fn's, joined with Unlock's: ErrLost in it says that fn's work was not
// protected to its end.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return l.root().Do(ctx, l.lock, fn)
}

// RDo is Do for a reader.
func (l *Lock) RDo(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return l.root().DoAs(ctx, "read lock", l.rLock, fn)
}

// Locker returns the writing side as a sync.Locker. ctx bounds every wait of its Lock; leases that it
// carries are ignored.
func (l *Lock) Locker(ctx context.Context) *signalbox.Locker { return l.root().Locker(ctx, l.lock) }

// RLocker returns the reading side as a sync.Locker. Goroutines that share it exclude each other. To
// read side by side, each needs a Locker of its own.
func (l *Lock) RLocker(ctx context.Context) *signalbox.Locker {
	return l.root().LockerAs(ctx, "read lock", l.rLock)
}

// root returns the base of the lock. A nil Lock has an empty one, whose calls return ErrBadOption.
func (l *Lock) root() *acquire.Base {
	if l == nil {
		return new(acquire.Base)
	}
	return &l.writer.Base
}

// Place returns the position of the lock, for writing, in the order of all locks; see package multilock.
func (l *Lock) Place() signalbox.Place { return l.root().Place(kind, session.ExclusiveAccess, nil) }

// Reader is the reading side of a lock with the methods of a lock, for package multilock. The method
// Reader of a Lock makes one; the zero Reader is of no use.
type Reader struct{ lock *Lock }

// Reader returns the reading side of the lock.
func (l *Lock) Reader() Reader { return Reader{l} }

// Lock is RLock of the lock.
func (r Reader) Lock(ctx context.Context) (signalbox.Lease, error) { return r.lock.RLock(ctx) }

// TryLock is TryRLock of the lock.
func (r Reader) TryLock(ctx context.Context) (signalbox.Lease, error) { return r.lock.TryRLock(ctx) }

// Check is Check of the lock.
func (r Reader) Check() error { return r.lock.Check() }

// Place returns the position of the lock, for reading, in the order of all locks.
func (r Reader) Place() signalbox.Place { return r.lock.root().Place(kind, session.SharedAccess, nil) }

// kind is what the session knows read-write locks as.
const kind = "rwlock"

// rwRegistry is what one session keeps for the read-write locks of one layout.
type rwRegistry struct {
	acquire.Manager

	readers, writers hold.Scope
	shared           shared // of locks without options of their own
}

func registryOf(s *session.Session, l *proto.Layout) *rwRegistry {
	return session.RegistryOf(s, l.RWLock.RegistryName, func() *rwRegistry {
		r := &rwRegistry{
			Manager: acquire.NewManager(s, l, &l.RWLock.Table, nil),
			readers: hold.Scope{Kind: kind}, writers: hold.Scope{Kind: kind},
		}
		r.shared = *r.newShared(l.RWLock, s.DefaultsOf(&proto.RWLock))
		r.Share = l.RWLock.Share
		return r
	})
}

// acquirerCall is Acquire or TryAcquire.
type acquirerCall func(*acquire.Acquirer, context.Context) (hold.Lease, error)

func (l *Lock) lock(ctx context.Context) (hold.Lease, error) {
	return l.write(ctx, (*acquire.Acquirer).Acquire)
}

func (l *Lock) rLock(ctx context.Context) (hold.Lease, error) {
	return l.read(ctx, (*acquire.Acquirer).Acquire)
}

func (l *Lock) write(ctx context.Context, take acquirerCall) (hold.Lease, error) {
	lease, carried, err := l.enterToWrite(ctx)
	if carried || err != nil {
		return lease, err
	}
	call := l.writer.BeginCall(ctx)
	lease, err = take(&l.writer, ctx)
	return lease.Observe(call, err)
}

func (l *Lock) read(ctx context.Context, take acquirerCall) (hold.Lease, error) {
	lease, carried, err := l.enterToRead(ctx)
	if carried || err != nil {
		return lease, err
	}
	call := l.writer.BeginSharedCall(ctx)
	lease, err = take(&l.reader, ctx)
	return lease.Observe(call, err)
}

// enterToWrite enters the writer's lease that ctx carries. It returns ErrUpgrade if ctx carries a reader's.
func (l *Lock) enterToWrite(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	if err = l.root().CheckArgs(); err != nil {
		return hold.Lease{}, false, err
	}
	lease, carried, err = l.writer.Enter(ctx, &l.registry.writers)
	if carried || err != nil {
		return lease, carried, err
	}
	if _, carried = hold.Carried(ctx, &l.registry.readers, l.writer.Names.Holder); carried {
		return hold.Lease{}, true, errs.ErrUpgrade
	}
	return hold.Lease{}, false, nil
}

// enterToRead enters the lease that ctx carries, a writer's or a reader's. It tries the writer's first: if that
// is downgraded meanwhile, the second try finds it.
func (l *Lock) enterToRead(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	if err = l.root().CheckArgs(); err != nil {
		return hold.Lease{}, false, err
	}
	lease, carried, err = l.writer.Enter(ctx, &l.registry.writers)
	if carried || err != nil {
		return lease, carried, err
	}
	return l.writer.Enter(ctx, &l.registry.readers)
}

// shareKey returns the terms by which readers share a hold. It is zero if the time of each reader counts from its own beginning, or
// if each waits for replicas.
func shareKey(s *session.Resolved) waitroom.ShareKey {
	terms := s.Terms
	if terms.Fixed || terms.MaxHold > 0 || s.Replicas.Count > 0 {
		return waitroom.ShareKey{}
	}
	return waitroom.ShareKey{Policy: waitroom.Shared, Concurrent: true, Lease: terms.Lease, FirstLease: terms.First()}
}
