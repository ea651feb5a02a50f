// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tick is the resolution. Leases last seconds: one millisecond is far below what
	// a round trip to the server varies by, and bounds the wake-ups to 1000 a second.
	tick = time.Millisecond
	// slots makes a turn of 4 seconds. An entry that renews a lease of some ten
	// seconds is passed over once or twice, and an idle wheel takes 64 KiB.
	slots = 4096
	// compareEvery is how often the goroutine compares the clocks, at least. With that a lease ends within half a second
	// after a suspended host resumes.
	compareEvery = 400 * time.Millisecond
	// clockNoise is by how much the clocks may come apart before that counts: they are read one after the other.
	clockNoise = 20 * time.Millisecond
	// resumeGrace is how long a host counts as just resumed. Its network may need some seconds.
	resumeGrace = 5 * time.Second
	// maxSuspension is what one suspension counts as, at most. It is longer than any delay, and a wall clock that is set by
	// centuries must not overflow.
	maxSuspension = 30 * 24 * time.Hour
)

// Timers fires timers after a delay. New makes one; all methods may be called by any
// goroutine at any time, except that Close must not be called from Fire.
type Timers struct {
	wheel *Wheel    // assigned once
	base  time.Time // tick 0, with monotonic reading; assigned once

	// closed is set once, under mu. It is read without mu by Schedule, to return
	// early, and by the goroutine between two Fires.
	closed atomic.Bool

	// wake ends the sleep of the goroutine. It has room for one wake-up: wake-ups coalesce.
	// It is sent to and emptied under mu only, so no wake-up outlives the sleep it is for.
	wake chan struct{}
	// goroutine is waited for by Close. Added to under mu while closed is false,
	// so never after Close began to wait.
	goroutine sync.WaitGroup

	// suspended is how long the host was suspended in all, as far as compareClocks noticed; nanoseconds.
	suspended atomic.Int64
	// resumedAt says when compareClocks noticed the last suspension, on the monotonic clock of Instant; 0 is never.
	resumedAt atomic.Int64
	// onSuspended is called by compareClocks; nil without OnSuspended.
	onSuspended func(Suspension)
	// compared is what compareClocks saw last. It belongs to the goroutine, and to wakeFor while no goroutine runs.
	compared struct {
		lead time.Duration // by how much the wall clock was ahead of the monotonic one
		at   time.Duration // when that was, on the monotonic clock
	}

	// onWake is a test hook: it gets how many timers a wake-up is about to fire, or wokenEarly. Assigned before
	// first use, nil outside of tests.
	onWake func(fires int)

	mu struct {
		sync.Mutex
		// running says that a goroutine will call next once more.
		running bool
		// paused is closed by Resume, and nil without a Pause.
		paused chan struct{}
		// target is the tick that the goroutine sleeps until, or is to sleep until. It has no
		// meaning while the goroutine is awake or not running.
		target int64
	}
}

// New returns Timers with nothing scheduled. It starts nothing.
func New() *Timers {
	return &Timers{
		wheel: NewWheel(slots),
		base:  time.Now(),
		wake:  make(chan struct{}, 1),
	}
}

// Suspension is a time in which the monotonic clock stood still, and the wall clock did not.
type Suspension struct {
	// Lasted is how much further the wall clock went.
	Lasted time.Duration
	// Before is when the clocks were last known to go alike, on the monotonic clock of Instant.
	Before time.Duration
}

// OnSuspended makes t call suspended after a time in which the host was suspended, on the goroutine of the Fires, before the
// timers fire that have come due by it. Call it once, before anything is scheduled.
func (t *Timers) OnSuspended(suspended func(Suspension)) { t.onSuspended = suspended }

// Schedule makes e fire once, no earlier than in from now, and as soon as possible if
// in is not positive. It replaces what was scheduled for e before. After Close it does
// nothing.
func (t *Timers) Schedule(e *Timer, in time.Duration) {
	if t.closed.Load() {
		return
	}
	due := t.dueTick(in)
	if t.wheel.Schedule(e, due) {
		t.wakeFor(due)
	}
}

// Cancel makes e not fire. It returns true if Fire will not be called for the
// scheduling it cancelled, and false if there was none, or its Fire has begun or is
// about to.
func (t *Timers) Cancel(e *Timer) bool {
	return t.wheel.Cancel(e)
}

// Pause makes time stand still: nothing fires until Resume. A Fire that has begun, or is about to, ends.
// It is for tests, in which a process stops and the others continue.
func (t *Timers) Pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.paused == nil {
		t.mu.paused = make(chan struct{})
	}
}

// Resume ends Pause. What is due by then fires at once, oldest first.
func (t *Timers) Resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.paused != nil {
		close(t.mu.paused)
		t.mu.paused = nil
	}
}

