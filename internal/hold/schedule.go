// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"math/rand/v2"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// recheckPause is the longest pause before a question without a reply is asked again.
const recheckPause = time.Second

// resumedPause is the longest pause before a renewal is tried again while the host has just been suspended.
const resumedPause = 100 * time.Millisecond

// Fire implements timers.Firer: renewal, retry or deadline.
func (t *Term) Fire() {
	now := timers.Now()
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
		t.config.Keeper.due.Put(t)
	default:
		t.scheduleLocked(now)
		t.mu.Unlock()
	}
}

// nextRequest returns what to send at now: the life of a renewal that is due, trimmed to the term's end, or
// 0 for a question alone; or false when the term ended meanwhile or needs no more of it.
func (t *Term) nextRequest(now timers.Instant) (r renewal, wanted bool) {
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
		t.mu.due = timers.Instant{}
	}
	if t.config.Renewed && (isDue || !rechecks) {
		if r.life = t.lifeLocked(now); r.life > 0 {
			t.recordUseLocked(r.life)
			return r, true
		}
	}
	if !rechecks {
		t.mu.state = idle
	}
	return r, rechecks
}

// lifeLocked returns the life to request in a renewal at now, or 0 if a renewal can no longer help.
func (t *Term) lifeLocked(now timers.Instant) time.Duration {
	life := t.config.Life
	if t.config.AsGiven || t.config.MayBeIdle && !t.mu.lasted {
		life = t.mu.given
	}
	allowance := timers.Allowance(life)
	if until := t.config.Until; !until.IsZero() {
		life = min(life, until.Until(now))
	}
	if now.Mono()+life-allowance <= t.Deadline().Mono() {
		// The life is already as long as it may be, less the allowance for clocks. Only the deadline is left,
		// and a renewal in the last millisecond would find the key gone. If the wall clock is ahead and trims
		// the life, that must not shorten the key either. So the monotonic clock decides: a wall clock that
		// was set back must not make a renewal seem useless.
		return 0
	}
	return life
}

// recordUseLocked records that a renewal is about to ask for life.
func (t *Term) recordUseLocked(life time.Duration) {
	t.mu.isLong = t.mu.isLong || life > t.mu.given
	t.mu.lasted = !t.mu.unused
}

// failed schedules the retry of a renewal that was refused or had no reply: after a twelfth of the term's
// life, which leaves seven tries before the deadline, or sooner if there is a question, or if the host has just been
// suspended: then little may be left, and it is the connection that failed. A try that would come after the deadline comes halfway to
// it, so that a server that returns in the last twelfth is not missed.
func (t *Term) failed() {
	now := timers.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.state != renewing {
		return
	}
	t.mu.state = idle
	pause := t.mu.given / 12
	if left := t.Deadline().Until(now); pause >= left {
		pause = max(left/2, minPatience)
	}
	if t.config.Keeper.timers.JustResumed(now) {
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

func (t *Term) isDueLocked(now timers.Instant) bool {
	return !t.mu.due.IsZero() && t.mu.due.Reached(now)
}

// jitter returns a time in the last half of interval, at random, so that locks which were acquired at once are
// not renewed at once.
func jitter(interval time.Duration) time.Duration {
	return interval/2 + rand.N(interval-interval/2)
}

// grainLocked returns by how much a renewal may come sooner, so that terms of one life meet in batches: a fiftieth of the interval.
// Unused terms may be many, and cost the others most if they are renewed one by one: they meet four times in an interval.
func (t *Term) grainLocked(interval time.Duration) time.Duration {
	if t.mu.unused {
		return max(interval/4, time.Millisecond)
	}
	return max(interval/50, time.Millisecond)
}

// dueAfter returns when a renewal is due, in after sent: rounded down to a multiple of grain.
func dueAfter(sent timers.Instant, grain, in time.Duration) timers.Instant {
	over := (sent.Mono() + in) % grain
	if over < 0 {
		over += grain // down, also before the instant that the clock counts from
	}
	return sent.Add(in - over)
}

func (t *Term) scheduleLocked(now timers.Instant) {
	in := t.Deadline().Until(now)
	switch { // while renewing the reply comes first, or the deadline
	case t.mu.state != idle:
	case t.mu.recheck == recheckDue:
		in = 0
	case !t.mu.due.IsZero():
		in = min(in, t.mu.due.Until(now))
	}
	t.config.Keeper.timers.Schedule(&t.timer, in)
}
