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
	"github.com/signalbox-go/signalbox/redisson"
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
	r := &resource{capacity: size}
	r.mu.inside = make(map[signalbox.Lease]int)
	return r
}

// enter records that the lease's holder is inside, and returns why it must not be. Holders whose leases
// have ended were notified.
func (r *resource) enter(lease signalbox.Lease, size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := size
	for other, takes := range r.mu.inside {
		if other.Err() == nil {
			used += takes
		}
	}
	r.mu.inside[lease] = size
	if used > r.capacity && lease.Err() == nil {
		return fmt.Errorf("%d are inside, and the capacity is %d", used, r.capacity)
	}
	return nil
}

func (r *resource) leave(lease signalbox.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.inside, lease)
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
	f := &fixture{}
	for i := range names {
		f.lock[i], f.redisson[i] = newResource(1), newResource(1)
		f.rwlock[i], f.semaphore[i] = newResource(readable), newResource(capacity)
	}
	return f
}

// acquisition is what a caller acquires once: one lock, or several, and the resources that they protect.
type acquisition struct {
	kind      resourceKind
	resources []*resource
	capacity  int
	lock      func(ctx context.Context) (signalbox.Lease, error)
	tryLock   func(ctx context.Context) (signalbox.Lease, error)
}

func (f *fixture) choose(s *signalbox.Session) acquisition {
	k, i := resourceKind(rand.N(int(kinds))), rand.N(names)
	name := fmt.Sprintf("mixed/%v/%d", k, i)
	switch k {
	case redissons:
		l := reentrant.New(s, name, signalbox.WithLayout(redisson.Layout()))
		return acquisition{k, []*resource{f.redisson[i]}, 1, l.Lock, l.TryLock}
	case fairs:
		l := fair.New(s, fmt.Sprint("mixed/lock/", i))
		return acquisition{k, []*resource{f.lock[i]}, 1, l.Lock, l.TryLock}
	case writers:
		l := rwlock.New(s, fmt.Sprint("mixed/rwlock/", i))
		return acquisition{k, []*resource{f.rwlock[i]}, readable, l.Lock, l.TryLock}
	case readers:
		l := rwlock.New(s, fmt.Sprint("mixed/rwlock/", i))
		return acquisition{k, []*resource{f.rwlock[i]}, 1, l.RLock, l.TryRLock}
	case permits:
		n := 1 + rand.N(capacity)
		p := semaphore.New(s, name, capacity).Permits(n)
		return acquisition{k, []*resource{f.semaphore[i]}, n, p.Lock, p.TryLock}
	case several:
		j := (i + 1 + rand.N(names-1)) % names
		l := multilock.New(reentrant.New(s, fmt.Sprint("mixed/lock/", i)), fair.New(s, fmt.Sprint("mixed/lock/", j)))
		return acquisition{k, []*resource{f.lock[i], f.lock[j]}, 1, l.Lock, l.TryLock}
	default:
		l := reentrant.New(s, fmt.Sprint("mixed/lock/", i))
		return acquisition{k, []*resource{f.lock[i]}, 1, l.Lock, l.TryLock}
	}
}
