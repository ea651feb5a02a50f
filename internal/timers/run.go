// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"context"
	"runtime/pprof"
	"time"
)

// wakeFor makes sure that the goroutine calls next in time for due, an entry that the wheel reported as earlier
// than its last result of Next.
//
// Why no entry is missed. The goroutine reads the wheel's next tick and acts on it, to end or to sleep until
// target, under one lock of mu (next). A concurrent Schedule puts its entry into the wheel either before next
// reads the tick, and the tick includes the entry; or after it, then the wheel reports the entry as earlier and
// Schedule calls wakeFor. There it has to wait for mu, and so finds what next decided: not running, and starts
// a goroutine; or asleep until target, and wakes it if target is too late. A goroutine that is neither is
// awake and will call next.
//
// The wheel reports only the first of several schedulings that are no earlier than each other. The others
// rely on the reporter: it is about to call wakeFor.
func (t *Timers) wakeFor(due int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed.Load():
	case !t.mu.running:
		t.mu.running = true
		t.mu.target = due
		t.resetComparison(readClocks())
		t.goroutine.Go(t.run)
	case due < t.mu.target:
		t.mu.target = due
		t.wakeLocked()
	}
}

func (t *Timers) wakeLocked() {
	select {
	case t.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// run fires what is due and sleeps until the next entry, as long as there are entries. It has its label only while it
// sleeps: a goroutine that a Fire starts inherits the labels, and so would those of the client, which live as
// long as a connection.
//
// Why the target stays known after a sleep that ended only for the clocks to be compared. The wheel did not advance, and
// an entry that was scheduled for before the target is announced by wakeFor: the wake-up is in the channel or on
// the way there, and ends the next sleep. Whatever empties the channel, a sleep or the wait for the end of a Pause, is
// followed by next. An entry that was cancelled or postponed leaves the target too early, which costs one needless wake-up. An
// empty wheel must end the goroutine, so that alone is checked, without a search for the next tick.
func (t *Timers) run() {
	unlabelled := context.Background()
	labelled := pprof.WithLabels(unlabelled, pprof.Labels("signalbox", "timers"))
	pprof.SetGoroutineLabels(unlabelled) // the caller of Schedule may have labels, which are inherited
	due := make([]*Timer, 0, MaxBatch)
	sleep := time.NewTimer(time.Hour) // reset before each use
	defer sleep.Stop()
	var target int64
	isKnown := false
	for {
		t.compareClocks()
		if !isKnown || t.wheel.Len() == 0 {
			var ok bool
			if target, ok = t.next(); !ok {
				return
			}
		}
		isKnown = false
		if in := t.until(target); in > 0 {
			sleep.Reset(min(in, compareEvery))
			pprof.SetGoroutineLabels(labelled)
			isEarly := false
			select {
			case <-sleep.C:
				isKnown = in > compareEvery
			case <-t.wake: // for an earlier target, or to end
				isEarly = true
			}
			pprof.SetGoroutineLabels(unlabelled)
			if isEarly {
				t.reportWake(wokenEarly)
			}
			if isEarly || isKnown {
				continue
			}
		}
		if t.waitWhilePaused() {
			continue
		}
		due = t.wheel.Advance(t.nowTick(), due[:0])
		t.reportWake(len(due))
		t.fire(due)
		clear(due) // what was fired must not be kept alive by the buffer
	}
}

// waitWhilePaused waits for the end of a Pause, or for a wake-up, and reports whether it had to wait.
func (t *Timers) waitWhilePaused() bool {
	t.mu.Lock()
	paused := t.mu.paused
	t.mu.Unlock()
	if paused == nil {
		return false
	}
	select {
	case <-paused:
	case <-t.wake: // to end, or for an earlier target, which waits as well
	}
	return true
}

// next decides whether the goroutine continues, and until when it sleeps.
func (t *Timers) next() (target int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.wake: // the result below includes the entry that it announced
	default:
	}
	if !t.closed.Load() {
		target, ok = t.wheel.Next()
	}
	t.mu.running, t.mu.target = ok, target
	return target, ok
}

// wokenEarly is what the test hook gets for a wake-up by wakeFor or Close.
const wokenEarly = -1

func (t *Timers) reportWake(fires int) {
	if t.onWake != nil {
		t.onWake(fires)
	}
}

// fire fires the entries of a batch. The entries that are left when Close is called never fire.
func (t *Timers) fire(due []*Timer) {
	for _, e := range due {
		if t.closed.Load() {
			return
		}
		e.Firer().Fire()
	}
}
