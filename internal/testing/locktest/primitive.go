// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"testing"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/setnx"
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

// Heartbeats returns the key of the heartbeats of the sessions in that queue.
func (p Primitive) Heartbeats(name string) string {
	switch p.Name {
	case semaphoreName:
		return Keys(name).PermitsHeartbeats()
	case writerName, readerName:
		return Keys(name).RWHeartbeats()
	}
	return Keys(name).HeartbeatsKey()
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