// Close stops the goroutine and waits for it. What is still scheduled never fires. A
// second call waits, too, and is otherwise without effect. Called from Fire it waits
// for itself, forever.
func (t *Timers) Close() {
	t.mu.Lock()
	t.closed.Store(true)
	t.wakeLocked()
	t.mu.Unlock()
	t.goroutine.Wait()
}

// dueTick returns the first tick no earlier than in from now, or the present one if in
// is not positive.
func (t *Timers) dueTick(in time.Duration) int64 {
	now := t.elapsed()
	if in <= 0 {
		return int64(now / tick)
	}
	if in > math.MaxInt64-now {
		return math.MaxInt64 // centuries: never
	}
	due := now + in
	n := int64(due / tick)
	if due%tick != 0 {
		n++
	}
	return n
}

// elapsed returns the time since New, including the time in which the host was suspended.
func (t *Timers) elapsed() time.Duration {
	return time.Since(t.base) + time.Duration(t.suspended.Load())
}

// nowTick returns the last tick that has passed.
func (t *Timers) nowTick() int64 { return int64(t.elapsed() / tick) }

// until returns how long it is to the given tick.
func (t *Timers) until(target int64) time.Duration {
	if target > int64(math.MaxInt64/tick) {
		return math.MaxInt64
	}
	return time.Duration(target)*tick - t.elapsed()
}

// compareClocks compares the clocks. If the wall clock went further than the monotonic one, the host was suspended meanwhile, or
// the wall clock was set forward. Both look alike, and both count as time that has passed: the timers come due that
// much earlier. A wall clock that was set back changes nothing.
func (t *Timers) compareClocks() {
	now := readClocks()
	ahead, before := now.Lead()-t.compared.lead, t.compared.at
	t.compared.at = now.Mono()
	switch {
	case ahead < 0:
		t.compared.lead = now.Lead()
	case ahead >= clockNoise:
		t.compared.lead = now.Lead()
		t.suspended.Add(int64(min(ahead, maxSuspension)))
		t.resumedAt.Store(int64(now.Mono()))
		if t.onSuspended != nil {
			t.onSuspended(Suspension{Lasted: ahead, Before: before})
		}
	}
}

// JustResumed reports whether the host was suspended until some seconds before now: calls may fail because its connections
// are gone, or its network is not up yet.
func (t *Timers) JustResumed(now Instant) bool {
	woke := t.resumedAt.Load()
	return woke != 0 && now.Mono()-time.Duration(woke) < resumeGrace
}

// resetComparison starts a new comparison: the clocks go alike as of now.
func (t *Timers) resetComparison(now Instant) {
	t.compared.lead, t.compared.at = now.Lead(), now.Mono()
}

// readClocks reads both clocks. The wall clock is read first: a goroutine that loses its processor between the two sees
// the wall clock lag, and would see a suspension the next time. So both are read twice, and the readings that lag less are returned.
func readClocks() Instant {
	now := Now()
	if again := Now(); again.Lead() > now.Lead() {
		return again
	}
	return now
}

// Collector gathers values that come one by one and are worth doing together:
//
//  1. A value is handed to the work function once, at the next tick of the timers, with every other value that was put
//     until then. Put never blocks and starts no goroutine.
//  2. The work function runs on a goroutine of its own, which exists only while it runs. Two batches may be worked on
//     at the same time.
//  3. After Close nothing is worked on, and Close has waited for the work under way.
type Collector[T any] struct {
	timers *Timers
	work   func([]T)
	flush  Timer
	wg     sync.WaitGroup // goroutines in work

	mu struct {
		sync.Mutex
		batch  []T
		closed bool
	}
}

// NewCollector returns a Collector that hands what it gathered to work.
func NewCollector[T any](t *Timers, work func([]T)) *Collector[T] {
	c := &Collector[T]{timers: t, work: work}
	c.flush.Init(c)
	return c
}

// Put adds values to the current batch.
func (c *Collector[T]) Put(values ...T) {
	c.mu.Lock()
	first := len(c.mu.batch) == 0 && !c.mu.closed
	if !c.mu.closed {
		c.mu.batch = append(c.mu.batch, values...)
	}
	c.mu.Unlock()
	if first {
		// One tick later everything that falls due in this tick has been put.
		c.timers.Schedule(&c.flush, time.Millisecond)
	}
}

// Fire implements Firer: the batch is complete.
func (c *Collector[T]) Fire() {
	c.mu.Lock()
	batch := c.mu.batch
	c.mu.batch = nil
	if c.mu.closed || len(batch) == 0 {
		c.mu.Unlock()
		return
	}
	// Under the lock, so that Close, which sets closed first, waits for this one.
	c.wg.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.wg.Done()
		c.work(batch)
	}()
}

// Close drops the current batch and waits for the work under way.
func (c *Collector[T]) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.batch = nil
	c.mu.Unlock()
	c.timers.Cancel(&c.flush)
	c.wg.Wait()
}
