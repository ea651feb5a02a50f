// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// Lease is one entry of a hold; signalbox.Lease is defined over it and has the public
// words. It is a value, because a re-entry must not allocate.
type Lease struct {
	hold  *Hold
	entry uint64
	token uint64
}

// Token returns the fencing token, 0 for the zero Lease.
func (l Lease) Token() uint64 { return l.token }

// Err returns nil while the lease can be trusted.
func (l Lease) Err() error {
	if l.hold == nil {
		return errs.ErrNotHeld
	}
	return l.hold.err(l.entry)
}

// Done returns a channel that closes when the lease ends.
func (l Lease) Done() <-chan struct{} {
	if l.hold == nil {
		return closedChannel()
	}
	return l.hold.done(l.entry)
}

// Deadline returns until when the lease can be trusted without a further renewal. For a lost lease
// it returns when it was lost, and for a released one the zero time.
func (l Lease) Deadline() time.Time {
	if l.hold == nil || errors.Is(l.Err(), errs.ErrReleased) {
		return time.Time{}
	}
	// In this order: a goroutine that is held up between the two clock reads returns a deadline that is too
	// early, never too late.
	at := time.Now()
	return at.Add(l.hold.left(timers.Now()))
}

// Life returns how long the lease can be trusted without a further renewal, and for how long the server lets
// its hold live, from its last reply on. The hold is that of one lock.
func (l Lease) Life() (left, given time.Duration) { return l.hold.Term.Life(timers.Now()) }

// Hasten brings the next renewal of the hold forward to now, if the server gave it less than life.
func (l Lease) Hasten(life time.Duration) { l.hold.Term.Hasten(life) }

// Unlock ends the lease.
func (l Lease) Unlock() error {
	if l.hold == nil {
		return errs.ErrNotHeld
	}
	return l.hold.unlock(l.entry)
}

// Bind returns a child of ctx that also ends with the lease.
func (l Lease) Bind(ctx context.Context) context.Context {
	bound := l.bind(notNil(ctx))
	return &bound
}

// Enter is Bind, and the right to enter again.
func (l Lease) Enter(ctx context.Context) context.Context {
	ctx = notNil(ctx)
	outer, _ := ctx.Value(carriedKey{}).(*enteredContext)
	return &enteredContext{l.bind(ctx), outer}
}

