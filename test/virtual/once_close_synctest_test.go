// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
)

// Close in every state: callers that wait get ErrClosed at once, and a run ends with the grace.
func TestOnceAndClose(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		runner, _, closeRunner := f.session(f.T)
		defer closeRunner()
		other, _, closeOther := f.session(f.T)
		defer closeOther()
		running := laterOnce(f.Context(), once.New(runner, "a"), "x", time.Hour)
		here := laterOnce(f.Context(), once.New(runner, "a"), "y", 0)
		there := laterOnce(f.Context(), once.New(other, "a"), "z", 0)
		behind := laterOnce(f.Context(), once.New(other, "a"), "z", 0)

		began := time.Now()
		require.NoError(f, other.Close(f.Context()))
		require.ErrorIs(f, (<-there).err, signalbox.ErrClosed)
		require.ErrorIs(f, (<-behind).err, signalbox.ErrClosed)
		require.Zero(f, time.Since(began).Truncate(100*time.Millisecond))

		require.Error(f, runner.Close(f.Context()))
		require.LessOrEqual(f, time.Since(began), 6*time.Second)
		waited := <-here
		require.ErrorIs(f, waited.err, signalbox.ErrClosed)
		require.Less(f, waited.at.Sub(began), 100*time.Millisecond)
		r := <-running
		require.ErrorIs(f, r.err, signalbox.ErrLost)
		require.True(f, r.ran)
		require.Zero(f, f.left("a"))
		require.ErrorIs(f, doOnce(f.Context(), once.New(runner, "a"), "x", 0).err, signalbox.ErrClosed)
	})
}

// A run whose session was closed while it ran, and that pays no heed, stores nothing.
func TestOnceRunBeyondCloseStoresNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		other, _, closeOther := f.session(f.T)
		defer closeOther()
		returned := make(chan error, 1)
		go func() {
			_, _, err := once.New(s, "a").Do(f.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
				time.Sleep(time.Minute)
				return []byte("x"), nil
			})
			returned <- err
		}()
		synctest.Wait()
		require.Error(f, s.Close(f.Context()))
		err := <-returned
		require.ErrorIs(f, err, signalbox.ErrStale)
		require.ErrorIs(f, err, signalbox.ErrClosed)
		_, stored, err := once.New(other, "a").Get(f.Context())
		require.NoError(f, err)
		require.False(f, stored)
	})
}

// A caller that begins after Forget returned, in the same session, gets no outcome from before it, though
// it may run after calls that were sent before.
func TestOnceGetsNothingFromBeforeForget(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(10, 100)) {
		bubble(t, func(f *fixture) {
			random := rand.New(rand.NewPCG(seed, 1))
			var all sync.WaitGroup
			var number, forgotten atomic.Int64 // values rise; those up to forgotten were forgotten
			for i := range 3 {
				s, link, closeAll := f.session(f.T)
				defer closeAll()
				link.latency.Store(int64(time.Duration(i) * time.Millisecond))
				for range 4 {
					pause := time.Duration(random.IntN(3000)) * time.Microsecond
					all.Go(func() {
						o := once.New(s, "a")
						for range 20 {
							since := forgotten.Load()
							value, _, err := o.Do(f.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
								return fmt.Append(nil, number.Add(1)), nil
							})
							if err != nil && !errors.Is(err, signalbox.ErrStale) {
								f.Error(err)
								return
							}
							var n int64
							_, _ = fmt.Sscan(string(value), &n)
							if n <= since {
								f.Errorf("seed %d: %d is of before %d", seed, n, since)
							}
							time.Sleep(pause)
						}
					})
				}
				all.Go(func() {
					for range 10 {
						time.Sleep(4 * time.Millisecond)
						upTo := number.Load() // all that is stored when Forget begins
						value, stored, err := once.New(s, "a").Get(f.Context())
						if err != nil || !stored {
							continue
						}
						_, _ = fmt.Sscan(string(value), &upTo)
						if err := once.New(s, "a").Forget(f.Context()); err != nil {
							f.Error(err)
						}
						for old := forgotten.Load(); old < upTo && !forgotten.CompareAndSwap(old, upTo); old = forgotten.Load() {
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// Each tick of a schedule runs once, over five processes whose clocks differ by up to 200 ms.
func TestOnceRunsEachTickOnceThoughClocksDiffer(t *testing.T) {
	t.Parallel()
	const processes, ticks, period = 5, 100, time.Second
	bubble(t, func(f *fixture) {
		var mu sync.Mutex
		runs := make(map[time.Time]int)
		start := time.Now().Truncate(period).Add(period)
		var all sync.WaitGroup
		for range processes {
			s, _, closeAll := f.session(f.T)
			defer closeAll()
			ahead := rand.N(400*time.Millisecond) - 200*time.Millisecond
			all.Go(func() {
				job := once.New(s, "job", once.Keep(time.Minute))
				for n := range ticks {
					due := start.Add(time.Duration(n) * period)
					time.Sleep(time.Until(due.Add(-ahead)))
					now := time.Now().Add(ahead) // by its own clock
					_, _, err := job.At(now.Round(period)).Do(f.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
						mu.Lock()
						defer mu.Unlock()
						runs[due]++
						return nil, nil
					})
					if err != nil {
						f.Error(err)
					}
				}
			})
		}
		all.Wait()
		require.Len(f, runs, ticks)
		for tick, n := range runs {
			require.Equal(f, 1, n, tick)
		}
	})
}

// P7: a call that waits has no goroutine of the library's, however many wait.
func TestOnceWaitersHaveNoGoroutines(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		runner, _, closeRunner := f.session(f.T)
		defer closeRunner()
		waiters, _, closeWaiters := f.session(f.T)
		defer closeWaiters()
		running := laterOnce(f.Context(), once.New(runner, "a"), "x", 3*time.Minute)
		var waiting []<-chan doResult
		for range 100 {
			waiting = append(waiting, laterOnce(f.Context(), once.New(waiters, "a"), "y", 0))
		}
		time.Sleep(time.Minute)
		f.scripts.Store(0)
		time.Sleep(time.Minute)
		require.LessOrEqual(f, f.scripts.Load(), int64(60*2+10), "polls and renewals")
		require.LessOrEqual(f, goroutines(), 10)
		<-running
		for _, one := range waiting {
			require.Equal(f, "x", (<-one).value)
		}
	})
}
