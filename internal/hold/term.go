// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/scripts"
)

// TermOwner is notified when a term ends by itself: by its deadline, its greatest length, or the server's reply
// that the hold is gone.
type TermOwner interface {
	// Renewed returns the key of the hold that the term keeps, and what renewals call the hold. It is called without a lock.
	Renewed() (key, hold string)
	// OnTermEnd is called once, never under a lock of this package, on a goroutine that it
	// must not block.
	OnTermEnd(end End)
}

// KeptOwner is an Owner that learns from renewals whether another attempt may want the lock; see Config.MayBeIdle and Config.Wanted.
type KeptOwner interface {
	// OnKept is called for each renewal, sent at sent, that found the hold. isMarked says that its key was marked: another
	// attempt may want the lock. OnKept is called as OnTermEnd is.
	OnKept(sent timers.Instant, isMarked bool)
}

// End is how a term ended by itself.
type End struct {
	Cause error
	// Gone says that the key is gone already.
	Gone bool
	// Left is how much longer the key could live at the server: 0 if it is gone, and negative if the end was
	// noticed so much later.
	Left time.Duration
	// Fixed says that the term was not to last longer.
	Fixed bool
	// Leased says that a caller had a lease. The owner sets it: a hold that is released or handed over has no lease.
	Leased bool
	// Token is the one of the last lease, if the hold has any. The owner sets it.
	Token uint64
}

// Why returns the cause with the reason, if it is no more than ErrLost.
func (e End) Why() error {
	switch {
	case e.Cause != errs.ErrLost: //nolint:errorlint // it says more if it is another one, also if that is ErrLost
		return e.Cause
	case e.Gone:
		return errs.ErrLostGone
	case e.Fixed:
		return errs.ErrLostFixed
	}
	return errs.ErrLostLate
}

// Config says how a term keeps its hold. It is not written after a term has it, since terms that are alike share one.
type Config struct {
	Keeper *Keeper
	// Script renews holds of this kind: nil is holder/renew. It has the arguments and replies of holder/renew, and may reply
	// wire.Marked.
	Script *scripts.Script
	// Life is what each renewal gives the key. A term that is not Renewed has it once.
	Life time.Duration
	// Until is when the term ends at the latest; the zero Instant is never.
	Until   timers.Instant
	Renewed bool
	// AsGiven says that a renewal asks for the life that the server gave last, and not for Life: something else than
	// renewals lengthens the term, too, and the server decides by how much.
	AsGiven bool
	// MayBeIdle says that the hold may be kept while no goroutine uses it. Then renewals ask for the life that the server gave
	// last, unless one use has lasted since the renewal before; see Rest. The Owner is a KeptOwner.
	MayBeIdle bool
	// Wanted says that the Owner is a KeptOwner, also if the hold is not kept.
	Wanted bool
	// Fixed says that the term was to end then, and so is lost, and has not been held for too long.
	Fixed bool
}

// termState is one of the states of the package doc.
type termState uint8

const (
	idle termState = iota
	renewing
	ended
)

// recheckState is how far the question whether the hold still exists has come; see Recheck.
type recheckState uint8

const (
	recheckNone  recheckState = iota
	recheckDue                // the question is to be sent at once
	recheckSent               // the question is on its way
	recheckRetry              // the question had no reply: it is sent again when the term is due
)

// Term is one lease on the server, as far as time goes. Embed it by value; it must not be
// copied once started.
type Term struct {
	owner  TermOwner
	config *Config
	timer  timers.Timer
	// deadline is written under mu. It is read under mu too, except for a first check.
	deadline timers.Atomic

	mu struct {
		sync.Mutex
		state   termState
		recheck recheckState
		unused  bool           // no goroutine uses the hold, which may be kept
		lasted  bool           // one use has lasted since the last renewal was sent
		isLong  bool           // a renewal has asked for more than the first life
		hasteMS uint16         // RenewBy wants another renewal so long after the one that is on its way, less 1; 0 if it does not
		due     timers.Instant // the next renewal, by the clock that says sooner; zero if no renewal is scheduled
		given   time.Duration  // the life that the server gave last; a grant gives less than the renewals ask for
		end     *End           // how the term ended; nil if it was stopped
	}
}

