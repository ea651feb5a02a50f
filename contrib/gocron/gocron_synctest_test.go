// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	sbgocron "github.com/signalbox-go/signalbox/contrib/gocron"
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

// tally counts the runs of a job that began, and those that ended.
type tally struct {
	mu    sync.Mutex
	began map[int]int // by the second
	whole int
	last  int // the scheduler that began the last run
}

// process is a scheduler with one job, which can die.
type process struct {
	session *signalbox.Session
	dead    atomic.Bool
	stop    func()
}

// schedulers starts n schedulers with one job that takes longer than its period.
func (w *world) schedulers(n int, work time.Duration, all *tally, ready func(*sbgocron.Locker, gocron.Scheduler)) []*process {
	began := time.Now()
	processes := make([]*process, n)
	for i := range processes {
		p := &process{session: w.Session()}
		processes[i] = p
		locker := sbgocron.NewLocker(p.session, time.Second, signalbox.WithRenewedLease(5*time.Second))
		scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC), gocron.WithDistributedLocker(locker))
		require.NoError(w, err)
		ready(locker, scheduler)
		job, err := scheduler.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(func() {
			if p.dead.Load() {
				return
			}
			all.mu.Lock()
			all.began[int(time.Since(began).Round(time.Second)/time.Second)]++
			all.last = i
			all.mu.Unlock()
			time.Sleep(work)
			if p.dead.Load() {
				return
			}
			all.mu.Lock()
			all.whole++
			all.mu.Unlock()
		}), gocron.WithName("job"))
		require.NoError(w, err)
		scheduler.Start()
		p.stop = func() {
			_ = scheduler.RemoveJob(job.ID())
			time.Sleep(work + 10*time.Second)
			_ = scheduler.Shutdown()
		}
	}
	return processes
}

// Five schedulers, and up to four of them die in a job that takes three or ten periods. Each tick begins in its second, and no
// tick is lost: with an attached scheduler, as many runs end as there were ticks.
func TestNoTickIsLostWhileASchedulerLives(t *testing.T) {
	t.Parallel()
	ticks := 100
	if testing.Short() {
		ticks = 50
	}
	for _, c := range []struct {
		work     time.Duration
		deaths   int
		attached bool
	}{
		{2500 * time.Millisecond, 4, true},
		{9500 * time.Millisecond, 3, true},
		{9500 * time.Millisecond, 4, false},
		{2500 * time.Millisecond, 0, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				all := &tally{began: make(map[int]int)}
				processes := w.schedulers(5, c.work, all, func(l *sbgocron.Locker, s gocron.Scheduler) {
					if c.attached {
						l.Attach(s)
					}
				})
				time.Sleep(600 * time.Millisecond) // no run ends at the instant of a death: it might be stored, and not be counted
				died := 0
				for tick := 1; tick <= ticks; tick++ {
					time.Sleep(time.Second)
					if died < c.deaths && tick%10 == 0 {
						all.mu.Lock()
						p := processes[all.last]
						all.mu.Unlock()
						if !p.dead.Swap(true) {
							died++
							w.Partition(p.session) // its leases are left
						}
					}
				}
				require.Equal(w, c.deaths, died)
				time.Sleep(30 * time.Second)
				var lost []int
				again := 0
				all.mu.Lock()
				whole := all.whole
				for tick := 1; tick <= ticks; tick++ {
					if all.began[tick] == 0 {
						lost = append(lost, tick)
					}
					again += max(all.began[tick]-1, 0)
				}
				all.mu.Unlock() // before a check that may end the test: the jobs need it
				require.Empty(w, lost)
				if c.deaths == 0 {
					require.Zero(w, again)
				}
				// A run that ended is one of these ticks, or of those after them.
				if c.attached {
					require.GreaterOrEqual(w, whole, ticks+30-int(c.work/time.Second)-1)
				}
				w.Logf("%d runs ended; %d of %d ticks lost, %d seconds with a second run, after %d deaths", whole, len(lost), ticks, again, died)
				for _, p := range processes {
					p.stop()
				}
			})
		})
	}
}

// A job that runs elsewhere holds up no other job of a scheduler that runs one job at a time.
func TestLockHoldsUpNoOtherJob(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		var mu sync.Mutex
		var late []time.Duration
		var stops []func()
		for range 2 {
			scheduler, err := gocron.NewScheduler(gocron.WithLimitConcurrentJobs(1, gocron.LimitModeWait), gocron.WithLocation(time.UTC),
				gocron.WithDistributedLocker(sbgocron.NewLocker(w.Session(), time.Minute)))
			require.NoError(w, err)
			long, err := scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(func() { time.Sleep(50 * time.Second) }), gocron.WithName("long"))
			require.NoError(w, err)
			brief, err := scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(func() {
				mu.Lock()
				defer mu.Unlock()
				late = append(late, time.Since(time.Now().Truncate(time.Minute)))
			}), gocron.WithName("brief"))
			require.NoError(w, err)
			scheduler.Start()
			stops = append(stops, func() {
				_ = scheduler.RemoveJob(long.ID())
				_ = scheduler.RemoveJob(brief.ID())
				time.Sleep(time.Minute)
				_ = scheduler.Shutdown()
			})
		}
		time.Sleep(10*time.Minute + 30*time.Second)
		mu.Lock()
		delays := slices.Clone(late)
		mu.Unlock()
		require.Len(w, delays, 10)
		for _, d := range delays {
			require.Less(w, d, time.Second)
		}
		for _, stop := range stops {
			stop()
		}
	})
}

