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
		f := newFixture()
		timer := newTestTimer(func() { t.Error("fired") })
		f.Schedule(&timer.Timer, time.Second)
		synctest.Wait()
		f.Close()
		f.Close()
		require.Zero(t, time.Since(f.start), "Close waited for the sleep to end by itself")
		late := newTestTimer(func() { t.Error("fired") })
		f.Schedule(&late.Timer, 0)
		require.False(t, f.Cancel(&late.Timer))
		time.Sleep(time.Hour)
		require.False(t, f.isRunning())
	})
}

func TestEveryCloseWaitsForTheRunningFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		var done counter
		slow := newTestTimer(func() {
			time.Sleep(time.Minute)
			done.add()
		})
		next := newTestTimer(func() { t.Error("fired after Close") })
		f.Schedule(&slow.Timer, time.Second)
		f.Schedule(&next.Timer, time.Second+tick)
		time.Sleep(2 * time.Second)
		seen := make(chan int, 2)
		for range 2 {
			go func() {
				f.Close()
				seen <- done.get()
			}()
		}
		require.Equal(t, 1, <-seen)
		require.Equal(t, 1, <-seen)
		require.Equal(t, time.Minute+time.Second, time.Since(f.start))
	})
}

// What is due in a pause fires when it is over, and not before; Close does not wait for its end.
func TestNothingFiresInAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		var fired counter
		timer, y, z := newTestTimer(fired.add), newTestTimer(fired.add), newTestTimer(fired.add)
		f.Schedule(&timer.Timer, time.Second)
		f.Schedule(&y.Timer, time.Hour)
		f.Pause()
		f.Pause()
		time.Sleep(time.Minute)
		require.Zero(t, fired.get())
		f.Schedule(&z.Timer, 0)
		synctest.Wait()
		require.Zero(t, fired.get())
		f.Resume()
		f.Resume()
		synctest.Wait()
		require.Equal(t, 2, fired.get())
		f.Pause()
		time.Sleep(2 * time.Hour)
		f.Close()
		require.Equal(t, 2, fired.get())
	})
}
