// SPDX-License-Identifier: Apache-2.0

package once

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Func is what runs once. It runs for all callers, on a goroutine of its own: it may still run when the Do
// that began it has returned. So it must not write to variables of that caller.
//
// Its context has the values of the context of that Do, without its end and without the leases that it
// carries: those are the caller's. It ends when the lease can no longer be trusted; when no call of the
// session has waited for the time of Linger; and in Close, at once if no call waits, else after the grace.
// The lease has the fencing token. The value has at most MaxValue bytes.
type Func func(ctx context.Context, lease signalbox.Lease) (value []byte, err error)

// Once is one key, as one session sees it. Values with the same key in one session are the same. It
// is safe for concurrent use. New makes one; the zero Once is of no use.
type Once struct {
	base     acquire.Base
	claim    *fair.Lock // held by the call that runs the function
	registry *runRegistry

	outcomeKey, storedChannel string // the key, and the channel on which a store is announced
	keep                      string // the time for which the outcome is kept, in milliseconds

	session *signalbox.Session // the arguments of New, for At
	key     string
	options []signalbox.LockOption
}

// New returns the key of the session. It sends nothing and never fails: if the key or an option is
// not valid, every call returns the error, and so does Check.
//
// Its options are Keep, Linger, and of the lock that a running call holds: signalbox.WithRenewedLease,
// WithFixedLease, WithMaxHold, WithReplicas, WithFirstLease and WithTokenFloor. With WithReplicas the outcome, too, is
// confirmed by so many replicas. Any other option is ErrBadOption.
func New(s *signalbox.Session, key string, options ...signalbox.LockOption) *Once {
	o := &Once{
		base:    acquire.Make(s, key, &proto.Once, options),
		session: s, key: key, options: options,
	}
	if o.base.Err != nil {
		return o
	}
	o.claim = fair.New(s, key, o.forClaim)
	o.registry = runRegistryOf(o.base.Session)
	o.outcomeKey, o.storedChannel = o.base.Names.Outcome(), o.base.Names.Stored()
	o.keep = wire.Milliseconds(cmp.Or(o.base.Outcome, DefaultKeep))
	return o
}

func (o *Once) forClaim(l *session.LockSettings) {
	session.Apply(l, o.options)
	l.FirstLease = o.base.Terms.FirstLease // a fair lock's own is shorter
	l.Given &^= proto.OptionKeepOutcome | proto.OptionLinger
	l.ParentKind = &proto.Once
}

// At returns the key of one tick of a schedule: "<key>@<tick in UTC>". Pass the time for which the
// run was scheduled, not the time at which it began: then each tick runs once, whatever the clocks
// of the processes say. If only the present time is known, round it to the period:
//
//	job.At(time.Now().Round(time.Minute)).Do(ctx, fn)
//
// This is right as long as no clock is wrong by half a period. The zero time is ErrBadOption, and so is one
// before the year 1 or after the year 9999.
func (o *Once) At(tick time.Time) *Once {
	if o.root().CheckArgs() != nil {
		return o
	}
	tick = tick.UTC()
	at := New(o.session, o.key+"@"+tick.Format(time.RFC3339Nano), o.options...)
	if year := tick.Year(); tick.IsZero() || year < 1 || year > 9999 {
		at.base.Fail(fmt.Errorf("%w: the time of a tick is zero, or not of the years 1 to 9999", errs.ErrBadOption))
	}
	return at
}

// Check returns what is wrong with the key, the options or the session, or nil. It sends nothing.
func (o *Once) Check() error { return o.root().Check() }

// Do returns the stored outcome, or runs fn and stores its value. ran reports whether this call ran
// fn. If another call is running its function, in any process, Do blocks until that one is done and
// returns its value; if that one fails, Do runs fn.
//
// ctx bounds the waiting of this call, and nothing else. When it ends, Do returns its error at once. If fn runs
// then, ran is true and fn continues: see Func. Its value is stored, and the next Do returns it. A Do whose ctx
// has ended begins no function.
//
// An error of fn is returned as it is, and nothing is stored. If fn panics, nothing is stored either, and the
// panic continues in Do, with the same value; the stack of fn is logged. If fn ends its goroutine, so does Do.
// In all three cases the next caller runs its function. If Do has returned before, the error is logged.
//
// If fn returned a value that could not be stored, Do returns an error:
//
//   - signalbox.ErrStale: the lease was lost before. If another call has stored its outcome meanwhile, value
//     is that outcome, otherwise nil.
//   - ErrTooLarge: value has more than MaxValue bytes.
//   - ErrNotReplicated: it is stored, but fewer replicas than WithReplicas asks for confirmed it.
//   - ErrUnconfirmed: the server did not reply, so it may be stored or not. value is fn's.
//   - ErrRefused and other errors: value is fn's, and is not stored.
//
// The value is tried to be stored, also after an ErrDenied, as long as the lease lives, and for one second after that. Do
// in fn with the context of fn returns ErrHeld: fn would wait for itself.
func (o *Once) Do(ctx context.Context, fn Func) (value []byte, ran bool, err error) {
	r, err := o.do(ctx, fn)
	return r.value, r.ran, o.explain("do", r, err)
}

