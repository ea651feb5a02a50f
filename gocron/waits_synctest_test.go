// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	sbgocron "github.com/signalbox-go/signalbox/gocron"
)

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
