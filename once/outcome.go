// SPDX-License-Identifier: Apache-2.0

package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// storedOutcome is what the server has for the key.
type storedOutcome struct {
	stored  bool
	stamp   string
	value   string
	request int // the number of the request that brought it, if it was sent for the calls of a flight
}

// foreign says that the key of the outcome is another program's.
func foreign() error { return fmt.Errorf("%w: the key is not an outcome's", errs.ErrWrongKind) }

// fetchOutcome asks for the outcome until the server replies, or ctx ends.
func (o *Once) fetchOutcome(ctx context.Context) (found storedOutcome, err error) {
	err = o.repeatUntilReply(ctx, func() (err error) {
		found, err = o.readOutcome(ctx)
		return err
	})
	return found, err
}

func (o *Once) readOutcome(ctx context.Context) (storedOutcome, error) {
	reply, err := o.base.Session.Runner.Run(ctx, wire.Call{Script: proto.OnceReadScript, Keys: []string{o.outcomeKey}})
	outcome := proto.ReadOnceOutcome(&reply)
	switch {
	case err != nil:
		return storedOutcome{}, err
	case outcome.Code == wire.Foreign:
		return storedOutcome{}, foreign()
	}
	return storedOutcome{stored: outcome.Code == wire.Done, stamp: outcome.Stamp, value: outcome.Value}, nil
}

// forget deletes the outcome that it finds.
func (o *Once) forget(ctx context.Context) error {
	found, err := o.fetchOutcome(ctx)
	if err != nil || !found.stored {
		return err
	}
	return o.repeatUntilReply(ctx, func() error {
		reply, err := o.base.Session.Runner.Run(ctx, wire.Call{
			Script: proto.OnceForgetScript, Keys: []string{o.outcomeKey}, Args: proto.OnceForget{Stamp: found.stamp}.AppendTo(nil),
		})
		if err == nil && reply.Code() == wire.Foreign {
			err = foreign()
		}
		return err
	})
}

// repeatUntilReply takes a step that can be repeated, until the server replies or ctx ends.
func (o *Once) repeatUntilReply(ctx context.Context, step func() error) error {
	if err := o.root().Ready(ctx); err != nil {
		return err
	}
	return o.base.Session.RepeatUntilReply(ctx, o.registry.refused, step)
}

// store stores the value of a run. The server decides whether the hold of lease still has the lock, so
// it is asked also if the lease has ended here. other is the outcome of another run, if that is stored.
func (o *Once) store(ctx context.Context, e *execution, value string) (other storedOutcome, err error) {
	f, lease := e.flight, e.lease
	request := o.registry.nextRequest(f)
	reply, shortfall, err := o.sendStore(ctx, e, wire.Call{
		Script: proto.OnceStoreScript,
		Keys:   []string{o.outcomeKey, o.base.Names.Holder},
		Args: proto.OnceStore{
			Stamp: wire.StampOf(lease.Token()).Text(), KeepMS: o.keep, Value: value, Verb: o.base.Session.PublishCommand(), Channel: o.storedChannel,
			ID: hold.Lease(lease).ID()[:proto.HoldSize],
		}.AppendTo(nil),
	})
	stored := proto.ReadOnceStored(&reply)
	switch {
	case err != nil:
		return storedOutcome{}, err
	case stored.Code == wire.Done:
		o.registry.deliver(f, request, value)
		return storedOutcome{}, shortfall
	case stored.Code == wire.NotDone && stored.Other:
		other = storedOutcome{stored: true, value: stored.Value}
		o.registry.deliver(f, request, other.value)
		return other, stale(lease)
	case stored.Code == wire.NotDone:
		return storedOutcome{}, stale(lease)
	}
	return storedOutcome{}, foreign()
}

// stale is the error of a store under a hold that had ended.
func stale(lease signalbox.Lease) error {
	return fmt.Errorf("%w: %w", errs.ErrStale, cmp.Or(acquire.WithoutOp(lease.Err()), errs.ErrLostGone))
}

// sendStore sends a store until the server replies, until waiting cannot help, or until the lease has been
// over for as long as Unlock waits. ctx does not end. shortfall says that too few replicas have what it wrote.
func (o *Once) sendStore(ctx context.Context, e *execution, call wire.Call) (reply wire.Reply, shortfall, err error) {
	s := o.base.Session
	storing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(e.lease.Bind(ctx), func() {
		last, end := errs.WithTimeout(storing, s.UnlockPatience)
		defer end()
		<-last.Done() // also when the store is over
		cancel(context.Cause(last))
	})
	defer stop()
	uncertain := false // a call that was sent has no known outcome
	for fails := 0; ; fails++ {
		if o.base.Replicas.Count > 0 {
			reply, shortfall, err = s.RunReplicated(storing, call, o.base.Replicas)
		} else {
			reply, err = s.Runner.Run(storing, call)
		}
		if err == nil {
			return reply, shortfall, nil
		}
		// Also after a denial: the function would run again if its outcome were not stored.
		if wire.Judge(err) == wire.Final && !errors.Is(err, errs.ErrDenied) {
			return wire.Reply{}, nil, withUncertainty(uncertain, err)
		}
		uncertain = uncertain || wire.MayHaveRun(err)
		e.storeFailed(err)
		if s.BackOff(storing, fails, nil); storing.Err() != nil {
			return wire.Reply{}, nil, withUncertainty(uncertain, err)
		}
	}
}

// withUncertainty returns err, and says so if the store may have been done.
func withUncertainty(uncertain bool, err error) error { //nolint:revive // a fact, not a switch
	if !uncertain {
		return err
	}
	return fmt.Errorf("%w: the outcome may be stored or not: %w", errs.ErrUnconfirmed, err)
}
