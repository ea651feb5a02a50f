// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"context"
	"runtime/pprof"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers/wheel"
)

// rouse makes sure that the goroutine calls next in time for due, an entry that the wheel reported as earlier
// than its last result of Next.
//
// Why no entry is missed. The goroutine asks the wheel and acts on the result, to end or to sleep until
// target, within one hold of mu (next). A concurrent Schedule puts its entry into the wheel either before
// that question, and the result includes it; or after it, then the wheel reports the entry as earlier and
// Schedule calls rouse. There it has to wait for mu, and so finds what next decided: not running, and starts
// a goroutine; or asleep until target, and wakes it if target is too late. A goroutine that is neither is
// awake and will call next.
//
// The wheel reports only the first of several schedulings that are no earlier than each other. The others
// rely on the reporter: it is about to call rouse.
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
	default: // one is pending, it will do
	}
}

// run fires what is due and sleeps until the next entry, as long as there are entries. It has its label only while it
// sleeps: a goroutine that a Fire starts inherits the labels, and so would those of the client, which live as
// long as a connection.
func (t *Timers) run() {
	unlabelled := context.Background()
	labelled := pprof.WithLabels(unlabelled, pprof.Labels("signalbox", "timers"))
	pprof.SetGoroutineLabels(unlabelled) // not those of the caller of Schedule either
	due := make([]*wheel.Entry, 0, wheel.MaxBatch)
	sleep := time.NewTimer(time.Hour) // reset before each use
	defer sleep.Stop()
	for {
		t.compareClocks()
		target, ok := t.next()
		if !ok {
			return
		}
		if in := t.until(target); in > 0 {
			sleep.Reset(min(in, compareEvery))
			pprof.SetGoroutineLabels(labelled)
			isEarly := false
			select {
			case <-sleep.C:
			case <-t.wake: // for an earlier target, or to end
				isEarly = true
			}
			pprof.SetGoroutineLabels(unlabelled)
			if isEarly {
				t.reportWake(wokenEarly)
			}
			if isEarly || in > compareEvery {
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

// stoodStill waits for the end of a Pause, or for a wake-up, and reports whether it had to wait.
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
	case <-t.wake: // its reason is in the result below
	default:
	}
	if !t.closed.Load() {
		target, ok = t.wheel.Next()
	}
	t.mu.running, t.mu.target = ok, target
	return target, ok
}

// roused is what the test hook gets for a wake-up by rouse or Close.
const wokenEarly = -1

func (t *Timers) reportWake(fires int) {
	if t.onWake != nil {
		t.onWake(fires)
	}
}

// fire calls the events of a batch. Those left when Close is called never fire.
func (t *Timers) fire(due []*wheel.Entry) {
	for _, e := range due {
		if t.closed.Load() {
			return
		}
		e.Firer().Fire()
	}
}
