// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Base is what locks of every kind share: the checked arguments of New, entering a lease that a context
// carries, asking the server for the holder, and the wording of errors. Make writes it; afterwards it is only
// read. If what New was given is no lock, the Err of its settings is the error of every call.
type Base struct {
	*session.Resolved

	Session *session.Session
	Name    string // the name of the lock in errors
	Names   proto.Set
}

// Make returns the base of the lock name, of a kind. Nothing is sent.
func Make(s *signalbox.Session, name string, kind *proto.Kind, options []signalbox.LockOption) Base {
	var b Base
	b.make(s, name, kind, options)
	return b
}

// make makes b what Make returns. Its frame is small, and so are those below it: a goroutine that makes a lock and then waits
// for it keeps the largest stack that it had, since the runtime halves only stacks of which less than a quarter is used.
func (b *Base) make(s *signalbox.Session, name string, kind *proto.Kind, options []signalbox.LockOption) {
	b.Session = (*session.Handle)(s).Session()
	b.Name = b.Session.DisplayName(name)
	if err := b.Session.Valid(); err != nil {
		b.Fail(err)
		return
	}
	if len(options) == 0 {
		b.Resolved = b.Session.DefaultsOf(kind)
	} else {
		b.Resolved = session.ResolveOptions(b.Session, kind, options)
	}
	isLate := !b.Session.Runner.IsConnected() // before: the first connection may come meanwhile
	var err error
	b.Names, err = b.Session.Names(b.Layout, name)
	if isLate {
		b.RefuseInCluster(b.Session.NamesInCluster(b.Layout, name))
	}
	if err = errs.Join(err, b.Err); err == nil && !kind.Has(b.Layout) {
		err = lacksLayout(kind, b.Layout)
	}
	if err = cmp.Or(err, b.Unsupported); err != nil {
		b.Fail(err)
	}
	if i := strings.Index(b.Names.Holder, b.Name); i >= 0 {
		b.Name = b.Names.Holder[i : i+len(b.Name)] // so that nothing keeps the text of the caller
	}
}

// Fail makes err the error of every call. The settings may be those of other locks, so b gets settings of its own.
func (b *Base) Fail(err error) {
	var failed session.Resolved
	if b.Resolved != nil {
		failed = *b.Resolved
	}
	failed.Err = err
	b.Resolved = &failed
}

// RefuseInCluster makes err, if it is not nil, the error of every call if the server is a cluster, which is not known before the first
// connection.
func (b *Base) RefuseInCluster(err error) {
	if err == nil || b.Session.Runner.IsConnected() && !b.Session.Runner.Clustered() {
		return
	}
	refused := *b.Resolved
	refused.ErrInCluster = cmp.Or(refused.ErrInCluster, err)
	b.Resolved = &refused
}

func lacksLayout(kind *proto.Kind, l *proto.Layout) error {
	return fmt.Errorf("%w: %s has no layout of %s", errs.ErrBadOption, kind.Name, l.Name)
}

// CheckArgs returns the error in the arguments of New, or that b belongs to a lock that no New made, or nil.
func (b *Base) CheckArgs() error {
	if b.Resolved == nil {
		return fmt.Errorf("%w: the lock was not made by New", errs.ErrBadOption)
	}
	if b.Err == nil && b.ErrInCluster != nil && b.Session.Runner.Clustered() {
		return b.ErrInCluster
	}
	return b.Err
}

// Check returns what is wrong with the name, the options or the session, or nil. Before the first connection it does not know whether
// the name suits a cluster.
func (b *Base) Check() error {
	err := b.CheckArgs()
	if err == nil {
		err = b.Session.Ready()
	}
	return b.Explain("check", err)
}

// BeginCall reports that a call asks for the lock under ctx, which is not nil. It returns nil without an observer.
func (b *Base) BeginCall(ctx context.Context) *observe.Call {
	if o := b.Session.Settings.Observer; o != nil {
		return o.Begin(ctx, b.Labels(), false)
	}
	return nil
}

// BeginSharedCall is BeginCall for a lock that others can have beside the caller.
func (b *Base) BeginSharedCall(ctx context.Context) *observe.Call {
	if o := b.Session.Settings.Observer; o != nil {
		return o.Begin(ctx, b.Labels(), true)
	}
	return nil
}

// Member returns the reports of a member of the group, whose hooks are called with ctx; nil without an observer.
func (b *Base) Member(ctx context.Context) *observe.MemberReports {
	return b.Session.Settings.Observer.Member(ctx, b.Labels())
}

// Labels returns what observers and logs call the lock.
func (b *Base) Labels() observe.Labels {
	return observe.Labels{Kind: b.Kind.Name, Class: b.Class, Name: b.Name}
}

// ReportForced returns err, and reports a ForceUnlock if it is nil.
func (b *Base) ReportForced(ctx context.Context, err error) error {
	if err == nil {
		b.Session.Settings.Observer.OnForced(ctx, b.Labels())
	}
	return err
}