// notNil returns ctx. If ctx is nil it returns a context that has ended: its callers can return no
// error.
func notNil(ctx context.Context) context.Context {
	if ctx != nil {
		return ctx
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(fmt.Errorf("%w: the context is nil", errs.ErrBadOption))
	return ended
}

func (l Lease) bind(ctx context.Context) boundContext {
	if l.hold == nil {
		return boundContext{bonded{ctx, newBond(ctx).ended(errs.ErrNotHeld)}, l}
	}
	return boundContext{bonded{ctx, l.hold.bind(ctx, l.entry)}, l}
}

// Carried returns the lease of the lock (scope, key) that ctx carries, and whether it
// carries one. The innermost wins.
func Carried(ctx context.Context, scope *Scope, key string) (Lease, bool) {
	entered, _ := ctx.Value(carriedKey{}).(*enteredContext)
	for ; entered != nil; entered = entered.outer {
		if lease, is := entered.lease.leaseFor(scope, key); is {
			return lease, true
		}
	}
	return Lease{}, false
}

// Reenter enters the hold of l once more.
func (l Lease) Reenter() (Lease, error) { return l.hold.reenter(l) }

// Join enters the hold of l for another goroutine, while any entry is live, l or another: for holds that
// several goroutines share. It returns false if the hold is over, or being released.
func (l Lease) Join() (Lease, bool) {
	if l.hold == nil {
		return Lease{}, false
	}
	return l.hold.join()
}

// ID returns what the server calls the hold of l.
func (l Lease) ID() string { return l.hold.owner.ID() }

// SetScope makes the hold of l count in another scope from here on: a writer's hold becomes a reader's.
func (l Lease) SetScope(to *Scope) { l.hold.scope.Store(to) }

// TermFor returns the term of the hold of l if that is a hold of the lock (scope, key).
func (l Lease) TermFor(scope *Scope, key string) (*Term, bool) {
	if l.hold == nil || l.hold.scope.Load() != scope || l.hold.owner.Key() != key {
		return nil, false
	}
	return &l.hold.Term, true
}

// WithoutLeases returns ctx without the leases it carries.
func WithoutLeases(ctx context.Context) context.Context { return withoutLeasesContext{ctx} }

// Owner returns the primitive that the hold of l came from, nil for the zero Lease.
func (l Lease) Owner() Owner {
	if l.hold == nil {
		return nil
	}
	return l.hold.owner
}

// Observe reports what came of call: l, or err. It returns both. If the call acquired l, the end of l is reported, too. call is
// nil without an observer.
func (l Lease) Observe(call *observe.Call, err error) (Lease, error) {
	switch {
	case call == nil:
	case err != nil:
		call.Refused(err)
	default:
		l.observeAcquired(call)
	}
	return l, err
}

// observeAcquired reports that call acquired l. If a hook ends the goroutine, no caller gets l: it is unlocked.
func (l Lease) observeAcquired(call *observe.Call) {
	returned := false
	defer func() {
		l.hold.observe(l.entry, call)
		if !returned {
			_ = l.Unlock()
		}
	}()
	call.Acquired(l.token, l.source())
	returned = true
}

// Replace makes l the lease of the call that acquired old, whose hold is replaced by that of l: the end of l is reported instead.
func (l Lease) Replace(old Lease) {
	if call := old.unobserved(); call != nil {
		l.hold.observe(l.entry, call)
	}
}

// ReplaceFailed reports that the hold of l was to be replaced, and ended with err.
func (l Lease) ReplaceFailed(err error) { l.unobserved().Unlocked(err) }

// unobserved returns the call that acquired l, which reports no end of l any more; nil without an observer.
func (l Lease) unobserved() (call *observe.Call) {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	if l.hold.liveLocked(l.entry) {
		d := l.hold.dependentsLocked(l.entry)
		call, d.call = d.call, nil
	}
	return call
}

// SetQueued says that the hold of l was granted after a wait at the server.
func (l Lease) SetQueued() {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	l.hold.mu.queued = true
}

// source returns where l came from. The first entry of a hold is that of the server's grant; the others are handed over.
func (l Lease) source() string {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	switch {
	case l.entry>>slotBits > 1:
		return observe.FromProcess
	case l.hold.mu.queued:
		return observe.FromQueue
	}
	return observe.FromServer
}

// observe reports the end of entry to the observer of call. An entry that was lost meanwhile has ended at once. No other
// goroutine can have unlocked it, since no caller has the lease yet.
func (h *Hold) observe(entry uint64, call *observe.Call) {
	h.mu.Lock()
	lost := h.lostLocked()
	if lost == nil && h.liveLocked(entry) {
		h.dependentsLocked(entry).call = call
	}
	h.mu.Unlock()
	if lost != nil {
		call.Ended(lost.Cause, lost.Gone, lost.Left)
	}
}

// carriedKey asks a context for the leases it carries.
type carriedKey struct{}

// bonded is a child of the context inside that also ends with a bond. It is never registered anywhere
// itself: the bond is.
//
// Its Done and Value lead to the bond, so that package context attaches children to the bond
// directly and starts no goroutine for them.
type bonded struct {
	context.Context //nolint:containedctx // a context that wraps one

	bond *bond
}

// Done implements context.Context.
func (c *bonded) Done() <-chan struct{} { return c.bond.Done() }

// Value implements context.Context.
func (c *bonded) Value(key any) any {
	if key == cancelKey {
		return c.bond.Value(key)
	}
	return c.Context.Value(key)
}

// boundContext is a context that ends with a lease. Its Err compares the clock.
type boundContext struct {
	bonded

	lease Lease
}

// Err compares the clock before it returns. If that shows that the lease is over, Err ends the
// lease and this context.
func (c *boundContext) Err() error {
	if err := c.bond.Err(); err != nil {
		return err
	}
	if err := c.lease.Err(); err != nil {
		// The goroutine that ended the lease cancels the bond next; the caller need not wait for
		// it.
		c.bond.cancel(err)
	}
	return c.bond.Err()
}

// cancelKey is the key by which package context finds the context to attach children to, and the
// cause of its end. If it did not find the bond, each child would cost a goroutine, and have no
// cause.
//
//nolint:gochecknoglobals // a constant that only package context knows
var cancelKey = func() any {
	s := &spy{Context: context.Background()}
	_ = context.Cause(s)
	return s.key
}()

// spy is a context that has ended, and remembers the last key passed to Value.
type spy struct {
	context.Context //nolint:containedctx // a context that wraps one

	key any
}

// Err implements context.Context.
func (*spy) Err() error { return context.Canceled }

// Value implements context.Context.
func (s *spy) Value(key any) any {
	s.key = key
	return nil
}

// enteredContext is a boundContext that carries its lease, before the leases of its parent.
type enteredContext struct {
	boundContext

	outer *enteredContext
}

// Value implements context.Context.
func (c *enteredContext) Value(key any) any {
	if _, isKey := key.(carriedKey); isKey {
		return c
	}
	return c.boundContext.Value(key)
}

// withoutLeasesContext hides the leases that a context carries.
type withoutLeasesContext struct{ context.Context } //nolint:containedctx // a context that wraps one

// Value implements context.Context.
func (c withoutLeasesContext) Value(key any) any {
	if _, isKey := key.(carriedKey); isKey {
		return (*enteredContext)(nil)
	}
	return c.Context.Value(key)
}

func closedChannel() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}

// isClosed reports whether done is closed. A nil channel never is.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
