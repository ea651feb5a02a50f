// SPDX-License-Identifier: Apache-2.0

package wheel

import (
	"time"

	"github.com/RussellLuo/timingwheel"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// rival is one implementation with a number of timers, all of which it can have pending.
type rival interface {
	schedule(i int, in time.Duration) // again, if pending
	cancel(i int)
	close()
}

var rivals = []struct {
	name string
	make func(n int) rival
}{
	{"wheel", newWheel},
	{"timers", newTimers},
	{"afterfunc", newAfterFunc},
	{"timingwheel", newTimingWheel},
}

// timed is what a user of the project's wheel embeds the entry in.
type timed struct{ timers.Timer }

func (*timed) Fire() {}

func newTimed(n int) []timed {
	all := make([]timed, n)
	for i := range all {
		all[i].Init(&all[i])
	}
	return all
}

type wheelRival struct {
	w   *timers.Wheel
	all []timed
}

func newWheel(n int) rival {
	r := wheelRival{timers.NewWheel(4096), newTimed(n)}
	r.w.Advance(0, nil)
	return r
}

func (r wheelRival) schedule(i int, in time.Duration) {
	r.w.Schedule(&r.all[i].Timer, int64(in/time.Millisecond))
}
func (r wheelRival) cancel(i int) { r.w.Cancel(&r.all[i].Timer) }
func (r wheelRival) close()       {}

type timersRival struct {
	t   *timers.Timers
	all []timed
}

func newTimers(n int) rival { return timersRival{timers.New(), newTimed(n)} }

func (r timersRival) schedule(i int, in time.Duration) { r.t.Schedule(&r.all[i].Timer, in) }
func (r timersRival) cancel(i int)                     { r.t.Cancel(&r.all[i].Timer) }
func (r timersRival) close()                           { r.t.Close() }

type afterFuncRival []*time.Timer

func newAfterFunc(n int) rival {
	r := make(afterFuncRival, n)
	for i := range r {
		r[i] = time.AfterFunc(24*time.Hour, func() {})
	}
	return r
}

func (r afterFuncRival) schedule(i int, in time.Duration) { r[i].Reset(in) }
func (r afterFuncRival) cancel(i int)                     { r[i].Stop() }

func (r afterFuncRival) close() {
	for _, t := range r {
		t.Stop()
	}
}

type timingWheelRival struct {
	tw  *timingwheel.TimingWheel
	all []*timingwheel.Timer
}

func newTimingWheel(n int) rival {
	r := timingWheelRival{timingwheel.NewTimingWheel(time.Millisecond, 4096), make([]*timingwheel.Timer, n)}
	r.tw.Start()
	return r
}

func (r timingWheelRival) schedule(i int, in time.Duration) {
	r.cancel(i)
	r.all[i] = r.tw.AfterFunc(in, func() {})
}

func (r timingWheelRival) cancel(i int) {
	if t := r.all[i]; t != nil {
		t.Stop()
	}
}
func (r timingWheelRival) close() { r.tw.Stop() }
