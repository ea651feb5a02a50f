// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"sync"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/observe"
)

// dependents is what ends with an entry: the channel of Done, callbacks, and contexts. An entry has one
// as soon as something depends on it. The lock of the hold guards the fields until ended is set.
// After that they belong to the goroutine that set it.
type dependents struct {
	ended      bool
	done       chan struct{}             // the channel of Done; nil until Done is called
	callbacks  []func(error)             // the functions given to OnEnd
	firstBond  *bond                     // most entries have one bond at most, and need no map
	otherBonds map[<-chan struct{}]*bond // the others, by the Done of their parents
	call       *observe.Call             // the call that acquired the entry; nil without an observer
	next       *dependents               // the dependents of another entry that ended with this one
}

// bond is a context that ends with an entry, or with a parent. All contexts that are bound to the entry and
// whose parents have the same Done share it. So a lease that is bound for every request keeps nothing for a
// context that is no longer used.
type bond struct {
	context.Context //nolint:containedctx // made by package context

	cancel     context.CancelCauseFunc
	dependents *dependents
	parent     <-chan struct{} // the parent's Done; nil if the parent never ends
	stop       func() bool     // cancels the callback at the parent's end
	isForeign  bool            // the parent has a method AfterFunc, which package context calls
}

// newBond returns a context that ends with parent. If parent never ends, newBond does not keep it,
// so that its values can be freed.
func newBond(parent context.Context) *bond { //nolint:contextcheck // a context that never ends is as good as another
	b := &bond{parent: parent.Done()}
	if b.parent == nil {
		parent = context.Background()
	}
	_, b.isForeign = parent.(interface{ AfterFunc(func()) func() bool })
	b.Context, b.cancel = context.WithCancelCause(parent)
	return b
}

func (b *bond) ended(cause error) *bond {
	b.cancel(cause)
	return b
}

// notify closes the channels of Done and calls the callbacks, which are quick. It reports whether
// cancel has contexts to end, or report an observer to notify.
func (d *dependents) notify(cause error) (overflow bool) {
	for ; d != nil; d = d.next {
		if d.done != nil {
			close(d.done)
		}
		for _, ended := range d.callbacks {
			ended(cause)
		}
		overflow = overflow || d.firstBond != nil || len(d.otherBonds) > 0 || d.call != nil
	}
	return overflow
}

// cancel ends the contexts. That lasts a microsecond for each context and each of their children. The caller
// holds no lock: contexts run callers' code.
func (d *dependents) cancel(cause error) {
	for ; d != nil; d = d.next {
		d.firstBond.endApart(cause)
		for _, b := range d.otherBonds {
			b.endApart(cause)
		}
		d.firstBond, d.otherBonds = nil, nil // a context that the caller keeps must not keep the other parents
	}
}

// endApart ends b. A parent with a method AfterFunc of its own is asked to forget its child: that is a caller's code, and runs on a
// goroutine of its own, so that it delays neither other contexts nor a release.
func (b *bond) endApart(cause error) {
	if b != nil && b.isForeign {
		go func() {
			defer func() { _ = recover() }() // the child has ended before it can panic
			b.end(cause)
		}()
		return
	}
	b.end(cause)
}

// observed returns the call that acquired the entry, if that is observed.
func (d *dependents) observed() *observe.Call {
	if d == nil {
		return nil
	}
	return d.call
}

// expectReports counts what report will report, so that Close of the session waits for it. It is called before the hold is
// counted out of the session.
func (d *dependents) expectReports() {
	for ; d != nil; d = d.next {
		if d.call != nil {
			d.call.ExpectEnd()
		}
	}
}

// report reports to observers that the entries were lost. The caller holds no lock: hooks are callers' code.
func (d *dependents) report(end End) {
	if d == nil {
		return
	}
	defer d.next.report(end) // deferred: a hook may end the goroutine
	if d.call != nil {
		d.call.EndedLater(end.Cause, end.Gone, end.Left)
	}
}

func (b *bond) end(cause error) {
	if b == nil {
		return
	}
	b.cancel(cause)
	if b.stop != nil {
		b.stop()
	}
}

// dependentsLocked returns what ends with an entry that is live.
func (h *Hold) dependentsLocked(entry uint64) *dependents {
	at := h.slotLocked(entry & (maxSlots - 1))
	if at.dependents == nil {
		at.dependents = new(dependents)
	}
	return at.dependents
}

// takeDependentsLocked removes what ends with the entry of a slot, and puts it before taken.
func (s *entrySlot) takeDependentsLocked(taken *dependents) *dependents {
	d := s.dependents
	if d == nil {
		return taken
	}
	d.ended, d.next, s.dependents = true, taken, nil
	return d
}

// takeAllDependentsLocked removes what ends with any entry of the hold.
func (h *Hold) takeAllDependentsLocked() *dependents {
	var taken *dependents
	for i := range h.mu.slots {
		taken = h.mu.slots[i].takeDependentsLocked(taken)
	}
	if h.mu.rare != nil {
		for i := range h.mu.rare.slots {
			taken = h.mu.rare.slots[i].takeDependentsLocked(taken)
		}
	}
	return taken
}

// entryErrLocked returns why entry is over, or nil.
func (h *Hold) entryErrLocked(entry uint64) error {
	if h.lostLocked() == nil && !h.liveLocked(entry) {
		return h.withName("", errs.ErrReleased)
	}
	return h.causeLocked()
}

