// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	sbgocron "github.com/signalbox-go/signalbox/gocron"
	"github.com/signalbox-go/signalbox/once"
)

// Of five processes the leader alone runs jobs; when it dies, another one does, within its lease and a tick.
func TestTheLeaderAloneRunsJobs(t *testing.T) {
	t.Parallel()
	const processes, period = 5, time.Second
	bubble(t, func(w *world) {
		var mu sync.Mutex
		var runs []int
		stops := make([]func(), processes)
		for i := range processes {
			s := w.Session()
			elector := sbgocron.NewElector(s, "schedulers", signalbox.WithRenewedLease(5*time.Second))
			stop := w.schedule(gocron.CronJob("* * * * * *", true), func(context.Context) {
				mu.Lock()
				defer mu.Unlock()
				runs = append(runs, i)
			}, gocron.WithDistributedElector(elector))
			stops[i] = sync.OnceFunc(func() {
				stop()
				ends(s)
			})
			defer stops[i]()
		}
		leaders := make(map[int]bool)
		for range 3 {
			time.Sleep(100*period + period/2)
			mu.Lock()
			require.InDelta(w, 100, len(runs), 7)
			leader := runs[0]
			for _, i := range runs {
				require.Equal(w, leader, i)
			}
			runs = nil
			mu.Unlock()
			require.False(w, leaders[leader])
			leaders[leader] = true
			stops[leader]()
		}
	})
}

// Resign hands over at once, and nothing is wrong with one that is not the leader.
func TestResignHandsOver(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		first, second := sbgocron.NewElector(w.Session(), "a"), sbgocron.NewElector(w.Session(), "a")
		require.NoError(w, second.Resign())
		require.NoError(w, first.IsLeader(w.Context()))
		require.NoError(w, first.IsLeader(w.Context()))
		require.ErrorIs(w, second.IsLeader(w.Context()), signalbox.ErrHeld)
		require.NoError(w, first.Resign())
		require.NoError(w, second.IsLeader(w.Context()))
		require.ErrorIs(w, first.IsLeader(w.Context()), signalbox.ErrHeld)
		require.NoError(w, second.Resign())
		var unmade *sbgocron.Elector
		require.NoError(w, unmade.Resign())
		require.NoError(w, new(sbgocron.Elector).Resign())
		require.ErrorIs(w, unmade.IsLeader(w.Context()), signalbox.ErrBadOption)
		require.ErrorIs(w, new(sbgocron.Elector).IsLeader(w.Context()), signalbox.ErrBadOption)
		require.ErrorIs(w, sbgocron.NewElector(nil, "a").IsLeader(w.Context()), signalbox.ErrBadOption)
	})
}

// A hook that ends the goroutine of a request makes no process the leader, and the next call asks again.
func TestHookThatEndsTheRequestMakesNoLeader(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		calls := 0
		e := sbgocron.NewElector(w.Session(signalbox.WithObserver(signalbox.Observer{
			Acquired: func(ctx context.Context, _ signalbox.Event) context.Context {
				if calls++; calls == 1 {
					runtime.Goexit()
				}
				return ctx
			},
		})), "a")
		require.Error(w, e.IsLeader(w.Context()))
		require.NoError(w, e.IsLeader(w.Context()))
		require.NoError(w, e.Resign())
	})
}

// Five processes whose clocks differ by up to 200 ms run each of a hundred ticks once, whether the job
// is shorter than the difference, longer, or longer than the period.
func TestEachTickRunsOnceThoughClocksDiffer(t *testing.T) {
	t.Parallel()
	const processes, ticks, period = 5, 100, time.Second
	for _, work := range []time.Duration{0, 50 * time.Millisecond, 700 * time.Millisecond, 2500 * time.Millisecond} {
		t.Run(work.String(), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				var mu sync.Mutex
				runs := make(map[int64]int)
				began := time.Now()
				for i := range processes {
					clock := clockAhead(rand.N(200*time.Millisecond) + time.Duration(i-2)*time.Millisecond)
					locker := sbgocron.NewLocker(w.Session(), period).WithNow(clock.Now)
					defer w.schedule(gocron.CronJob("* * * * * *", true), func(context.Context) {
						tick := clock.Now().Round(period).Unix()
						time.Sleep(work)
						mu.Lock()
						defer mu.Unlock()
						runs[tick]++
					}, gocron.WithClock(clock), gocron.WithDistributedLocker(locker))()
				}
				time.Sleep(ticks*period + work + period/2)
				mu.Lock()
				seen := maps.Clone(runs)
				mu.Unlock()
				for n := 1; n <= ticks; n++ {
					tick := began.Add(time.Duration(n) * period).Unix()
					require.Equal(w, 1, seen[tick], n)
				}
			})
		})
	}
}

