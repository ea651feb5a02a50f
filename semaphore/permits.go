// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
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
			err = s.single.EachHold(ctx, &s.table.HoldLister, func(_ *proto.HoldsListed, hold proto.ListedHold) bool {
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

// Available returns how many permits are free, as the server says. Permits of a crashed holder are
// free as soon as its lease has ended. A waiter for more permits than are free keeps others from
// them. If SetCapacity has set fewer permits than are held, Available returns 0. The result may be
// outdated when it is read. One round trip, which writes nothing.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	n, err := s.available(ctx)
	return n, s.root().Explain("available", acquire.CutShort(ctx, err))
}

func (s *Semaphore) available(ctx context.Context) (int, error) {
	if err := s.root().Connect(ctx); err != nil {
		return 0, err
	}
	capacity, used, err := s.usage(ctx)
	if err != nil {
		return 0, err
	}
	if s.single.Exact && capacity != int64(s.capacity) {
		return 0, inexact(capacity)
	}
	return int(max(capacity-used, 0)), nil
}

// usage asks the server for the capacity, and for how many permits are held.
func (s *Semaphore) usage(ctx context.Context) (capacity, used int64, err error) {
	reply, err := s.single.Session.Runner.Run(ctx, wire.Call{Script: s.table.Available, Keys: s.registry.KeysOf(s.single.Names).All[:s.table.AvailableKeys]})
	if err != nil {
		return 0, 0, err
	}
	a := proto.ReadAvailable(&reply)
	if a.Code == wire.Foreign {
		return 0, 0, proto.WrongKind(a.Kind)
	}
	if capacity = a.Capacity; capacity < 0 {
		capacity = int64(s.capacity)
	}
	return capacity, a.Used, nil
}

// SetCapacity sets how many permits there are, for all processes, from 1 to MaxPermits. If the number grows, this call
// grants permits to waiters. If it shrinks, no holder loses a permit: more may be held than there
// are, and none is granted until enough were released. A waiter for more than the new number gets
// ErrCapacity, and does not delay those behind it.
//
// The server keeps the number for at least an hour after the last use of the semaphore, whatever
// WithTokenFloor says.
//
// After an error the capacity may have been set or not; the call is safe to repeat. One round trip.
func (s *Semaphore) SetCapacity(ctx context.Context, n int) error {
	return s.root().Explain("set capacity", acquire.CutShort(ctx, s.setCapacity(ctx, n)))
}

// errLate is the error of a call that the server executed after its not-after.
var errLate = errors.New("the server took too long")

func (s *Semaphore) setCapacity(ctx context.Context, n int) error {
	err := s.root().Connect(ctx)
	if err == nil {
		err = checkCapacity(n)
	}
	if err == nil && !s.table.TotalKnown {
		err = fmt.Errorf("%w: nobody knows how many permits a plain semaphore has", errs.ErrBadOption)
	}
	if err == nil {
		err = s.single.Session.Handshake(ctx, s.single.Names.Holder)
	}
	if err != nil {
		return err
	}
	for range 2 { // the second if the server's clock had to be learnt again
		if err = s.resize(ctx, n); !errors.Is(err, errLate) {
			return err
		}
	}
	return errs.Join(errs.ErrRefused, err)
}

func (s *Semaphore) resize(ctx context.Context, n int) error {
	of, keys := s.single.Session, s.registry.KeysOf(s.single.Names)
	resize := proto.Resize{
		Permits: strconv.Itoa(n), NotAfter: of.NotAfter(s.single.Names.Slot, timers.Now(), session.MaxPatience).Text(),
		Verb: of.PublishCommandsIn(s.single.Layout), Channel: keys.Channel, KeepMS: s.single.Floor,
	}
	reply, err := of.Runner.Run(ctx, wire.Call{Script: s.table.Resize, Keys: keys.All, Args: resize.AppendTo(nil)})
	if err != nil {
		return err
	}
	switch resized := proto.ReadResized(&reply); resized.Code {
	case wire.Late:
		of.Clock.Observe(s.single.Names.Slot, resized.Now, timers.Now())
		return errLate
	case wire.Foreign:
		return proto.WrongKind(resized.Kind)
	default:
		return nil
	}
}
