// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// Scope is the scope of a lock's name: one kind of lock in one session. Scopes are compared by address.
type Scope struct {
	Kind string
	// parts are the leases that a composite hold consists of, see BeginComposite; empty for every other hold. Assigned
	// once. They are here so that other holds need no space for them.
	parts []Lease
}

// Owner is the primitive that a hold came from. It is called back when the hold ends.
type Owner interface {
	// Key returns the key of the hold at the server, and ID what the server calls the hold.
	Key() string
	ID() string
	// OnRelease is called when the last entry was released: hand the hold over or release it. Unlock returns
	// its result.
	OnRelease(now timers.Instant) error
	// OnLost is called when the hold was lost.
	OnLost(end End)
}

// Namer is an Owner that names its lock in the errors of leases.
type Namer interface {
	// Named returns err, which is not nil, with the name of the lock. op is the operation; without one, a lease has
	// ended.
	Named(op string, err error) error
}

// inlineEntries is how many entries a hold has room for without a further allocation. A
// lock that is entered again at all is seldom entered more than once again.
const inlineEntries = 2

// errTooMany is the error of an entry beyond maxSlots or maxSerial.
var errTooMany = fmt.Errorf("%w: the hold was entered too often", errs.ErrHeld)

// Hold is one hold id at the server, with all its entries in this process. Embed it by value; it must not be
// copied once it began.
type Hold struct {
	Term  Term
	owner Owner
	scope atomic.Pointer[Scope] // the scope of the lock's name; see Lease.SetScope
	mu    struct {
		sync.Mutex
		token  uint64        // the token of the present tenure
		since  time.Duration // monotonic: when the present tenure began
		serial uint64        // the number of the newest entry
		count  int32         // the number of live entries
		left   uint16        // the number of reserved tokens behind the present one
		queued bool          // the hold was granted after a wait at the server
		slots  [inlineEntries]entrySlot
		rare   *rareState // nil until it is needed
	}
}

// namedEnd is how a hold was lost, with the error that names its lock.
type namedEnd struct {
	End

	err error // the cause, as leases return it
}

// Begin makes the hold that the server granted with the tokens token to last, and returns the
// lease of its first entry. The term is started apart.
func (h *Hold) Begin(owner Owner, scope *Scope, token, last uint64) Lease {
	h.owner = owner
	h.scope.Store(scope)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.token, h.mu.left, h.mu.since = token, tokensBetween(token, last), timers.Mono()
	return Lease{hold: h, entry: h.addEntryLocked(), token: token}
}

// Token returns the token of the present tenure.
func (h *Hold) Token() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.token
}

// Evict ends the hold for cause. It reports whether that ended a lease, and returns how long the present
// tenure has lasted. A hold that is being released, or handed over, has no lease.
func (h *Hold) Evict(cause error) (lasted time.Duration, evicted bool) {
	h.mu.Lock()
	since, isHeld := h.mu.since, h.mu.count > 0
	h.mu.Unlock()
	return timers.Mono() - since, h.Term.Break(cause, false) && isHeld
}

// withName returns err with the name of the lock; see Namer.
func (h *Hold) withName(op string, err error) error {
	if namer, is := h.owner.(Namer); is && err != nil {
		return namer.Named(op, err)
	}
	return err
}

// lostLocked returns how the hold was lost, or nil.
func (h *Hold) lostLocked() *namedEnd {
	if h.mu.rare == nil {
		return nil
	}
	return h.mu.rare.lost
}

// causeLocked returns why the hold was lost, or nil.
func (h *Hold) causeLocked() error {
	if lost := h.lostLocked(); lost != nil {
		return lost.err
	}
	return nil
}

// tokensBetween returns how many tokens behind token the hold may use. A block has fewer than it can count.
func tokensBetween(token, last uint64) uint16 {
	if last <= token {
		return 0
	}
	return uint16(min(last-token, math.MaxUint16)) //nolint:gosec // at most MaxUint16
}

// HasTokens reports whether HandOver has a token left.
func (h *Hold) HasTokens() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.left > 0
}

// Refill gives the hold a new block of tokens.
func (h *Hold) Refill(token, last uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// One less: HandOver uses the next.
	h.mu.token, h.mu.left = token-1, tokensBetween(token-1, last)
}