// Init makes the term: the server gave the key life, in reply to a call sent at sent. Call it once, before
// any other method, and before another goroutine knows the term.
func (t *Term) Init(owner TermOwner, config *Config, life time.Duration, sent timers.Instant) {
	t.owner, t.config = owner, config
	t.timer.Init(t)
	t.mu.given = min(config.Life, life)
	t.deadline.Store(timers.Deadline(sent, life))
}

// Start begins the keeping of the term, whose life counts from sent according to Init, unless it has ended since. sent
// may be long ago: a grant that was handed over was paid for by an earlier request.
func (t *Term) Start(sent timers.Instant) {
	now := timers.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state == ended {
		return
	}
	if t.config.Renewed {
		interval := t.mu.given / RenewalsPerLife
		t.mu.due = dueAfter(sent, t.grainLocked(interval), jitter(interval))
	}
	t.scheduleLocked(now)
}

// Given returns for how long the server lets the hold live, from its last reply on.
func (t *Term) Given() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.given
}

// Life returns how long the term can be trusted without a further renewal, and for how long the server lets
// the hold live, from its last reply on: both as of one moment.
func (t *Term) Life(now timers.Instant) (left, given time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Deadline().Until(now), t.mu.given
}

// Hasten brings the next renewal of a renewed term forward to now, if the server gave it less than life.
func (t *Term) Hasten(life time.Duration) {
	now := timers.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state == idle && !t.mu.due.IsZero() && t.mu.given < life {
		t.mu.due = now
		t.scheduleLocked(now)
	}
}

// Rest records that no goroutine uses the hold, and reports whether it may be kept: it is not if the term has ended, or if
// the server may have given it more than its first life. A renewal asks for no more of an unused hold.
func (t *Term) Rest() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state == ended || t.mu.isLong {
		return false
	}
	t.mu.unused, t.mu.lasted = true, false
	return true
}

// Use records that a goroutine uses the hold again.
func (t *Term) Use() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.unused = false
}

// Deadline returns until when the term can be trusted, as of now, or could be until it ended by
// itself.
func (t *Term) Deadline() timers.Instant { return t.deadline.Load() }

// IsFresh reports whether at least half is left of what the server gave last.
func (t *Term) IsFresh(now timers.Instant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline.Load().Until(now) >= t.mu.given/2
}

// Overdue reports whether the deadline is reached, as far as that is known without a lock: Alive has to
// confirm true.
func (t *Term) Overdue(now timers.Instant) bool { return t.deadline.Load().Reached(now) }

// Ended reports whether the term has ended, without a look at the clock.
func (t *Term) Ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.state == ended
}

// Config returns how the term keeps its hold.
func (t *Term) Config() *Config { return t.config }

// Alive compares the clock and returns nil while the term can be trusted, else why it ended. It ends the term
// if it finds it over.
func (t *Term) Alive(now timers.Instant) error {
	t.mu.Lock()
	if t.mu.state == ended {
		defer t.mu.Unlock()
		return t.causeLocked()
	}
	if !t.Overdue(now) {
		t.mu.Unlock()
		return nil
	}
	return t.endAndUnlock(t.overdueCauseLocked(now), false)
}

// causeLocked returns why the term has ended.
func (t *Term) causeLocked() error {
	if t.mu.end == nil {
		return errs.ErrReleased
	}
	return t.mu.end.Cause
}

// Extended records that the server gave the key life anew, in reply to a call sent at sent; a life of 0 means
// that the hold exists. It returns false if the term had ended before.
func (t *Term) Extended(life time.Duration, sent timers.Instant) bool {
	now := timers.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state == ended || t.Overdue(now) {
		return false // final: the timer or the next check notifies the owner
	}
	t.mu.state = idle
	if t.mu.recheck == recheckSent {
		t.mu.recheck = recheckNone
	}
	if life > 0 {
		t.extendLocked(life, sent)
	}
	t.hastenLocked()
	t.scheduleLocked(now)
	return true
}

