// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/signalbox-go/signalbox"
)

// ErrRan says that another scheduler runs this tick of the job, or has run it. gocron passes it to AfterLockError.
var ErrRan = errors.New("signalbox: another scheduler runs or ran this tick of the job")

// maxEarly is how long before its time a run may begin.
const maxEarly = 500 * time.Millisecond

// The bounds of a period.
const minPeriod, maxPeriod = time.Millisecond, 365 * 24 * time.Hour

// requestAgain is the pause before a scheduler that was busy is asked again to run a tick.
const requestAgain = time.Second

// Locker makes each tick of a job run in one process. It is safe for concurrent use.
type Locker struct {
	session *signalbox.Session
	period  time.Duration
	periods map[string]time.Duration // the periods of jobs for which PeriodOf was called
	options []signalbox.LockOption
	now     func() time.Time

	mu        sync.Mutex
	scheduler gocron.Scheduler      // guarded by mu; nil if none is attached
	pending   map[string][]*tickRun // guarded by mu: the ticks that were taken over and wait for a call of Lock, by job
	requested map[string]int        // guarded by mu: the requested calls of RunNow whose Lock has not come, by job
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker for jobs that are due at multiples of period, such as full minutes for
// the five fields of a cron expression, and full seconds for six. Two ticks of one job must be at least a period apart.
// It sends nothing. Jobs with different names are different jobs: use gocron.WithName. period is from 1 ms to a year;
// with any other, Lock returns signalbox.ErrBadOption.
//
// A Locker does not learn from gocron for which time a run was scheduled, so it computes that from the
// clock of the process: the multiple of period before the present time. A run may begin up to half a second
// before its time, as the process sees it, or a quarter of a shorter period. It may begin late by the rest of the period;
// a later one counts as the next tick. A scheduler that queues its jobs starts them late: give a job that is due less
// often its own period, with PeriodOf or Attach.
//
// A DurationJob is due at multiples of its duration after the start of its process. With WithStartAt,
// and a start that all processes round to the duration, its ticks are the same everywhere.
//
// The options are those of once.New. Outcomes are kept for ten periods, but at least ten minutes and at most
// 30 days, unless once.Keep says otherwise. A scheduler that is late by more runs the tick again.
func NewLocker(s *signalbox.Session, period time.Duration, options ...signalbox.LockOption) *Locker {
	return &Locker{
		session: s, period: period, options: options, now: time.Now,
		pending: make(map[string][]*tickRun), requested: make(map[string]int),
	}
}

// WithNow sets the clock from which the Locker computes ticks: that of the scheduler, if
// gocron.WithClock has set one. It returns l.
func (l *Locker) WithNow(now func() time.Time) *Locker {
	l.now = now
	return l
}

// PeriodOf sets the period of one job, which is due at multiples of it: by default it is that of NewLocker, whose bounds
// it has. It must be the same in all processes. Call it before the scheduler starts. It returns l.
func (l *Locker) PeriodOf(job string, period time.Duration) *Locker {
	periods := maps.Clone(l.periods)
	if periods == nil {
		periods = make(map[string]time.Duration)
	}
	periods[job] = period
	l.periods = periods
	return l
}

// Attach gives the Locker the scheduler that it was passed to. Then a tick whose scheduler died is run as soon as its lease
// has ended, by RunNow; else it waits for the next call of Lock for the job. Lock also learns when each job is due: its
// period, and that it is due at no multiple of the period, which is ErrBadOption. It returns l.
func (l *Locker) Attach(scheduler gocron.Scheduler) *Locker {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scheduler = scheduler
	return l
}

// Lock returns nil if the job may run here. For each tick it returns nil to one scheduler, and ErrRan to the others, at
// once: it does not wait for the end of the run. If that scheduler dies, another one takes the tick over when the lease
// has ended. Then a later call of Lock returns nil for it: see Attach.
//
// If the server does not reply, Lock waits for half a period. Other errors are those of once.Do.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	period, err := l.check(ctx, job)
	if err != nil {
		return nil, fmt.Errorf("signalbox: lock job %q: %w", job, err)
	}
	now := l.now()
	if r := l.takeRequested(job); r != nil {
		// If this is the call of the scheduler for a tick, and not that of RunNow, the tick must not be lost.
		l.begin(ctx, job, now.Truncate(period), period).callerReturned()
		return r, nil
	}
	r := l.begin(ctx, job, now.Add(min(period/4, maxEarly)).Truncate(period), period)
	err = r.await(ctx, period/2)
	switch {
	case err == nil:
		r.merged = l.takeAllPending(job) // this run is after their time, too
		return r, nil
	case errors.Is(err, ErrRan):
		if other := l.takePending(job); other != nil {
			return other, nil
		}
	}
	return nil, err
}

