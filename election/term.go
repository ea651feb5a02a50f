// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// Term is the time in which a candidate leads. It is a small value, free to copy; all copies are
// the same term, and any goroutine may use it. The zero Term leads nothing: its Err is ErrNotHeld.
//
// A term ends by Resign, or when its lease is about to end: StepDown before that. It also ends if
// the server says that the lock is gone, and with ErrHandover if Handover asks for that.
type Term struct{ term *term }

// Token returns the fencing token of the term. It is greater than those of all terms before. Hand it
// to the resources that the leader changes, and let them refuse smaller ones. The zero Term returns 0.
func (t Term) Token() uint64 {
	if t.term == nil {
		return 0
	}
	return t.term.lease.Token()
}

// Err returns nil while the term lasts, else why it ended: ErrReleased after Resign, ErrHandover, or ErrLost. It
// compares the clock itself: if the term ended while the process was paused, the first call returns that.
func (t Term) Err() error {
	if t.term == nil {
		return errs.ErrNotHeld
	}
	return t.term.err()
}

// Done returns a channel that is closed when the term ends. That of the zero Term is closed.
func (t Term) Done() <-chan struct{} {
	if t.term == nil {
		return signalbox.Lease{}.Done()
	}
	return t.term.root.Done()
}

// Deadline returns until when the term lasts if no renewal succeeds any more, by this host's clock.
// Each renewal moves it. It returns the zero time if the term has ended.
func (t Term) Deadline() time.Time {
	if t.term == nil || t.term.err() != nil {
		return time.Time{}
	}
	at := time.Now() // read before the clock of left, so that a pause between the two makes it too early
	return at.Add(t.term.left())
}

// Bind returns a child of ctx that also ends with the term, before the lease is released.
// context.Cause says why it ended: ErrReleased, ErrHandover or ErrLost. Its Err compares the clock itself. If ctx
// is nil, the context has ended with ErrBadOption as its cause.
//
// It needs no cancel. Contexts that are bound to one term and have the same parent share their
// state, which goes when the term or that parent ends. So bind as often as you like.
func (t Term) Bind(ctx context.Context) context.Context {
	if t.term == nil || ctx == nil {
		return signalbox.Lease{}.Bind(ctx)
	}
	return t.term.bind(ctx)
}

// Resign ends the term, here first and then on the server, which grants the next term to the first
// candidate in the queue. Call it when the work of the term has stopped, also if the term was lost:
// until then the session may keep the lease, so that no other process leads while the work runs. It
// takes no context, so that it works when the caller's context is over.
//
// Resign returns nil if the next candidate can lead, and ErrNotHeld for a term that was resigned before, or the
// zero Term. It returns ErrLost if the term had ended before. If the server does not reply within a
// second it returns *signalbox.UnconfirmedError, and the release is repeated in the background.
func (t Term) Resign() error {
	if t.term == nil {
		return errs.ErrNotHeld
	}
	return t.term.explain("resign", t.term.resign())
}

// SetValue replaces the value of the term, which Leader and Observe return, and notifies observers.
// It has at most MaxValue bytes; a longer one is ErrBadOption. Only the holder of the term can write
// it, and the next term does not inherit it.
//
// While the server is away, or refuses for now, SetValue tries again until ctx ends. After an error
// the value may be written or not, until the next SetValue. It returns ErrLost, ErrReleased or ErrHandover if
// the term is over.
func (t Term) SetValue(ctx context.Context, value string) error {
	if t.term == nil {
		return errs.ErrNotHeld
	}
	return t.term.explain("set value", t.term.setValue(ctx, value))
}

// term is a term that began. It ends once: in err, which finds it over, or in resign.
//
// The lock of a term comes before those of its lease. Nothing calls back under it.
type term struct {
	election *Election
	lease    signalbox.Lease
	hold     string                  // what the server calls the hold
	root     context.Context         //nolint:containedctx // ends with the term, and with the lease
	cancel   context.CancelCauseFunc // ends root
	bonds    hold.Bonds              // the contexts that end with root
	timer    timers.Timer            // the end of the term, or the next write of the value
	// wasWritten says that the background has written the value, while no message could arrive: the term is not new.
	wasWritten atomic.Bool

	mu struct {
		sync.Mutex
		cause    error // why the term ended; nil while it lasts
		resigned bool
		value    string
		number   uint64        // the number of value
		due      time.Duration // monotonic: when the value is to be written
	}
}

