// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCloseEndsTheGoroutineAndNothingFiresAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		x := newTestTimer(func() { t.Error("fired") })
		b.Schedule(&x.Entry, time.Second)
		synctest.Wait()
		b.Close()
		b.Close()
		require.Zero(t, time.Since(b.start), "Close waited for the sleep to end by itself")
		b.Schedule(&x.Entry, 0)
		time.Sleep(time.Hour)
		require.False(t, b.isRunning())
	})
}

func TestCloseBeforeFirstUseReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		b.Close()
		x := newTestTimer(func() { t.Error("fired") })
		b.Schedule(&x.Entry, 0)
		require.False(t, b.Cancel(&x.Entry))
		time.Sleep(time.Hour)
	})
}

func TestEveryCloseWaitsForTheRunningFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		var done counter
		slow := newTestTimer(func() {
			time.Sleep(time.Minute)
			done.add()
		})
		next := newTestTimer(func() { t.Error("fired after Close") })
		b.Schedule(&slow.Entry, time.Second)
		b.Schedule(&next.Entry, time.Second+tick)
		time.Sleep(2 * time.Second)
		seen := make(chan int, 2)
		for range 2 {
			go func() {
				b.Close()
				seen <- done.get()
			}()
		}
		require.Equal(t, 1, <-seen)
		require.Equal(t, 1, <-seen)
		require.Equal(t, time.Minute+time.Second, time.Since(b.start))
	})
}

func TestCloseInTheMiddleOfABatchDropsTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		var fires counter
		for range 10 {
			x := newTestTimer(func() {
				fires.add()
				time.Sleep(time.Second)
			})
			b.Schedule(&x.Entry, time.Second)
		}
		time.Sleep(3500 * time.Millisecond) // the third of them is running
		b.Close()
		require.Equal(t, 3, fires.get())
		time.Sleep(time.Minute)
		require.Equal(t, 3, fires.get())
	})
}

// What is due in a pause fires when it is over, and not before; Close does not wait for its end.
func TestNothingFiresInAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		var fired counter
		x, y, z := newTestTimer(fired.add), newTestTimer(fired.add), newTestTimer(fired.add)
		b.Schedule(&x.Entry, time.Second)
		b.Schedule(&y.Entry, time.Hour)
		b.Pause()
		b.Pause()
		time.Sleep(time.Minute)
		require.Zero(t, fired.get())
		b.Schedule(&z.Entry, 0)
		synctest.Wait()
		require.Zero(t, fired.get())
		b.Resume()
		b.Resume()
		synctest.Wait()
		require.Equal(t, 2, fired.get())
		b.Pause()
		time.Sleep(2 * time.Hour)
		b.Close()
		require.Equal(t, 2, fired.get())
	})
}