// LogLost logs that a lease was lost. Close logs those that it ends by itself. If the lease is unlocked already, Unlock
// returns what became of the hold: while the server is asked whether to hand permits over, it may release them, and a
// renewal finds them gone before that reply is read.
func (b *Base) LogLost(end hold.End) {
	if end.Leased && !errors.Is(end.Cause, errs.ErrClosed) {
		b.Session.Logs.Lost(b.Labels(), end)
	}
}

// LogFailed logs the error of a function of the caller's that no call returns.
func (b *Base) LogFailed(err error) { b.Session.Logs.Failed(b.Labels(), err) }

// Unconfirmed returns the error of a release to which the server did not reply, whose key ends by keyEnds, and logs it.
func (b *Base) Unconfirmed(keyEnds timers.Instant, err error) error {
	b.Session.Logs.Unconfirmed(b.Labels(), err)
	return &signalbox.UnconfirmedError{KeyEnds: keyEnds.Time(), Err: err}
}

// CheckContext returns what is wrong with the lock or with ctx, or nil.
func (b *Base) CheckContext(ctx context.Context) error {
	err := b.CheckArgs()
	if err == nil && ctx == nil {
		err = fmt.Errorf("%w: the context is nil", errs.ErrBadOption)
	}
	return err
}

// Ready returns why the server cannot be asked under ctx, or nil.
func (b *Base) Ready(ctx context.Context) error {
	if err := b.CheckContext(ctx); err != nil {
		return err
	}
	if err := b.Session.Ready(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errs.Ended(ctx)
	}
	return nil
}

// Connect is Ready for a call that asks the server once: it joins an attempt to make the first connection.
func (b *Base) Connect(ctx context.Context) error {
	err := b.Ready(ctx)
	if err == nil && !b.Session.Runner.IsConnected() {
		err = cmp.Or(CutShort(ctx, b.Session.Runner.Connect(ctx)), b.CheckArgs())
	}
	return err
}

// Await is Ready for a call that asks the server until it replies: it waits for the first connection.
func (b *Base) Await(ctx context.Context) error {
	err := b.Ready(ctx)
	if err == nil && !b.Session.Runner.IsConnected() {
		err = cmp.Or(b.Session.AwaitConnection(ctx), b.CheckArgs())
	}
	return err
}

// Enter returns a lease of scope by the one that ctx carries, if it does, and whether it does.
func (b *Base) Enter(ctx context.Context, scope *hold.Scope) (lease hold.Lease, carried bool, err error) {
	if err = b.CheckContext(ctx); err != nil {
		return hold.Lease{}, false, err
	}
	outer, carried := hold.Carried(ctx, scope, b.Names.Holder)
	if !carried {
		return hold.Lease{}, false, b.Ready(ctx)
	}
	lease, err = outer.Reenter()
	if err == nil && isDone(ctx) {
		_ = lease.Unlock() // beside the outer one: no more than a count
		return hold.Lease{}, true, errs.Ended(ctx)
	}
	return lease, true, err
}

// isDone reports whether ctx has ended. It skips the clock check in the Err method of a lease's context,
// because entering the lease has just made that check.
func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// Place returns the position of the lock in the order of all locks; acquirer acquires it together with others, or is
// nil. An invalid lock has no position.
func (b *Base) Place(kind string, access session.Access, acquirer session.ManyAcquirer) signalbox.Place {
	if b.CheckArgs() != nil {
		return signalbox.Place{}
	}
	return signalbox.Place(session.Place{
		Session: b.Session, Slot: b.Names.Slot, Key: b.Names.Holder, Kind: kind, Name: b.Name, Class: b.Class, Access: access, Acquirer: acquirer,
	}.Handle())
}

// Evict ends a hold of the lock for cause, as Close does with leases that it does not wait for. A
// hold that begins after that is ended by the call that begins it, and is not logged: no program
// forgot it.
func (b *Base) Evict(h *hold.Hold, cause error) {
	if lasted, evicted := h.Evict(cause); evicted {
		b.Session.Logs.Left(b.Labels(), lasted)
	}
}

// Explain gives an error the operation and the name.
func (b *Base) Explain(op string, err error) error {
	if err == nil {
		return nil
	}
	if b.Session != nil && (errors.Is(err, errs.ErrRefused) || errors.Is(err, errs.ErrDenied) || errors.Is(err, errs.ErrUnsupported)) {
		b.Session.Logs.Refused(b.Labels(), op, err)
	}
	return b.Named(op, err)
}

// Named implements hold.Namer for the owners of the lock's holds. Without an operation the error says what has ended.
func (b *Base) Named(op string, err error) error {
	switch {
	case op == "" && b.Resolved == nil:
		op = proto.Reentrant.Lost
	case op == "":
		op = cmp.Or(b.Kind.Lost, b.Kind.Name)
	case op == "unlock" && b.Resolved != nil:
		op = cmp.Or(b.Kind.Release, op)
	}
	return &signalbox.OpError{Op: op, Name: b.Name, Err: WithoutOp(err)}
}

