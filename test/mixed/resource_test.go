// SPDX-License-Identifier: Apache-2.0

package mixed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// resource is what a lock protects: it has a capacity, and knows which holders are inside.
type resource struct {
	capacity int
	mu       struct {
		sync.Mutex
		inside map[signalbox.Lease]int // the permits of each lease
	}
}

func newResource(size int) *resource {
	s := &resource{capacity: size}
	s.mu.inside = make(map[signalbox.Lease]int)
	return s
}

// enter records that the lease's holder is inside, and returns why it must not be. Holders whose leases
// have ended were notified.
func (s *resource) enter(lease signalbox.Lease, size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := size
	for other, takes := range s.mu.inside {
		if other.Err() == nil {
			used += takes
		}
	}
	s.mu.inside[lease] = size
	if used > s.capacity && lease.Err() == nil {
		return fmt.Errorf("%d are inside, and the capacity is %d", used, s.capacity)
	}
	return nil
}

func (s *resource) leave(lease signalbox.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.inside, lease)
}

// resourceKind is a kind of lock that protects a resource.
type resourceKind int

const (
	reentrants resourceKind = iota
	redissons
	fairs
	writers
	readers
	permits
	several
	kinds
)

func (k resourceKind) String() string {
	return [...]string{"reentrant", "redisson", "fair", "writer", "reader", "permits", "several"}[k]
}

const (
	names    = 3   // of each kind
	capacity = 3   // permits of a semaphore
	readable = 100 // readers beside each other
)

// fixture has all resources: a lock of one kind and one name protects each.
type fixture struct {
	// A reentrant and a fair lock of one name protect the same resource.
	lock, redisson, rwlock, semaphore [names]*resource
}

func newFixture() *fixture {
	w := &fixture{}
	for i := range names {
		w.lock[i], w.redisson[i] = newResource(1), newResource(1)
		w.rwlock[i], w.semaphore[i] = newResource(readable), newResource(capacity)
	}
	return w
}

// acquisition is what a caller acquires once: one lock, or several, and the resources that they protect.
type acquisition struct {
	kind      resourceKind
	resources []*resource
	capacity  int
	lock      func(ctx context.Context) (signalbox.Lease, error)
	tryLock   func(ctx context.Context) (signalbox.Lease, error)
}

func (w *fixture) choose(s *signalbox.Session) acquisition {
	k, i := resourceKind(rand.N(int(kinds))), rand.N(names)
	name := fmt.Sprintf("mixed/%v/%d", k, i)
	switch k {
	case redissons:
		l := reentrant.New(s, name, signalbox.WithLayout(signalbox.Redisson()))
		return acquisition{k, []*resource{w.redisson[i]}, 1, l.Lock, l.TryLock}
	case fairs:
		l := fair.New(s, fmt.Sprint("mixed/lock/", i))
		return acquisition{k, []*resource{w.lock[i]}, 1, l.Lock, l.TryLock}
	case writers:
		l := rwlock.New(s, fmt.Sprint("mixed/rwlock/", i))
		return acquisition{k, []*resource{w.rwlock[i]}, readable, l.Lock, l.TryLock}
	case readers:
		l := rwlock.New(s, fmt.Sprint("mixed/rwlock/", i))
		return acquisition{k, []*resource{w.rwlock[i]}, 1, l.RLock, l.TryRLock}
	case permits:
		n := 1 + rand.N(capacity)
		p := semaphore.New(s, name, capacity).Permits(n)
		return acquisition{k, []*resource{w.semaphore[i]}, n, p.Lock, p.TryLock}
	case several:
		j := (i + 1 + rand.N(names-1)) % names
		l := multilock.New(reentrant.New(s, fmt.Sprint("mixed/lock/", i)), fair.New(s, fmt.Sprint("mixed/lock/", j)))
		return acquisition{k, []*resource{w.lock[i], w.lock[j]}, 1, l.Lock, l.TryLock}
	default:
		l := reentrant.New(s, fmt.Sprint("mixed/lock/", i))
		return acquisition{k, []*resource{w.lock[i]}, 1, l.Lock, l.TryLock}
	}
}