// done returns the channel that closes when entry ends.
func (h *Hold) done(entry uint64) <-chan struct{} {
	if h.err(entry) != nil {
		return closedChannel()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entryErrLocked(entry) != nil {
		return closedChannel()
	}
	d := h.dependentsLocked(entry)
	if d.done == nil {
		d.done = make(chan struct{})
	}
	return d.done
}

// onEnd calls ended when entry ends, or at once if it has ended.
func (h *Hold) onEnd(entry uint64, ended func(error)) {
	cause := h.err(entry)
	if cause == nil {
		h.mu.Lock()
		if cause = h.entryErrLocked(entry); cause == nil {
			d := h.dependentsLocked(entry)
			d.callbacks = append(d.callbacks, ended)
		}
		h.mu.Unlock()
	}
	if cause != nil {
		ended(cause)
	}
}

// bind returns a context that ends with entry and with parent.
func (h *Hold) bind(parent context.Context, entry uint64) *bond {
	if err := h.err(entry); err != nil {
		return newBond(parent).ended(err)
	}
	done := parent.Done()
	h.mu.Lock()
	found, cause := h.bondLocked(entry, done, nil)
	h.mu.Unlock()
	if found != nil && !isClosed(done) {
		return found // if the parent has ended, it may not have come to end this one yet
	}
	b := newBond(parent) // not under the lock: it calls the parent
	if cause != nil || b.Err() != nil {
		return b.ended(cause)
	}
	h.mu.Lock()
	found, cause = h.bondLocked(entry, b.parent, b)
	h.mu.Unlock()
	switch {
	case cause != nil:
		return b.ended(cause)
	case found != b:
		b.cancel(nil) // another goroutine was first
		return found
	case b.parent == nil:
		return b
	}
	// No goroutine: the context calls back when it ends, on a goroutine of its own.
	stop := context.AfterFunc(parent, func() { h.forget(b) })
	h.mu.Lock()
	ended := b.dependents.ended
	if !ended {
		b.stop = stop
	}
	h.mu.Unlock()
	if ended {
		stop()
	}
	return b
}

// bondLocked returns the bond of entry for a parent with that Done. Without one, it adds and returns
// fresh, which may be nil. If the entry is over it returns why.
func (h *Hold) bondLocked(entry uint64, parent <-chan struct{}, fresh *bond) (*bond, error) {
	if err := h.entryErrLocked(entry); err != nil {
		return nil, err
	}
	d := h.dependentsLocked(entry)
	if d.firstBond != nil && d.firstBond.parent == parent {
		return d.firstBond, nil
	}
	if b := d.otherBonds[parent]; b != nil {
		return b, nil
	}
	switch {
	case fresh == nil:
		return nil, nil
	case d.firstBond == nil:
		d.firstBond = fresh
	case d.otherBonds == nil:
		d.otherBonds = make(map[<-chan struct{}]*bond)
		fallthrough
	default:
		d.otherBonds[parent] = fresh
	}
	fresh.dependents = d
	return fresh, nil
}

// forget removes a bond whose parent has ended from its entry, unless the entry ended first.
func (h *Hold) forget(b *bond) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch d := b.dependents; {
	case d.ended:
	case d.firstBond == b:
		d.firstBond = nil
	default:
		if delete(d.otherBonds, b.parent); len(d.otherBonds) == 0 {
			d.otherBonds = nil // a map keeps what it grew to
		}
	}
}

// Bonds are the contexts that end with a root of their own, such as that of a term or of the ownership of a shard: one for all parents
// with the same Done. So whoever binds a context for each piece of work keeps nothing for those that are no longer used. The zero Bonds
// is ready for use.
type Bonds struct {
	mu  sync.Mutex // under which no context is called but bonds
	all map[<-chan struct{}]*bond
}

// Bind returns a child of parent that also ends with root, for its cause. Its Err calls err before it returns, which compares the clock
// and returns why root is over.
func (b *Bonds) Bind(parent, root context.Context, err func() error) context.Context {
	if cause := err(); cause != nil {
		return &rootedContext{bonded{parent, newBond(parent).ended(cause)}, err}
	}
	done := parent.Done()
	b.mu.Lock()
	found := b.all[done]
	b.mu.Unlock()
	if found == nil || isClosed(done) { // if the parent has ended, it may not have come to end this one yet
		found = b.add(root, newBond(parent))
	}
	return &rootedContext{bonded{parent, found}, err}
}

// add returns the bond of those parents: fresh, unless there is one.
func (b *Bonds) add(root context.Context, fresh *bond) *bond {
	if fresh.Err() != nil {
		return fresh
	}
	b.mu.Lock()
	if other := b.all[fresh.parent]; other != nil && other.Err() == nil {
		b.mu.Unlock()
		fresh.cancel(nil) // another goroutine was first
		return other
	}
	if b.all == nil {
		b.all = make(map[<-chan struct{}]*bond)
	}
	b.all[fresh.parent] = fresh
	b.mu.Unlock()
	// No goroutine: the root calls back when it ends. If the parent ends first, the root forgets the bond.
	forget := context.AfterFunc(root, func() { fresh.cancel(context.Cause(root)) })
	context.AfterFunc(fresh, func() { //nolint:contextcheck // it ends with its parent, or with root
		forget()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.all[fresh.parent] == fresh {
			delete(b.all, fresh.parent)
		}
	})
	return fresh
}

// rootedContext is a context that ends with a root. Its Err compares the clock.
type rootedContext struct {
	bonded

	err func() error
}

// Err implements context.Context.
func (c *rootedContext) Err() error {
	if c.bond.Err() == nil {
		if err := c.err(); err != nil {
			c.bond.cancel(err)
		}
	}
	return c.bond.Err()
}