// HandOver begins a new tenure with the next token, for another waiter of this process. It returns false, and
// changes nothing, if the hold is lost, has less than half of its time left, or has no token or entry left.
// Call it only between OnRelease and whatever else ends the hold.
func (h *Hold) HandOver(now timers.Instant) (Lease, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lostLocked() != nil || h.mu.left == 0 || !h.Term.IsFresh(now) {
		return Lease{}, false
	}
	entry := h.addEntryLocked()
	if entry == 0 {
		return Lease{}, false
	}
	h.mu.token, h.mu.left = h.mu.token+1, h.mu.left-1
	h.mu.since = now.Mono()
	return Lease{hold: h, entry: entry, token: h.mu.token}, true
}

// Renewed implements TermOwner.
func (h *Hold) Renewed() (key, hold string) { return h.owner.Key(), h.owner.ID() }

// OnTermEnd implements TermOwner: it ends what depends on the hold, and then notifies its Owner.
// Contexts end, and observers are notified, on a goroutine of their own: the caller has other leases
// to handle, and one lease may have hundreds of thousands of contexts.
func (h *Hold) OnTermEnd(end End) {
	if len(h.parts()) > 0 {
		end.Gone, end.Left = true, 0 // only a part may be gone; the end of that part says more
	}
	end.Cause = end.Why()
	named := h.withName("", end.Cause)
	h.mu.Lock()
	end.Leased, end.Token = h.mu.count > 0, h.mu.token
	h.rareLocked().lost = &namedEnd{end, named}
	deps := h.takeAllDependentsLocked()
	h.mu.Unlock()
	if !deps.notify(end.Cause) {
		h.owner.OnLost(end)
		return
	}
	deps.expectReports()
	go func() {
		deps.cancel(named)
		h.owner.OnLost(end)
		deps.report(end)
	}()
}

// OnKept implements KeptOwner, for an Owner that is one, too.
func (h *Hold) OnKept(sent timers.Instant, isMarked bool) {
	if owner, is := h.owner.(KeptOwner); is {
		owner.OnKept(sent, isMarked)
	}
}

// join makes a further entry while any entry is live.
func (h *Hold) join() (Lease, bool) {
	now := timers.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.count == 0 || h.lostLocked() != nil || h.overdue(now) {
		return Lease{}, false
	}
	entry := h.addEntryLocked()
	return Lease{hold: h, entry: entry, token: h.mu.token}, entry != 0
}

// reenter makes a further entry beside a live one.
func (h *Hold) reenter(beside Lease) (Lease, error) {
	now := timers.Now()
	h.mu.Lock()
	if h.liveLocked(beside.entry) && h.lostLocked() == nil && !h.overdue(now) {
		defer h.mu.Unlock()
		entry := h.addEntryLocked()
		if entry == 0 {
			return Lease{}, errTooMany
		}
		return Lease{hold: h, entry: entry, token: beside.token}, nil
	}
	h.mu.Unlock()
	if err := h.err(beside.entry); err != nil {
		return Lease{}, err
	}
	return h.reenter(beside) // renewed in the same instant
}

// err returns nil while entry is live and the term can be trusted.
func (h *Hold) err(entry uint64) error {
	now := timers.Now()
	h.mu.Lock()
	live, cause := h.liveLocked(entry), h.causeLocked()
	h.mu.Unlock()
	switch {
	case !live:
		return h.withName("", errs.ErrReleased)
	case cause != nil:
		return cause
	case h.overdue(now):
		return h.checkAlive(now)
	}
	return nil
}

// checkAlive is alive, with the error as leases return it.
func (h *Hold) checkAlive(now timers.Instant) error {
	err := h.alive(now)
	if err == nil {
		return nil
	}
	h.mu.Lock()
	cause := h.causeLocked()
	h.mu.Unlock()
	return cmp.Or(cause, h.withName("", err)) // another goroutine may be about to say why
}

// unlock ends one entry, and with the last one the hold.
func (h *Hold) unlock(entry uint64) error {
	now, last, call, err := h.leave(entry)
	if last {
		err = h.owner.OnRelease(now)
	}
	call.Unlocked(err)
	return h.withName("unlock", err)
}

