// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/scripts"
)

// Owner is notified when a term ends by itself: by its deadline, its greatest length, or the server's reply
// that the hold is gone.
type Owner interface {
	// TermEnded is called once, never under a lock of this package, on a goroutine that it
	// must not block.
	OnTermEnd(end End)
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

// Terms is what a term is asked to keep.
type Config struct {
	// Script renews holds of this kind: nil is holder/renew. Its arguments and replies are those of that.
	Script *scripts.Script
	Key    string
	Hold   string
	// Life is what each renewal gives the key; a term that is not Renewed gets it once.
	Life time.Duration
	// Until is when the term ends at the latest; the zero Instant is never.
	Until   clock.Instant
	Renewed bool
	// Fixed says that the term was to end then, and so is lost, and has not been held for too long.
	Fixed bool
}

// state is one of the states of the package doc.
type termState uint8

const (
	idle termState = iota
	renewing
	ended
)

// inquiry is how far the question has come whether the hold is there still; see Recheck.
type recheckState uint8

const (
	recheckNone  recheckState = iota
	recheckDue                // to be asked at once
	recheckSent               // on its way
	recheckRetry              // had no reply: to be asked when the term is due
)

// inquireAgain is the longest pause before a question without a reply is asked again.
const recheckPause = time.Second

// renewAwake is the longest pause before a renewal is tried again while the host has just been suspended.
const resumedPause = 100 * time.Millisecond

// Term is one lease on the server, as far as time goes. Embed it by value; it must not be
// copied once started.
type Term struct {
	keeper *Keeper
	owner  Owner
	config Config
	timer  timers.Timer
	// deadline is written under mu. It is read under mu too, except for a first check.
	deadline clock.Atomic

	mu struct {
		sync.Mutex
		state   termState
		recheck recheckState
		due     clock.Instant // the next renewal, by the clock that says sooner; zero if no renewal is scheduled
		given   time.Duration // what the server gave last; a grant gives less than the renewals ask for
		cause   error         // why it ended; nil when stopped
	}
}

// Init makes the term: the server gave the key life, in reply to a call sent at sent. Call it once, before
// any other method, and before another goroutine knows the term.
func (t *Term) Init(k *Keeper, owner Owner, terms Config, life time.Duration, sent clock.Instant) {
	t.keeper, t.owner, t.config = k, owner, terms
	t.timer.Init(t)
	t.mu.given = min(terms.Life, life)
	t.deadline.Store(clock.Deadline(sent, life))
}

// Start begins the keeping of the term, which has life from sent on according to Init, unless it has ended
// since.
func (t *Term) Start(sent clock.Instant, life time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state == ended {
		return
	}
	if t.config.Renewed {
		t.mu.due = dueAfter(sent, t.mu.given/3, jitter(t.mu.given/3))
	}
	t.scheduleLocked(sent)
}

// Given returns for how long the server lets the hold live, from its last reply on.
func (t *Term) Given() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.given
}

// Life returns how long the term can be trusted without a further renewal, and for how long the server lets
// the hold live, from its last reply on: both as of one moment.
func (t *Term) Life(now clock.Instant) (left, given time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Deadline().Until(now), t.mu.given
}

// Hasten brings the next renewal of a renewed term forward to now, if the server gave it less than life.
func (t *Term) Hasten(life time.Duration) {
	now := clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state == idle && !t.mu.due.IsZero() && t.mu.given < life {
		t.mu.due = now
		t.scheduleLocked(now)
	}
}

// Deadline returns until when the term can be trusted, as of now, or could be until it ended by
// itself.
func (t *Term) Deadline() clock.Instant { return t.deadline.Load() }

// IsFresh reports whether at least half is left of what the server gave last.
func (t *Term) IsFresh(now clock.Instant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline.Load().Until(now) >= t.mu.given/2
}

// Overdue reports whether the deadline is reached, as far as that is known without a lock: Alive has to
// confirm true.
func (t *Term) Overdue(now clock.Instant) bool { return t.deadline.Load().Reached(now) }