func (t *Term) extendLocked(life time.Duration, sent timers.Instant) {
	interval := life / RenewalsPerLife
	in := interval
	if life > t.mu.given {
		in = jitter(interval) // terms that were young together do not stay together
	}
	// By the monotonic clock: if the wall clock was set back since the last renewal, the new
	// deadline is earlier by it, and is the right one all the same.
	deadline := timers.Deadline(sent, life)
	isLonger := deadline.Mono() > t.Deadline().Mono()
	if isLonger {
		t.deadline.Store(deadline)
		t.mu.given = life
	}
	// A reply that lengthens nothing puts off no renewal and brings none forward. But the reply to a renewal
	// that is under way is not waited for any more.
	if t.config.Renewed && (isLonger || t.mu.due.IsZero()) {
		t.mu.due = dueAfter(sent, t.grainLocked(interval), in)
	}
}

// hastenLocked brings the next renewal forward if RenewBy wanted that while another one was on its way.
func (t *Term) hastenLocked() {
	if t.mu.hasteMS > 0 {
		if at := timers.Now().Add(time.Duration(t.mu.hasteMS-1) * time.Millisecond); t.mu.due.IsZero() || at.Mono() < t.mu.due.Mono() {
			t.mu.due = at
		}
	}
	t.mu.hasteMS = 0
}

// RenewBy brings the next renewal of a renewed term forward to at. A renewal that is on its way is followed by another one, as long
// after its reply as at is in the future, and by a minute at most.
func (t *Term) RenewBy(at timers.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.mu.state == ended || !t.config.Renewed:
	case t.mu.state == renewing:
		haste := uint16(min(max(at.Until(timers.Now()), 0), time.Minute).Milliseconds()) + 1
		if t.mu.hasteMS == 0 || haste < t.mu.hasteMS { // the sooner one
			t.mu.hasteMS = haste
		}
	case t.mu.due.IsZero() || at.Mono() < t.mu.due.Mono():
		t.mu.due = at
		t.scheduleLocked(timers.Now())
	}
}

// Recheck asks the server soon whether the hold still exists, and ends the term if it does not: for a hint
// that it was taken by force. The life of the key stays as it is. A renewal that is on its way may have been
// executed before the hint was given: the question follows it.
func (t *Term) Recheck() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state == ended {
		return
	}
	t.mu.recheck = recheckDue
	t.scheduleLocked(timers.Now())
}

// Stop ends the term for a release: no renewal is sent after it. It returns nil, or why the term had ended
// before.
func (t *Term) Stop(now timers.Instant) error {
	t.mu.Lock()
	if t.mu.state != ended && t.Overdue(now) {
		return t.endAndUnlock(t.overdueCauseLocked(now), false)
	}
	defer t.mu.Unlock()
	if t.mu.state == ended {
		return t.causeLocked()
	}
	t.mu.state = ended
	t.config.Keeper.timers.Cancel(&t.timer)
	return nil
}

// Gone ends the term because the server replied that the hold is gone.
func (t *Term) Gone() {
	now := timers.Now()
	t.mu.Lock()
	if t.mu.state == ended {
		t.mu.Unlock()
		return
	}
	_ = t.endAndUnlock(t.overdueCauseLocked(now), true)
}

// Break ends the term for cause, and reports whether it had not ended before.
func (t *Term) Break(cause error, gone bool) bool {
	t.mu.Lock()
	if t.mu.state == ended {
		t.mu.Unlock()
		return false
	}
	_ = t.endAndUnlock(cause, gone)
	return true
}

// overdueCauseLocked says why a term has ended that reached its deadline, or whose key is gone.
func (t *Term) overdueCauseLocked(now timers.Instant) error {
	if until := t.config.Until; !until.IsZero() && !t.config.Fixed && until.Add(-timers.Allowance(t.config.Life)).Reached(now) {
		return errs.ErrMaxHold
	}
	return errs.ErrLost
}

// endAndUnlock ends the term with the lock held, releases the lock, and notifies the owner. The state ensures
// that only one call does so.
func (t *Term) endAndUnlock(cause error, gone bool) error { //nolint:revive // a fact about the key, not a switch
	t.mu.state = ended
	now := timers.Now()
	end := &End{Cause: cause, Gone: gone, Fixed: t.config.Fixed}
	t.mu.end = end
	if !gone {
		end.Left = t.Deadline().Until(now) + timers.Allowance(t.mu.given)
	}
	if !t.Overdue(now) {
		t.deadline.Store(now) // the hold was taken by force before the deadline
	}
	t.config.Keeper.timers.Cancel(&t.timer)
	t.mu.Unlock()
	t.owner.OnTermEnd(*end)
	return cause
}