// begin makes the term of a lease that was granted.
func (e *Election) begin(lease signalbox.Lease) *term {
	t := &term{election: e, lease: lease, hold: hold.Lease(lease).ID()[:proto.HoldSize]}
	t.root, t.cancel = context.WithCancelCause(lease.Bind(context.Background()))
	t.timer.Init(t)
	if set := &e.base.Terms; set.First() == set.Lease {
		hold.Lease(lease).Hasten(set.Lease) // it may be as short as what was left of a heartbeat's life
	}
	e.registry.addTerm(t)
	t.mu.value, t.mu.number, t.mu.due = e.value, 1, timers.Mono()
	t.Fire() // no other goroutine knows t yet, so this Fire is alone
	return t
}

// err returns nil while the term lasts, else why it ended. It ends the term if that is over.
func (t *term) err() error {
	t.mu.Lock()
	if t.mu.cause == nil {
		t.mu.cause = t.overLocked()
	}
	why := t.mu.cause
	t.mu.Unlock()
	if why != nil {
		t.cancel(why)
	}
	return why
}

// overLocked returns why the term is over, or nil.
func (t *term) overLocked() error {
	if err := t.lease.Err(); err != nil {
		return err
	}
	if t.left() <= 0 {
		return t.named(fmt.Errorf("%w, and the leader steps down before its lease ends", errs.ErrLostLate))
	}
	return nil
}

// left returns how long the term lasts without a renewal. The lease says so by both clocks. Until its first
// renewal a lease may be shorter than twice StepDown: then the term ends the same share of that before its end.
func (t *term) left() time.Duration {
	left, given := hold.Lease(t.lease).Life()
	early := t.election.stepDown
	if early > given/mostParts {
		early = time.Duration(float64(early) * float64(given) / float64(t.election.base.Terms.Lease))
	}
	return left - early
}

// lose ends the term because the server said that its hold is gone.
func (t *term) lose() {
	t.mu.Lock()
	if t.mu.cause == nil {
		t.mu.cause = t.named(errs.ErrLostGone)
	}
	t.mu.Unlock()
	_ = t.err() // which cancels
}

// Fire implements timers.Firer: the term is over, or its value is to be written.
func (t *term) Fire() {
	if t.err() != nil {
		return
	}
	now := timers.Mono()
	t.mu.Lock()
	isDue := t.mu.due <= now
	if isDue {
		t.mu.due = now + t.election.base.Terms.Lease
	}
	t.scheduleLocked(now)
	t.mu.Unlock()
	if isDue {
		t.election.registry.writes.Put(t)
	}
}

// scheduleLocked schedules the next Fire, unless the term is over. Under the lock, so that of two
// goroutines the later one knows what the other has changed, and none schedules after resign.
func (t *term) scheduleLocked(now time.Duration) {
	if t.mu.cause == nil {
		t.election.base.Session.Timers.Schedule(&t.timer, min(t.left(), t.mu.due-now))
	}
}

// resign ends the term here, and then on the server.
func (t *term) resign() error {
	lost := t.err()
	t.mu.Lock()
	if t.mu.resigned {
		t.mu.Unlock()
		return errs.ErrNotHeld
	}
	t.mu.resigned = true
	if lost == nil {
		t.mu.cause = t.named(errs.ErrReleased)
	}
	t.mu.Unlock()
	e := t.election
	t.cancel(errs.ErrReleased) // what is bound ends before the lease is released
	e.base.Session.Timers.Cancel(&t.timer)
	e.registry.removeTerm(t)
	e.base.Session.BeginDetached() // so that Close waits for clear, too
	defer e.base.Session.End()
	err := t.lease.Unlock()
	if err == nil {
		t.clear()
	}
	if lost != nil && !errors.Is(lost, ErrHandover) {
		return lost
	}
	return err
}

// isResigned reports whether resign was called. The server is asked to release the lease after that.
func (t *term) isResigned() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.resigned
}

func (t *term) named(err error) error { return t.election.base.Named("", err) }

func (t *term) explain(op string, err error) error { return t.election.base.Explain(op, err) }

// bind returns a child of ctx that ends with the term.
func (t *term) bind(ctx context.Context) context.Context { return t.bonds.Bind(ctx, t.root, t.err) }