// A job that is due less often than the Locker's period, and starts late in a scheduler that queues its jobs, runs once a
// tick if the Locker knows its period: from PeriodOf, or from the attached scheduler.
func TestAJobHasAPeriodOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, attached := range []bool{false, true} {
		bubble(t, func(w *world) {
			var runs atomic.Int64
			var stops []func()
			for i := range 2 {
				locker := sbgocron.NewLocker(w.Session(), 10*time.Second)
				options := []gocron.SchedulerOption{gocron.WithLocation(time.UTC), gocron.WithDistributedLocker(locker)}
				if i == 1 {
					options = append(options, gocron.WithLimitConcurrentJobs(1, gocron.LimitModeWait))
				}
				scheduler, err := gocron.NewScheduler(options...)
				require.NoError(w, err)
				if attached {
					locker.Attach(scheduler)
				} else {
					locker.PeriodOf("job", time.Minute)
				}
				if i == 1 {
					_, err = scheduler.NewJob(gocron.CronJob("0 * * * * *", true), gocron.NewTask(func() { time.Sleep(9 * time.Second) }),
						gocron.WithName("slow"), gocron.WithDisabledDistributedJobLocker(true))
					require.NoError(w, err)
					time.Sleep(time.Millisecond)
				}
				_, err = scheduler.NewJob(gocron.CronJob("0 * * * * *", true), gocron.NewTask(func() { runs.Add(1) }), gocron.WithName("job"))
				require.NoError(w, err)
				scheduler.Start()
				stops = append(stops, func() {
					for _, j := range scheduler.Jobs() {
						_ = scheduler.RemoveJob(j.ID())
					}
					time.Sleep(time.Minute)
					_ = scheduler.Shutdown()
				})
			}
			time.Sleep(10*time.Minute + 50*time.Second)
			require.EqualValues(w, 10, runs.Load())
			for _, stop := range stops {
				stop()
			}
		})
	}
}

// A job whose ticks the schedulers cannot share is an error that says what to do.
func TestAnAttachedLockerRefusesAJobThatIsNotDueAtItsPeriod(t *testing.T) {
	t.Parallel()
	for want, job := range map[string]gocron.JobDefinition{
		"use gocron.WithStartAt":         gocron.DurationJob(time.Minute),
		"give it a period with PeriodOf": gocron.CronJob("*/10 * * * * *", true),
	} {
		bubble(t, func(w *world) {
			time.Sleep(7 * time.Second)
			period := time.Minute
			if want != "use gocron.WithStartAt" {
				period = 20 * time.Second
				time.Sleep(period - 7*time.Second)
			}
			locker := sbgocron.NewLocker(w.Session(), period)
			scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
			require.NoError(w, err)
			locker.Attach(scheduler)
			made, err := scheduler.NewJob(job, gocron.NewTask(func() {}), gocron.WithName("job"))
			require.NoError(w, err)
			scheduler.Start()
			_, err = locker.Lock(w.Context(), "job")
			require.ErrorIs(w, err, signalbox.ErrBadOption)
			require.ErrorContains(w, err, "PeriodOf")
			_ = scheduler.RemoveJob(made.ID())
			time.Sleep(time.Second)
			_ = scheduler.Shutdown()
		})
	}
}

// At a server that does not reply Lock returns within half a period, and IsLeader within a second, for all callers.
func TestASilentServerHoldsUpNoScheduler(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		s := w.Session()
		locker, elector := sbgocron.NewLocker(s, 10*time.Second), sbgocron.NewElector(s, "a")
		w.Partition(s)
		began := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				_, err := locker.Lock(context.Background(), "job")
				if time.Since(began) > 5*time.Second || err == nil {
					w.Error(err, time.Since(began))
				}
			})
			all.Go(func() {
				err := elector.IsLeader(context.Background())
				if time.Since(began) > time.Second+50*time.Millisecond || err == nil {
					w.Error(err, time.Since(began))
				}
			})
		}
		all.Wait()
		w.Heal(s)
		time.Sleep(20 * time.Second)
		require.NoError(w, elector.IsLeader(w.Context()))
		require.NoError(w, elector.Resign())
		lock, err := locker.Lock(w.Context(), "job")
		require.NoError(w, err)
		require.NoError(w, lock.Unlock(w.Context()))
	})
}
