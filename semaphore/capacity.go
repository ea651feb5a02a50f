// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

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