// Terms returns what the term was started with.
func (t *Term) Config() *Config { return &t.config }

// Alive compares the clock and returns nil while the term can be trusted, else why it ended. It ends the term
// if it finds it over.
func (t *Term) Alive(now clock.Instant) error {
	t.mu.Lock()
	if t.mu.state == ended {
		defer t.mu.Unlock()
		if t.mu.cause == nil {
			return errs.ErrReleased
		}
		return t.mu.cause
	}
	if !t.Overdue(now) {
		t.mu.Unlock()
		return nil
	}
	return t.endAndUnlock(t.overdueCauseLocked(now), false)
}

// Extended records that the server gave the key life anew, in reply to a call sent at sent; a life of 0 means
// that the hold exists. It returns false if the term had ended before.
func (t *Term) Extended(life time.Duration, sent clock.Instant) bool {
	now := clock.Now()
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
	t.scheduleLocked(now)
	return true
}

func (t *Term) extendLocked(life time.Duration, sent clock.Instant) {
	third := life / 3
	in := third
	if life > t.mu.given {
		in = jitter(third) // those that were young together do not stay together
	}
	// By the monotonic clock: if the wall clock was set back since the last renewal, the new
	// deadline is earlier by it, and is the right one all the same.
	deadline := clock.Deadline(sent, life)
	isLonger := deadline.Mono() > t.Deadline().Mono()
	if isLonger {
		t.deadline.Store(deadline)
		t.mu.given = life
	}
	// What shortens nothing puts off no renewal and brings none forward. But one that is under way is not
	// listened to any more.
	if t.config.Renewed && (isLonger || t.mu.due.IsZero()) {
		t.mu.due = dueAfter(sent, third, in)
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
	t.scheduleLocked(clock.Now())
}

// Stop ends the term for a release: no renewal is sent after it. It returns nil, or why the term had ended
// before.
func (t *Term) Stop(now clock.Instant) error {
	t.mu.Lock()
	if t.mu.state != ended && t.Overdue(now) {
		return t.endAndUnlock(t.overdueCauseLocked(now), false)
	}
	defer t.mu.Unlock()
	if t.mu.state == ended {
		if t.mu.cause == nil {
			return errs.ErrReleased
		}
		return t.mu.cause
	}
	t.mu.state = ended
	t.keeper.timers.Cancel(&t.timer)
	return nil
}

// Gone ends the term because the server replied that the hold is gone.
func (t *Term) Gone() {
	now := clock.Now()
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

// Fire implements timers.Event: renewal, retry or deadline.
func (t *Term) Fire() {
	now := clock.Now()
	t.mu.Lock()
	switch {
	case t.mu.state == ended:
		t.mu.Unlock()
	case t.Overdue(now):
		_ = t.endAndUnlock(t.overdueCauseLocked(now), false)
	case t.mu.state == idle && (t.mu.recheck == recheckDue || t.isDueLocked(now)):
		t.mu.state = renewing
		t.scheduleLocked(now)
		t.mu.Unlock()
		t.keeper.due.Put(t)
	default:
		t.scheduleLocked(now)
		t.mu.Unlock()
	}
}

// ask returns what to send at now: the life of a renewal that is due, trimmed to the term's end, or
// 0 for a question alone; or false when the term ended meanwhile or needs no more of it.
func (t *Term) nextRequest(now clock.Instant) (r renewal, wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state != renewing || t.Overdue(now) {
		return renewal{}, false
	}
	r = renewal{term: t, given: t.mu.given, left: t.Deadline().Until(now)}
	rechecks := t.mu.recheck != recheckNone
	if rechecks {
		t.mu.recheck = recheckSent // a renewal is a reply, too
	}
	isDue := t.isDueLocked(now)
	if isDue {
		t.mu.due = clock.Instant{}
	}
	if t.config.Renewed && (isDue || !rechecks) {
		if r.life = t.lifeLocked(now); r.life > 0 {
			return r, true
		}
	}
	if !rechecks {
		t.mu.state = idle
	}
	return r, rechecks
}

// lifeLocked returns the life to ask for in a renewal at now, or 0 if a renewal can no longer help.
func (t *Term) lifeLocked(now clock.Instant) time.Duration {
	life := t.config.Life
	if !t.config.Until.IsZero() {
		life = min(life, t.config.Until.Until(now))
	}
	if now.Mono()+life-clock.Allowance(t.config.Life) <= t.Deadline().Mono() {
		// The life is already as long as it may be, less the allowance for clocks. Only the deadline is left,
		// and a renewal in the last millisecond would find the key gone. If the wall clock is ahead and trims
		// the life, that must not shorten the key either. So the monotonic clock decides: a wall clock that
		// was set back must not make a renewal seem useless.
		return 0
	}
	return life
}

// failed schedules the retry of a renewal that was refused or had no reply: after a twelfth of the term's
// life, which leaves seven tries before the deadline, or sooner if there is a question, or if the host has just been
// suspended: then little may be left, and it is the connection that failed.
func (t *Term) failed() {
	now := clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state != renewing {
		return
	}
	t.mu.state = idle
	pause := t.mu.given / 12
	if t.keeper.timers.JustResumed(now) {
		pause = min(pause, resumedPause)
	}
	if t.mu.recheck == recheckSent {
		t.mu.recheck = recheckRetry
		pause = min(pause, recheckPause)
	}
	if due := now.Add(pause); t.mu.due.IsZero() || due.Mono() < t.mu.due.Mono() {
		t.mu.due = due
	}
	t.scheduleLocked(now)
}

func (t *Term) isDueLocked(now clock.Instant) bool {
	return !t.mu.due.IsZero() && t.mu.due.Reached(now)
}

// spread returns a time in the last half of third, at random, so that locks which were acquired at once are
// not renewed at once.
func jitter(third time.Duration) time.Duration { return third/2 + rand.N(third-third/2) }

// dueAfter returns when a renewal is due, in after sent: rounded down to a fiftieth of a third of the life,
// so that terms of one life meet in batches.
func dueAfter(sent clock.Instant, third, in time.Duration) clock.Instant {
	grain := max(third/50, time.Millisecond)
	over := (sent.Mono() + in) % grain
	if over < 0 {
		over += grain // down, also before the instant that the clock counts from
	}
	return sent.Add(in - over)
}

func (t *Term) scheduleLocked(now clock.Instant) {
	in := t.Deadline().Until(now)
	switch { // while renewing the reply comes first, or the deadline
	case t.mu.state != idle:
	case t.mu.recheck == recheckDue:
		in = 0
	case !t.mu.due.IsZero():
		in = min(in, t.mu.due.Until(now))
	}
	t.keeper.timers.Schedule(&t.timer, in)
}

// overdueCauseLocked says why a term has ended that reached its deadline, or whose key is gone.
func (t *Term) overdueCauseLocked(now clock.Instant) error {
	if until := t.config.Until; !until.IsZero() && !t.config.Fixed && until.Add(-clock.Allowance(t.config.Life)).Reached(now) {
		return errs.ErrMaxHold
	}
	return errs.ErrLost
}

// endAndUnlock ends the term with the lock held, releases the lock, and notifies the owner. The state ensures
// that only one call does so.
func (t *Term) endAndUnlock(cause error, gone bool) error { //nolint:revive // a fact about the key, not a switch
	t.mu.state = ended
	t.mu.cause = cause
	now := clock.Now()
	end := End{Cause: cause, Gone: gone, Fixed: t.config.Fixed}
	if !gone {
		end.Left = t.Deadline().Until(now) + clock.Allowance(t.mu.given)
	}
	if !t.Overdue(now) {
		t.deadline.Store(now) // it was taken by force before
	}
	t.keeper.timers.Cancel(&t.timer)
	t.mu.Unlock()
	t.owner.OnTermEnd(end)
	return cause
}