// TryDo is Do for a caller that does not wait for others: it returns ErrHeld at once if another call runs its function, or is about
// to, in any process. If it runs fn it waits for that until ctx ends, as Do does. While the server is away it fails as TryLock does. If
// its lease is lost before fn begins, it returns ErrLost and runs nothing. One round trip if an outcome is stored, three if another call
// runs, four and the release if fn runs.
//
// An HTTP handler returns 409 Conflict for ErrHeld, so that the client tries again.
func (o *Once) TryDo(ctx context.Context, fn Func) (value []byte, ran bool, err error) {
	r, err := o.tryDo(ctx, fn)
	return r.value, r.ran, o.explain("try do", r, err)
}

// Holder returns who runs the function of the key, or is about to, as the server knows it, or ErrNotHeld. One round trip, without a
// second try.
func (o *Once) Holder(ctx context.Context) (signalbox.Holder, error) {
	if err := o.root().CheckArgs(); err != nil {
		return signalbox.Holder{}, o.root().Explain("holder", err)
	}
	return o.claim.Holder(ctx)
}

// Get returns the stored outcome, and whether there is one. It waits for a server that is away, and
// for nothing else. One round trip.
func (o *Once) Get(ctx context.Context) (value []byte, stored bool, err error) {
	found, err := o.fetchOutcome(ctx)
	if err != nil || !found.stored {
		return nil, false, o.root().Explain("get", err)
	}
	return []byte(found.value), true, nil
}

// Forget deletes the stored outcome, so that the next Do runs its function. It does not stop a call
// that is running its function: that one stores its outcome. It deletes the outcome that it finds,
// and none that was stored since, however often it is sent. Without an outcome it returns nil. Two
// round trips; one without an outcome. While the server is away, or refuses for now, Forget waits.
func (o *Once) Forget(ctx context.Context) error {
	return o.root().Explain("forget", o.forget(ctx))
}

// explain gives an error the operation and the key, unless it is that of the function.
func (o *Once) explain(op string, r callResult, err error) error {
	if r.failed {
		return err
	}
	return o.root().Explain(op, err)
}

// root returns the base. A nil Once has an empty one, whose calls return ErrBadOption.
func (o *Once) root() *acquire.Base {
	if o == nil {
		return new(acquire.Base)
	}
	return &o.base
}

const (
	// MaxValue is the size of the largest value, in bytes.
	MaxValue = 1 << 20
	// DefaultKeep is how long an outcome is kept unless Keep says otherwise.
	DefaultKeep = 24 * time.Hour

	// DefaultLinger is how long a function continues without a caller unless Linger says otherwise.
	DefaultLinger = session.DefaultLinger

	minKeep = time.Second
	maxKeep = 30 * 24 * time.Hour
)

// Keep sets how long the server keeps the outcome after it was stored: 24 hours by default. After that
// the next Do runs the function again. So d must be longer than a caller for the same period can be
// late. d is from 1 s to 30 days. The option of the call that ran the function counts.
func Keep(d time.Duration) signalbox.LockOption {
	return session.Option(proto.OptionKeepOutcome, session.CheckRange("to keep an outcome for %v", d, minKeep, maxKeep), func(l *session.LockSettings) {
		l.Outcome = d
	})
}

// Linger sets how long a function may continue after every call of its session that waited for it has returned,
// because its context ended: 5 minutes by default. Then the function's context ends. A call for the key that
// comes meanwhile waits for the function, and starts the time anew when it leaves. With 0 the function's
// context ends with the last call. d is from 0 to 30 days. The option of the call that runs the function counts.
//
// Linger does not bound a function for which a call waits. signalbox.WithMaxHold does.
func Linger(d time.Duration) signalbox.LockOption {
	var err error
	if d < 0 || d > maxKeep {
		err = fmt.Errorf("%w: to let a function continue for %v without a caller: it must be from 0 to %v", errs.ErrBadOption, d, maxKeep)
	}
	return session.Option(proto.OptionLinger, err, func(l *session.LockSettings) { l.Linger = d })
}
