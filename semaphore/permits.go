// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"iter"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Permits is some permits of a semaphore with the methods of a lock, for package multilock. The method
// Permits of a Semaphore makes one; the zero Permits is of no use.
type Permits struct {
	semaphore *Semaphore
	n         int
}

// Permits returns n permits, 1 or more, as a lock. One multilock acquires permits of a semaphore once.
func (s *Semaphore) Permits(n int) Permits { return Permits{s, n} }

// Lock is Acquire. If ctx carries a lease of the semaphore, of any number of permits, Lock enters it
// again, as a lock would: a caller that acquires several locks again under its own context acquires no
// further permits.
func (p Permits) Lock(ctx context.Context) (signalbox.Lease, error) {
	if lease, carried, err := p.enter(ctx); carried {
		return signalbox.Lease(lease), p.semaphore.root().Explain("acquire", err)
	}
	return p.semaphore.Acquire(ctx, p.n)
}

// TryLock is TryAcquire, and enters again as Lock does.
func (p Permits) TryLock(ctx context.Context) (signalbox.Lease, error) {
	if lease, carried, err := p.enter(ctx); carried {
		return signalbox.Lease(lease), p.semaphore.root().Explain("try acquire", err)
	}
	return p.semaphore.TryAcquire(ctx, p.n)
}

// Check returns the error in the semaphore or the number of permits, or nil.
func (p Permits) Check() error {
	if err := p.semaphore.Check(); err != nil {
		return err
	}
	return p.semaphore.root().Explain("check", checkCapacity(p.n))
}

// Place returns the position of the semaphore in the order of all locks.
func (p Permits) Place() signalbox.Place {
	return p.semaphore.root().Place(kind, session.PermitAccess, nil)
}

// enter enters the lease that ctx carries, if it carries one of the semaphore, which carried reports.
func (p Permits) enter(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	s := p.semaphore
	if err = s.root().CheckContext(ctx); err != nil {
		return hold.Lease{}, true, err
	}
	outer, carried := hold.Carried(ctx, &s.registry.scope, s.single.Names.Holder)
	if !carried {
		return hold.Lease{}, false, nil
	}
	lease, err = outer.Reenter()
	return lease, true, err
}

// kindMember is the member by which the key of a semaphore says its kind.
const kindMember = "sb1s"

// Holder describes a hold of permits, as the server saw it at one moment. It is for people and for
// monitoring. Only a lease says that something is held.
type Holder struct {
	// Permits is how many it holds. A session that acquired several times has as many holds.
	Permits int
	// Label is the label of its session; see signalbox.WithLabel. It is not verified.
	Label string
	// Session is the id of its session.
	Session string
	// Until is when the permits are free unless the lease is renewed, by the server's clock.
	Until time.Time
}

// Holders returns the holders of permits, in all processes, in the order in which their holds end. One round
// trip for 100 holds. They are renewed and released meanwhile, so together they are a picture and no promise.
// An error ends the sequence.
func (s *Semaphore) Holders(ctx context.Context) iter.Seq2[Holder, error] {
	return func(yield func(Holder, error) bool) {
		err := s.root().CheckArgs()
		if err == nil {
			err = s.single.EachHold(ctx, s.table.List, s.single.Names.Holder, kindMember, func(_ *proto.HoldsListed, hold proto.ListedHold) bool {
				return yield(s.holderOf(hold.Name, hold.Ends), nil)
			})
		}
		if err != nil {
			yield(Holder{}, s.root().Explain("holders", err))
		}
	}
}

func (s *Semaphore) holderOf(name string, until wire.Stamp) Holder {
	var h Holder
	h.Permits, h.Label, h.Session = s.table.ParseHold(s.single.Session.ID(), name)
	if until > 0 {
		h.Until = until.Time()
	}
	return h
}