// check returns the period of a job, or what is wrong with the Locker or the call.
func (l *Locker) check(ctx context.Context, job string) (time.Duration, error) {
	if l == nil || l.now == nil || l.pending == nil || ctx == nil {
		return 0, fmt.Errorf("%w: the Locker was not made by NewLocker, or its clock or the context is nil", signalbox.ErrBadOption)
	}
	period, set := l.periods[job]
	if !set {
		period = l.period
	}
	if period < minPeriod || period > maxPeriod {
		return 0, fmt.Errorf("%w: the period is %v: it must be from %v to %v", signalbox.ErrBadOption, period, minPeriod, maxPeriod)
	}
	if j := l.find(job); j != nil && !set {
		var err error
		if period, err = periodOf(j, period); err != nil {
			return 0, err
		}
	}
	return period, ctx.Err()
}

// find returns the job of that name in the attached scheduler, or nil.
func (l *Locker) find(job string) gocron.Job {
	l.mu.Lock()
	scheduler := l.scheduler
	l.mu.Unlock()
	if scheduler == nil {
		return nil
	}
	for _, j := range scheduler.Jobs() {
		if j.Name() == job {
			return j
		}
	}
	return nil
}

// periodOf returns the period of a job: the time between its next runs, if that is the same for all and they are due at
// multiples of it, else that of the Locker.
func periodOf(j gocron.Job, period time.Duration) (time.Duration, error) {
	next, err := j.NextRuns(4)
	if err != nil || len(next) < 4 {
		return period, nil //nolint:nilerr // a job that was removed, or that ends soon
	}
	gap := next[1].Sub(next[0])
	uniform := true
	for i, at := range next {
		if !at.Equal(at.Truncate(period)) {
			return 0, fmt.Errorf("%w: the job is due at %v, which is no multiple of the period %v: "+
				"use gocron.WithStartAt with a multiple, or give the job a period with PeriodOf", signalbox.ErrBadOption, at, period)
		}
		uniform = uniform && at.Equal(at.Truncate(gap)) && (i == 0 || at.Sub(next[i-1]) == gap)
	}
	if gap < period {
		return 0, fmt.Errorf("%w: the job is due each %v, which is less than the period %v: give it a period with PeriodOf",
			signalbox.ErrBadOption, gap, period)
	}
	if uniform {
		return gap, nil
	}
	return period, nil
}

// takeRequested returns a tick for which RunNow was called, or nil.
func (l *Locker) takeRequested(job string) *tickRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requested[job] == 0 {
		return nil
	}
	return l.takePendingLocked(job)
}

// takePending returns the first tick that was taken over and waits for a call, or nil.
func (l *Locker) takePending(job string) *tickRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takePendingLocked(job)
}

func (l *Locker) takePendingLocked(job string) *tickRun {
	for len(l.pending[job]) > 0 {
		r := l.pending[job][0]
		l.pending[job] = l.pending[job][1:]
		l.requested[job] = max(l.requested[job]-1, 0)
		if r.state == pending {
			r.state = running
			return r
		}
	}
	delete(l.pending, job)
	delete(l.requested, job)
	return nil
}

// takeAllPending returns all ticks that wait for a call. It leaves them to the attached scheduler, if there is one.
func (l *Locker) takeAllPending(job string) (all []*tickRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.scheduler == nil {
		r := l.takePendingLocked(job)
		if r == nil {
			break
		}
		all = append(all, r)
	}
	return all
}

// requestRun asks the attached scheduler to run the job for a tick that was taken over, until a call of Lock has taken it. The
// goroutine that calls it ends with the tick at the latest.
func (l *Locker) requestRun(r *tickRun) {
	for {
		j := l.find(r.job)
		if j == nil {
			return // the next call of Lock takes it
		}
		l.mu.Lock()
		waits := r.state == pending
		if waits {
			l.requested[r.job]++ // before RunNow: its Lock may come before RunNow returns
		}
		l.mu.Unlock()
		if !waits || j.RunNow() == nil {
			return
		}
		l.mu.Lock()
		l.requested[r.job] = max(l.requested[r.job]-1, 0)
		l.mu.Unlock()
		retry := time.NewTimer(requestAgain) // the scheduler was busy
		select {
		case <-retry.C:
		case <-r.unlocked:
		case <-r.doEnded:
		}
		retry.Stop()
	}
}
