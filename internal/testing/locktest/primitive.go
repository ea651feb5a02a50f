// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"testing"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/setnx"
	"github.com/signalbox-go/signalbox/shards"
)

// Lock is the part of their surface that all kinds of lock share.
type Lock interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
	TryLock(ctx context.Context) (signalbox.Lease, error)
	Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error
}

// Forcible is a lock that reports its holder, and whose hold can be removed by force.
type Forcible interface {
	Lock
	Holder(ctx context.Context) (signalbox.Holder, error)
	IsLocked(ctx context.Context) (bool, error)
	ForceUnlock(ctx context.Context) error
}

// writerName and readerName are the sides of the read-write lock, which have queues of their own.
const writerName, readerName = "rwlock", "rwlock reader"

// Primitive is a kind of lock, for suites that test every kind in the same way.
type Primitive struct {
	Name string
	New  func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock
}

// Key returns the key that names the holder of the lock of that name.
func (p Primitive) Key(name string) string {
	if p.Name == semaphoreName {
		return Keys(name).Permits()
	}
	return Key(name)
}

// Queue returns the key of the queue for the lock of that name, if there is one.
func (p Primitive) Queue(name string) string {
	switch p.Name {
	case semaphoreName:
		return Keys(name).PermitsQueue()
	case writerName:
		return Keys(name).Writers()
	case readerName:
		return Keys(name).Readers()
	}
	return Keys(name).QueueKey()
}

// Ordered reports whether the lock is granted in the order of the requests.
func (p Primitive) Ordered() bool { return p.Name != Reentrant().Name }

// Reentrant is the kind of package reentrant.
func Reentrant() Primitive {
	return Primitive{"reentrant", func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock {
		return reentrant.New(s, name, options...)
	}}
}

// RedissonReentrant is the same in the layout of Redisson. It is not among Primitives, because some suites read the keys of
// the library's own layout.
func RedissonReentrant() Primitive {
	return Primitive{"redisson", func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock {
		return reentrant.New(s, name, append(options, signalbox.WithLayout(redisson.Layout()))...)
	}}
}

// SetNX is the same in the layout of clients that write a lock by SET with NX.
func SetNX() Primitive {
	return Primitive{"setnx", func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock {
		return reentrant.New(s, name, append(options, signalbox.WithLayout(setnx.Layout()))...)
	}}
}

// RedissonFair is the fair lock in the layout of Redisson.
func RedissonFair() Primitive {
	return Primitive{"redisson fair", func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock {
		return fair.New(s, name, append(options, signalbox.WithLayout(redisson.Layout()))...)
	}}
}

// Fair is the kind of package fair.
func Fair() Primitive {
	return Primitive{"fair", func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock {
		return fair.New(s, name, options...)
	}}
}

// Writer is the writing side of package rwlock.
func Writer() Primitive {
	return Primitive{writerName, func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock {
		return NewWriteLocker(s, name, options...)
	}}
}

// Reader is the reading side of package rwlock. It excludes only writers, so it is not one of Primitives.
func Reader() Primitive {
	return Primitive{readerName, func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock {
		return ReadLocker{rwlock.New(s, name, options...)}
	}}
}

// Locks returns the kinds whose holders can enter them again. All of them are Forcible.
func Locks() []Primitive { return []Primitive{Reentrant(), Fair(), Writer()} }

// Primitives returns all kinds that have one holder at a time: Locks, and a semaphore of one permit.
func Primitives() []Primitive { return append(Locks(), Permit()) }

// Each runs a test of each kind of lock, all of them at the same time.
func Each(t *testing.T, run func(t *testing.T, p Primitive)) {
	t.Helper()
	for _, p := range Primitives() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			run(t, p)
		})
	}
}

// rw is what the sides embed: a field that is called Lock would hide the method.
type rw = rwlock.Lock

// ReadLocker is a read-write lock whose Lock, TryLock and Do are those of readers.
type ReadLocker struct{ *rw }

// Lock is RLock.
func (r ReadLocker) Lock(ctx context.Context) (signalbox.Lease, error) { return r.RLock(ctx) }

// TryLock is TryRLock.
func (r ReadLocker) TryLock(ctx context.Context) (signalbox.Lease, error) { return r.TryRLock(ctx) }

// Do is RDo.
func (r ReadLocker) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return r.RDo(ctx, fn)
}

// Locker is RLocker.
func (r ReadLocker) Locker(ctx context.Context) *signalbox.Locker { return r.RLocker(ctx) }

// WriteLocker is a read-write lock with a Holder method, as locks with one holder at a time have it.
type WriteLocker struct{ *rw }

// NewWriteLocker returns the lock of that name.
func NewWriteLocker(s *signalbox.Session, name string, options ...signalbox.LockOption) WriteLocker {
	return WriteLocker{rwlock.New(s, name, options...)}
}

// Holder returns the first of Holders, or ErrNotHeld.
func (w WriteLocker) Holder(ctx context.Context) (signalbox.Holder, error) {
	for h, err := range w.Holders(ctx) {
		return h, err
	}
	return signalbox.Holder{}, signalbox.ErrNotHeld
}

// semaphoreName is the name of the kind whose keys belong to no lock.
const semaphoreName = "semaphore"

// Permit is a semaphore of one permit: a lock that cannot be entered again.
func Permit() Primitive {
	return Primitive{semaphoreName, func(s *signalbox.Session, name string, options ...signalbox.LockOption) Lock {
		return permit{semaphore.New(s, name, 1, options...)}
	}}
}

// sem is what permit embeds, so that it has all methods of a semaphore beside those of a lock.
type sem = semaphore.Semaphore

// permit has the methods of a lock.
type permit struct{ *sem }

// Lock acquires the permit.
func (p permit) Lock(ctx context.Context) (signalbox.Lease, error) { return p.Acquire(ctx, 1) }

// TryLock tries to.
func (p permit) TryLock(ctx context.Context) (signalbox.Lease, error) {
	return p.TryAcquire(ctx, 1)
}

// Do runs fn with the permit.
func (p permit) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return p.sem.Do(ctx, 1, fn)
}

// establish gives a server the epoch of one that has had its data for a day.
const establish = `
local life = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local since = string.format('%016.0f', redis.call('TIME')[1] * 1000000 - 86400000000)
return redis.call('SET', KEYS[1], 'sb1e' .. since .. since .. life, 'PX', 604800000)`

// Establish makes a server vote for locks of package redlock at once. A new server votes after one lease.
func Establish(server *redistest.Server) error {
	_, err := server.Do("EVAL", establish, 1, "sb:epoch")
	return err
}

// TakeUp takes up what a member is granted, and releases what it is asked for, until the member has left.
func TakeUp(m *shards.Member) {
	for change := range m.Changes() {
		if change.Kind != shards.Granted {
			_ = change.Shard.Release()
		}
	}
}