// leave ends one entry, and returns when, and whether it was the last one: then the Owner must be
// notified. call is the call that acquired the entry, if that is observed. It compares the clock for
// every entry: the work of an inner entry is protected no longer than the work of the last one.
func (h *Hold) leave(entry uint64) (now timers.Instant, last bool, call *observe.Call, err error) {
	h.mu.Lock()
	switch {
	case !h.liveLocked(entry):
		h.mu.Unlock()
		return timers.Instant{}, false, nil, errs.ErrNotHeld
	case h.lostLocked() != nil:
		defer h.mu.Unlock()
		return timers.Instant{}, false, nil, h.causeLocked() // the entry stays, so that Err continues to say why
	}
	now = timers.Now()
	if h.overdue(now) {
		h.mu.Unlock()
		// Ends through OnTermEnd, which acquires the lock. Renewed in the same instant: once more.
		if err := h.checkAlive(now); err != nil {
			return now, false, nil, err
		}
		return h.leave(entry)
	}
	deps := h.removeEntryLocked(entry)
	last = h.mu.count == 0
	h.mu.Unlock()
	// After the last one no caller can enter: entering needs a live entry.
	deps.notify(errs.ErrReleased)
	deps.cancel(errs.ErrReleased)
	return now, last, deps.observed(), nil
}

// The entries of a hold are numbers that are never used twice. The lowest bits of a number are the index of its
// slot, so that no search is needed, however many share the hold. The first few slots are in the hold itself, the
// others in a slice beside it.

const (
	slotBits = 24
	maxSlots = 1 << slotBits // the greatest number of entries that a hold has at a time
	// maxSerial is how many entries a hold has in all. A hold that is handed over a million times a second
	// reaches that in twelve days, and is released then.
	maxSerial = 1<<(64-slotBits) - 1
)

// entrySlot holds an entry, and what ends with the entry.
type entrySlot struct {
	entry      uint64      // 0 if the slot is empty
	dependents *dependents // nil if nothing ends with the entry
}

// rareState is what few holds need.
type rareState struct {
	slots []entrySlot // the slots for which the hold itself has no room
	free  []uint64    // the indexes of the empty ones of these
	lost  *namedEnd   // nil while the hold is not lost
	// wanted is nil until Wanted is called, or another session waits.
	wanted *wantedState
}

func (h *Hold) rareLocked() *rareState {
	if h.mu.rare == nil {
		h.mu.rare = new(rareState)
	}
	return h.mu.rare
}

// addEntryLocked returns a new entry, or 0 if the hold has, or ever had, too many.
func (h *Hold) addEntryLocked() uint64 {
	if h.mu.serial == maxSerial {
		return 0
	}
	slot := h.freeSlotLocked()
	if slot == maxSlots {
		return 0
	}
	h.mu.serial++
	h.mu.count++
	entry := h.mu.serial<<slotBits | slot
	h.slotLocked(slot).entry = entry
	return entry
}

// freeSlotLocked returns the index of an empty slot, which may be a new one behind all others.
func (h *Hold) freeSlotLocked() uint64 {
	for i := range h.mu.slots {
		if h.mu.slots[i].entry == 0 {
			return uint64(i)
		}
	}
	rare := h.rareLocked()
	if n := len(rare.free); n > 0 {
		slot := rare.free[n-1]
		rare.free = rare.free[:n-1]
		return slot
	}
	next := uint64(inlineEntries + len(rare.slots))
	if next < maxSlots {
		rare.slots = append(rare.slots, entrySlot{})
	}
	return next
}

// slotLocked returns the slot of that index, which exists.
func (h *Hold) slotLocked(slot uint64) *entrySlot {
	if slot < inlineEntries {
		return &h.mu.slots[slot]
	}
	return &h.mu.rare.slots[slot-inlineEntries]
}

func (h *Hold) liveLocked(entry uint64) bool {
	slot := entry & (maxSlots - 1)
	if entry == 0 || slot >= inlineEntries && (h.mu.rare == nil || slot >= uint64(inlineEntries+len(h.mu.rare.slots))) {
		return false
	}
	return h.slotLocked(slot).entry == entry
}

// removeEntryLocked removes a live entry, and returns what must end with it.
func (h *Hold) removeEntryLocked(entry uint64) *dependents {
	slot := entry & (maxSlots - 1)
	at := h.slotLocked(slot)
	deps := at.takeDependentsLocked(nil)
	at.entry = 0
	if slot >= inlineEntries {
		h.mu.rare.free = append(h.mu.rare.free, slot)
	}
	h.mu.count--
	return deps
}
