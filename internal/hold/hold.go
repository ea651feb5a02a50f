// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/renewal"
)

// Realm is the scope of a lock's name: one kind of lock in one session. Realms are compared by address.
type Realm struct {
	Kind string
	// parts are the holds that the one hold of this realm consists of, see BeginOf; empty otherwise. Assigned
	// once. They are here so that other holds need no space for them.
	parts []Lease
}

// Home is the primitive that a hold came from.
type Home interface {
	// Vacated is called when the last entry was released: hand the hold over or release it. Unlock returns
	// its result.
	Vacated(now clock.Instant) error
	// Lost is called when the hold was lost.
	Lost(end renewal.End)
}

// inlineEntries is how many entries a hold has room for without a further allocation. A
// lock that is entered again at all is seldom entered more than once again.
const inlineEntries = 2

// errTooMany is the error of an entry beyond maxPlaces or maxSerial.
var errTooMany = fmt.Errorf("%w: the hold was entered too often", errs.ErrHeld)

// Hold is one hold id at the server, with all its entries in this process. Embed it by value; it must not be
// copied once it began.
type Hold struct {
	Term  renewal.Term
	home  Home
	realm atomic.Pointer[Realm] // the scope of its name; see Lease.Move
	mu    struct {
		sync.Mutex
		token  uint64        // of the present tenure
		last   uint64        // the last token reserved
		since  time.Duration // monotonic: when the present tenure began
		serial uint64        // the number of the newest entry
		count  int32         // live entries
		queued bool          // it was granted after a wait at the server
		places [inlineEntries]place
		more   *furtherPlaces
		cause  error // why the hold was lost
	}
}

// Begin makes the hold that the server granted with the tokens token to last, and returns the
// lease of its first entry. The term is started apart.
func (h *Hold) Begin(home Home, realm *Realm, token, last uint64) Lease {
	h.home = home
	h.realm.Store(realm)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.token, h.mu.last, h.mu.since = token, last, clock.Now().Mono()
	return Lease{hold: h, entry: h.addLocked(), token: token}
}

// Token returns the token of the present tenure.
func (h *Hold) Token() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.token
}

// Evict ends the hold for cause. It reports whether that ended a lease, and returns the kind of the
// lock, and how long the present tenure has lasted. A hold that is being released, or handed over,
// has no lease.
func (h *Hold) Evict(cause error) (kind string, lasted time.Duration, evicted bool) {
	h.mu.Lock()
	since, isHeld := h.mu.since, h.mu.count > 0
	h.mu.Unlock()
	return h.realm.Load().Kind, clock.Now().Mono() - since, h.Term.Break(cause, false) && isHeld
}

// Refill gives the hold a new block of tokens.
func (h *Hold) Refill(token, last uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// One less: Pass uses the next.
	h.mu.token, h.mu.last = token-1, last
}

// Pass begins a new tenure with the next token, for another waiter of this process. It returns false, and
// changes nothing, if the hold is lost, has less than half of its time left, or has no token or entry left.
// Call it only between Vacated and whatever else ends the hold.
func (h *Hold) Pass(now clock.Instant) (Lease, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.cause != nil || h.mu.token >= h.mu.last || !h.Term.IsFresh(now) {
		return Lease{}, false
	}
	entry := h.addLocked()
	if entry == 0 {
		return Lease{}, false
	}
	h.mu.token++
	h.mu.since = now.Mono()
	return Lease{hold: h, entry: entry, token: h.mu.token}, true
}

// TermEnded implements renewal.Owner: it ends what depends on the hold, and then notifies its home.
// Contexts end, and observers are notified, on a goroutine of their own: the caller has other leases
// to handle, and one lease may have hundreds of thousands of contexts.
func (h *Hold) TermEnded(end renewal.End) {
	if len(h.parts()) > 0 {
		end.Gone, end.Left = true, 0 // a part is; its own end says more
	}
	h.mu.Lock()
	h.mu.cause, end.Leased = end.Cause, h.mu.count > 0
	over := h.takeAllEndsLocked()
	h.mu.Unlock()
	if !over.notify(end.Cause) {
		h.home.Lost(end)
		return
	}
	over.reporting()
	go func() {
		over.cancel(end.Cause)
		h.home.Lost(end)
		over.report(end)
	}()
}

// join makes a further entry while there is any that is live.
func (h *Hold) join() (Lease, bool) {
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.count == 0 || h.mu.cause != nil || h.overdue(now) {
		return Lease{}, false
	}
	entry := h.addLocked()
	return Lease{hold: h, entry: entry, token: h.mu.token}, entry != 0
}

// again makes a further entry beside one that is live.
func (h *Hold) again(beside Lease) (Lease, error) {
	now := clock.Now()
	h.mu.Lock()
	if h.liveLocked(beside.entry) && h.mu.cause == nil && !h.overdue(now) {
		defer h.mu.Unlock()
		entry := h.addLocked()
		if entry == 0 {
			return Lease{}, errTooMany
		}
		return Lease{hold: h, entry: entry, token: beside.token}, nil
	}
	h.mu.Unlock()
	if err := h.err(beside.entry); err != nil {
		return Lease{}, err
	}
	return h.again(beside) // renewed in the same instant
}

// err returns nil while entry is live and the term can be trusted.
func (h *Hold) err(entry uint64) error {
	now := clock.Now()
	h.mu.Lock()
	live, cause := h.liveLocked(entry), h.mu.cause
	h.mu.Unlock()
	switch {
	case !live:
		return errs.ErrReleased
	case cause != nil:
		return cause
	case h.overdue(now):
		return h.alive(now)
	}
	return nil
}

// unlock ends one entry, and with the last one the hold.
func (h *Hold) unlock(entry uint64) error {
	now, last, call, err := h.leave(entry)
	if last {
		err = h.home.Vacated(now)
	}
	call.Unlocked(err)
	return err
}

// leave ends one entry, and returns when, and whether it was the last one: then home must be
// notified. call is the call that acquired the entry, if that is observed. It compares the clock for
// every entry: the work of an inner entry is protected no longer than that of the last.
func (h *Hold) leave(entry uint64) (now clock.Instant, last bool, call *observe.Call, err error) {
	h.mu.Lock()
	switch {
	case !h.liveLocked(entry):
		h.mu.Unlock()
		return clock.Instant{}, false, nil, errs.ErrNotHeld
	case h.mu.cause != nil:
		defer h.mu.Unlock()
		return clock.Instant{}, false, nil, h.mu.cause // the entry stays, so that Err continues to say why
	}
	now = clock.Now()
	if h.overdue(now) {
		h.mu.Unlock()
		// Ends through TermEnded, which acquires the lock. Renewed in the same instant: once more.
		if err := h.alive(now); err != nil {
			return now, false, nil, err
		}
		return h.leave(entry)
	}
	over := h.removeLocked(entry)
	last = h.mu.count == 0
	h.mu.Unlock()
	// After the last one no caller can enter: entering needs a live entry.
	over.notify(errs.ErrReleased)
	over.cancel(errs.ErrReleased)
	return now, last, over.observed(), nil
}