// A scheduler that comes late finds that the tick has run; the next tick is another.
func TestALateSchedulerSkipsTheTick(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		one, other := w.Session(), w.Session()
		lock, err := sbgocron.NewLocker(one, time.Minute).Lock(w.Context(), "job")
		require.NoError(w, err)
		require.NoError(w, lock.Unlock(w.Context()))
		require.NoError(w, lock.Unlock(w.Context()))
		time.Sleep(40 * time.Second)
		_, err = sbgocron.NewLocker(other, time.Minute).Lock(w.Context(), "job")
		require.ErrorIs(w, err, sbgocron.ErrRan)
		lock, err = sbgocron.NewLocker(other, time.Minute).Lock(w.Context(), "another job")
		require.NoError(w, err)
		require.NoError(w, lock.Unlock(w.Context()))
		time.Sleep(19*time.Second + 400*time.Millisecond)
		_, err = sbgocron.NewLocker(other, time.Minute).Lock(w.Context(), "job")
		require.ErrorIs(w, err, sbgocron.ErrRan, "late by almost a period")
		time.Sleep(200 * time.Millisecond) // within half a second before the next
		lock, err = sbgocron.NewLocker(other, time.Minute).Lock(w.Context(), "job")
		require.NoError(w, err)
		require.NoError(w, lock.Unlock(w.Context()))
	})
}

// Lock waits for no run: the other scheduler gets ErrRan at once. If the first one dies, the next call of Lock runs its tick.
func TestTheNextCallTakesOver(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		bubble(t, func(w *world) {
			one, other := w.Session(), w.Session()
			lock, err := sbgocron.NewLocker(one, time.Minute).Lock(w.Context(), "job")
			require.NoError(w, err)
			locker := sbgocron.NewLocker(other, time.Minute)
			job, remove := context.WithCancel(w.Context())
			defer remove()
			began := time.Now()
			_, err = locker.Lock(job, "job")
			require.ErrorIs(w, err, sbgocron.ErrRan)
			require.Less(w, time.Since(began), 50*time.Millisecond)
			if dies {
				ends(one)
				time.Sleep(time.Second)
				next, err := locker.Lock(job, "job")
				require.NoError(w, err)
				require.NoError(w, next.Unlock(job))
			} else {
				require.NoError(w, lock.Unlock(w.Context()))
			}
			_, err = locker.Lock(job, "job")
			require.ErrorIs(w, err, sbgocron.ErrRan)
			if dies {
				require.ErrorIs(w, lock.Unlock(w.Context()), signalbox.ErrClosed)
			}
		})
	}
}

// A scheduler that is shut down, and one with bad arguments, run nothing.
func TestLockReturnsWhatIsWrong(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		s := w.Session()
		lock, err := sbgocron.NewLocker(s, time.Minute).Lock(w.Context(), "job")
		require.NoError(w, err)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err = sbgocron.NewLocker(s, time.Minute).Lock(ctx, "job")
		require.ErrorIs(w, err, sbgocron.ErrRan)
		time.Sleep(2 * time.Second)
		_, err = sbgocron.NewLocker(s, time.Minute).Lock(ctx, "job")
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.NoError(w, lock.Unlock(ctx), "the job ran, though its context ended before")
		for _, bad := range []*sbgocron.Locker{
			nil, new(sbgocron.Locker), sbgocron.NewLocker(s, 0), sbgocron.NewLocker(s, time.Minute).WithNow(nil),
			sbgocron.NewLocker(nil, time.Minute), sbgocron.NewLocker(s, time.Minute, once.Keep(0)),
			sbgocron.NewLocker(s, time.Minute).PeriodOf("job", 0),
		} {
			_, err := bad.Lock(w.Context(), "job")
			require.ErrorIs(w, err, signalbox.ErrBadOption)
		}
		_, err = sbgocron.NewLocker(s, time.Minute).Lock(w.Context(), "")
		require.ErrorIs(w, err, signalbox.ErrBadName)
		_, err = sbgocron.NewLocker(s, time.Minute).Lock(nil, "job") //nolint:staticcheck // what is tested
		require.ErrorIs(w, err, signalbox.ErrBadOption)
	})
}

// A period or a clock that makes no sense is ErrBadOption, and one at its bounds works.
func TestPeriodsHaveBounds(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	bubble(t, func(w *world) {
		s := w.Session()
		lock := func(l *sbgocron.Locker) error {
			lock, err := l.Lock(w.Context(), "job")
			if err == nil {
				err = lock.Unlock(w.Context())
			}
			return err
		}
		for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, time.Millisecond - 1, year + 1, math.MaxInt64} {
			require.ErrorIs(t, lock(sbgocron.NewLocker(s, d)), signalbox.ErrBadOption, d)
			require.ErrorIs(t, lock(sbgocron.NewLocker(s, time.Minute).PeriodOf("job", d)), signalbox.ErrBadOption, d)
		}
		for _, d := range []time.Duration{time.Millisecond, year} {
			time.Sleep(time.Second) // another tick
			require.NoError(t, lock(sbgocron.NewLocker(s, d)), d)
		}
		for _, at := range []time.Time{{}, time.Unix(math.MinInt64, 0), time.Unix(1<<40, 0), time.Unix(math.MaxInt64, math.MaxInt64)} {
			require.ErrorIs(t, lock(sbgocron.NewLocker(s, time.Minute).WithNow(func() time.Time { return at })), signalbox.ErrBadOption, at)
		}
	})
}
