// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wheel"
)

// Owner is told when a term ends by itself: by its deadline, its greatest length, or the
// server's answer that the hold is gone.
type Owner interface {
	// TermEnded is called once, never under a lock of this package, on a goroutine that it
	// must not hold up. taken says that the key is gone already.
	TermEnded(cause error, taken bool)
}

// Allowance is what a deadline stays short of the life of its key: a fiftieth for clocks that
// do not run alike (Redlock allows for a hundredth) and for our own lateness, and 2 ms for
// the server's rounding of expiries.
func Allowance(life time.Duration) time.Duration { return life/50 + 2*time.Millisecond }

// Deadline is until when a key can be trusted that got life in answer to what was sent at sent.
func Deadline(sent clock.Instant, life time.Duration) clock.Instant {
	return sent.Add(life - Allowance(life))
}

// Terms is what a term is asked to keep.
type Terms struct {
	Key  string
	Hold string
	// Life is what each renewal gives the key; a term that is not Renewed gets it once.
	Life    time.Duration
	Renewed bool
	// Until is when the term ends at the latest; the zero Instant is never.
	Until clock.Instant
}

// state is one of the states of the package doc.
type state uint8

const (
	resting state = iota
	renewing
	ended
)

// Term is one lease on the server, as far as time goes. Embed it by value; it must not be
// copied once started.
type Term struct {
	keeper *Keeper
	owner  Owner
	terms  Terms
	entry  wheel.Entry
	// deadline is written under mu, and read under it where more than a first look is wanted.
	deadline clock.Atomic

	mu struct {
		sync.Mutex
		state state
		due   time.Duration // monotonic: the next renewal; 0 when there is none
		cause error         // why it ended; nil when stopped
	}
}

// Init makes the term: the server gave the key life, in answer to what was sent at sent. Once,
// before any other method, and before anybody else knows the term.
func (t *Term) Init(k *Keeper, owner Owner, terms Terms, life time.Duration, sent clock.Instant) {
	t.keeper, t.owner, t.terms = k, owner, terms
	t.entry.Init(t)
	t.deadline.Store(Deadline(sent, life))
}

// Start begins the keeping of the term, unless it has ended since Init.
func (t *Term) Start(sent clock.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state == ended {
		return
	}
	if t.terms.Renewed {
		third := t.terms.Life / 3
		t.mu.due = t.dueLocked(sent, third/4+rand.N(third-third/4))
	}
	t.scheduleLocked(sent)
}

// Deadline answers until when the term can be trusted, as of now.
func (t *Term) Deadline() clock.Instant { return t.deadline.Load() }

// Overdue reports whether the deadline is reached, as far as a look without a lock can tell: a
// yes is to be confirmed by Alive.
func (t *Term) Overdue(now clock.Instant) bool { return t.deadline.Load().Reached(now) }

// Terms answers what the term was started with.
func (t *Term) Terms() *Terms { return &t.terms }

// Alive compares the clock and answers nil while the term can be trusted, else why it
// ended. It ends the term where it finds it over.
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

// Extended tells that the server gave the key life anew, in answer to what was sent at
// sent. It reports false when the term had ended before.
func (t *Term) Extended(life time.Duration, sent clock.Instant) bool {
	now := clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state == ended || t.Overdue(now) {
		return false // final: the timer or the next look tells the owner
	}
	if deadline := Deadline(sent, life); deadline.Until(t.Deadline()) > 0 {
		t.deadline.Store(deadline)
	}
	t.mu.state = resting
	if t.terms.Renewed {
		t.mu.due = t.dueLocked(sent, t.terms.Life/3)
	}
	t.scheduleLocked(now)
	return true
}

// Stop ends the term for a release: no renewal is sent after it. It answers nil, or why
// the term had ended before.
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
	t.keeper.timers.Cancel(&t.entry)
	return nil
}

// Gone ends the term because the server answered that the hold is gone.
func (t *Term) Gone() {
	now := clock.Now()
	t.mu.Lock()
	if t.mu.state == ended {
		t.mu.Unlock()
		return
	}
	_ = t.endAndUnlock(t.overdueCauseLocked(now), true)
}

// Break ends the term for cause, if it has not ended.
func (t *Term) Break(cause error, taken bool) {
	t.mu.Lock()
	if t.mu.state == ended {
		t.mu.Unlock()
		return
	}
	_ = t.endAndUnlock(cause, taken)
}

// Fire implements wheel.Event: renewal, retry or deadline.
func (t *Term) Fire() {
	now := clock.Now()
	t.mu.Lock()
	switch {
	case t.mu.state == ended:
		t.mu.Unlock()
	case t.Overdue(now):
		_ = t.endAndUnlock(t.overdueCauseLocked(now), false)
	case t.mu.due != 0 && t.mu.due <= now.Mono():
		t.mu.state = renewing
		t.mu.due = 0
		t.scheduleLocked(now)
		t.mu.Unlock()
		t.keeper.due.Put(t)
	default:
		t.scheduleLocked(now)
		t.mu.Unlock()
	}
}

// ask answers what to send for a renewal at now: the life, trimmed to the term's end, or
// false when the term ended meanwhile or needs no more of it.
func (t *Term) ask(now clock.Instant) (life time.Duration, wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state != renewing || t.Overdue(now) {
		return 0, false
	}
	life = t.terms.Life
	if !t.terms.Until.IsZero() {
		life = min(life, t.terms.Until.Until(now))
	}
	if now.Add(life-Allowance(t.terms.Life)).Until(t.Deadline()) <= 0 {
		// As long as it may be already, but for what is allowed for clocks: only the deadline is
		// left, and a renewal on the last millisecond would hear that the key is gone. By either
		// clock: what the one trims must not shorten what the other lets live.
		t.mu.state = resting
		return 0, false
	}
	return life, true
}

// failed schedules the retry of a renewal that was refused or not answered: a twelfth of
// the life later, which leaves seven tries before the deadline.
func (t *Term) failed() {
	now := clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state != renewing {
		return
	}
	t.mu.state = resting
	t.mu.due = now.Mono() + t.terms.Life/12
	t.scheduleLocked(now)
}

// dueLocked rounds a renewal time down, so that terms of one length meet in batches.
func (t *Term) dueLocked(sent clock.Instant, in time.Duration) time.Duration {
	grain := max(t.terms.Life/150, time.Millisecond)
	due := sent.Mono() + in
	return due - due%grain
}

func (t *Term) scheduleLocked(now clock.Instant) {
	in := t.Deadline().Until(now)
	if t.mu.due != 0 {
		in = min(in, t.mu.due-now.Mono())
	}
	t.keeper.timers.Schedule(&t.entry, in)
}

// overdueCauseLocked says why a term has ended that reached its deadline, or whose key is gone.
func (t *Term) overdueCauseLocked(now clock.Instant) error {
	if until := t.terms.Until; !until.IsZero() && until.Add(-Allowance(t.terms.Life)).Reached(now) {
		return errs.ErrMaxHold
	}
	return errs.ErrLost
}

// endAndUnlock ends the term with the lock held, lets go of it, and tells the owner. The
// state makes it the only one to do so.
func (t *Term) endAndUnlock(cause error, taken bool) error {
	t.mu.state = ended
	t.mu.cause = cause
	t.keeper.timers.Cancel(&t.entry)
	t.mu.Unlock()
	t.owner.TermEnded(cause, taken)
	return cause
}
