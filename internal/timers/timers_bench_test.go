// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"testing"
	"time"
)

// BenchmarkScheduleCancel is an uncontended lock taken and released, clock included.
func BenchmarkScheduleCancel(b *testing.B) {
	b.Run("impl=timers", func(b *testing.B) {
		timers := New()
		defer timers.Close()
		timer := newTestTimer(func() {})
		b.ReportAllocs()
		for b.Loop() {
			timers.Schedule(&timer.Entry, time.Hour)
			timers.Cancel(&timer.Entry)
		}
	})
	b.Run("impl=afterfunc", func(b *testing.B) {
		x := time.AfterFunc(time.Hour, func() {})
		b.ReportAllocs()
		for b.Loop() {
			x.Reset(time.Hour)
			x.Stop()
		}
	})
}

// BenchmarkReschedule is a lease renewed, clock included.
func BenchmarkReschedule(b *testing.B) {
	b.Run("impl=timers", func(b *testing.B) {
		timers := New()
		defer timers.Close()
		timer := newTestTimer(func() {})
		b.ReportAllocs()
		for b.Loop() {
			timers.Schedule(&timer.Entry, time.Hour)
		}
	})
	b.Run("impl=afterfunc", func(b *testing.B) {
		x := time.AfterFunc(time.Hour, func() {})
		defer x.Stop()
		b.ReportAllocs()
		for b.Loop() {
			x.Reset(time.Hour)
		}
	})
}