// WithoutOp returns err without the operation and the name, if it begins with them.
func WithoutOp(err error) error {
	if op, is := err.(*signalbox.OpError); is { //nolint:errorlint // the outermost one alone
		return op.Err
	}
	return err
}

// ErrNoFunc is the error of a Do that has nothing to run.
var ErrNoFunc = fmt.Errorf("%w: the function is nil", errs.ErrBadOption)

// LockFunc acquires a lock, and waits for it.
type LockFunc func(context.Context) (hold.Lease, error)

// Do acquires the lock with acquire, runs fn and releases the lock, also if fn panics or ends its goroutine.
func (b *Base) Do(ctx context.Context, acquire LockFunc, fn func(context.Context, signalbox.Lease) error) error {
	return b.DoAs(ctx, "lock", acquire, fn)
}

// DoAs is Do with an acquire function that errors call op.
func (b *Base) DoAs(ctx context.Context, op string, acquire LockFunc, fn func(context.Context, signalbox.Lease) error) (err error) {
	if fn == nil {
		return b.Explain(op, cmp.Or(b.Ready(ctx), ErrNoFunc))
	}
	lease, err := acquire(ctx)
	if err != nil {
		return b.Explain(op, err)
	}
	defer func() { err = errs.Join(err, b.Explain("unlock", lease.Unlock())) }()
	return fn(lease.Enter(ctx), signalbox.Lease(lease))
}

// Locker returns a sync.Locker that acquires the lock with acquire.
func (b *Base) Locker(ctx context.Context, acquire LockFunc) *signalbox.Locker {
	return b.LockerAs(ctx, "lock", acquire)
}

// LockerAs is Locker with an acquire function that errors call op.
func (b *Base) LockerAs(ctx context.Context, op string, acquire LockFunc) *signalbox.Locker {
	return (*signalbox.Locker)(hold.NewSyncLocker(ctx, b.logRetried, func(ctx context.Context) (hold.Lease, error) {
		lease, err := acquire(ctx)
		return lease, b.Explain(op, err)
	}))
}

func (b *Base) logRetried(err error) { b.Session.Logs.Retried(b.Labels(), err) }

// Holder asks the server for the holder of the lock. It returns ErrNotHeld if the lock is free.
func (b *Base) Holder(ctx context.Context) (signalbox.Holder, error) {
	h, err := b.holder(ctx)
	return signalbox.Holder(h), b.Explain("holder", err)
}

// IsLocked asks the server whether a process holds the lock.
func (b *Base) IsLocked(ctx context.Context) (bool, error) {
	_, err := b.holder(ctx)
	if errors.Is(err, errs.ErrNotHeld) {
		return false, nil
	}
	return err == nil, b.Explain("is locked", err)
}

func (b *Base) holder(ctx context.Context) (proto.HolderInfo, error) {
	if err := b.Connect(ctx); err != nil {
		return proto.HolderInfo{}, err
	}
	h, err := b.Session.Holder(ctx, b.Layout, b.Names.Holder)
	return h, CutShort(ctx, err)
}

// HoldsPage is how many holds one script lists.
const HoldsPage = 100

// EachHold calls yield for each hold of the lock, with the list that it is in, until it returns false.
func (b *Base) EachHold(ctx context.Context, lister *proto.HoldLister, yield func(list *proto.HoldsListed, hold proto.ListedHold) bool) error {
	for from := 0; ; from += HoldsPage {
		if err := b.Connect(ctx); err != nil {
			return err
		}
		reply, err := b.Session.Runner.Run(ctx, lister.ListCall(b.Names.Holder, from, HoldsPage))
		if err != nil {
			return CutShort(ctx, err)
		}
		list, err := proto.ReadHoldsListed(&reply)
		if err != nil {
			return err
		}
		for _, hold := range list.Holds {
			if !yield(&list, hold) {
				return nil
			}
		}
		if len(list.Holds) < HoldsPage {
			return nil
		}
	}
}

// ForceUnlock takes the lock from its holder, if the hold is of one of these kinds. newCall
// returns the call that takes the hold and reports it on the channel.
func (b *Base) ForceUnlock(ctx context.Context, kinds string, newCall func(hold, channel string) wire.Call) error {
	err := b.Connect(ctx)
	if err == nil {
		err = b.Session.Force(ctx, session.ForceRequest{Layout: b.Layout, Key: b.Names.Holder, CompatibleKinds: kinds, Call: newCall})
	}
	return b.Explain("force unlock", b.ReportForced(ctx, CutShort(ctx, err)))
}

// CutShort returns err, or the cause of ctx if that ended the call.
func CutShort(ctx context.Context, err error) error {
	if err != nil && ctx != nil && ctx.Err() != nil && wire.Judge(err) == wire.Unknown {
		return errs.Ended(ctx)
	}
	return err
}
