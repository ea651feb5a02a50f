// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/once"
)

// ErrRan says that another scheduler has run this tick of the job. gocron passes it to AfterLockError.
var ErrRan = errors.New("signalbox: another scheduler ran this tick of the job")

// Locker makes each tick of a job run in one process. It is safe for concurrent use.
type Locker struct {
	session *signalbox.Session
	period  time.Duration
	options []signalbox.LockOption
	now     func() time.Time
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker for jobs that are due at multiples of period, such as full minutes for
// the five fields of a cron expression, and full seconds for six. Two ticks of one job must be at least a period apart.
// It sends nothing. Jobs with different names are different jobs: use gocron.WithName.
//
// A Locker does not learn from gocron for which time a run was scheduled, so it computes that from the
// clock of the process: the multiple of period before the present time. A run may begin up to a
// quarter of period before its time, as the process sees it, and three quarters after. A later one
// counts as the next tick. Clocks of different processes may differ by any time: each sees its own ticks in time.
//
// A DurationJob is due at multiples of its duration after the start of its process. With WithStartAt,
// and a start that all processes round to the duration, its ticks are the same everywhere.
//
// The options are those of once.New. Outcomes are kept for ten periods, and at least ten minutes,
// unless once.Keep says otherwise. A scheduler that is late by more runs the tick again.
func NewLocker(s *signalbox.Session, period time.Duration, options ...signalbox.LockOption) *Locker {
	keep := once.Keep(min(max(10*period, 10*time.Minute), 30*24*time.Hour))
	return &Locker{session: s, period: period, options: append([]signalbox.LockOption{keep}, options...), now: time.Now}
}

// WithNow sets the clock from which the Locker computes ticks: that of the scheduler, if
// gocron.WithClock has set one. It returns l.
func (l *Locker) WithNow(now func() time.Time) *Locker {
	l.now = now
	return l
}

// Lock waits until the job may run here, or has run elsewhere. For each tick it returns nil to one
// scheduler. It returns ErrRan to the others when that one has unlocked; if that one dies, Lock returns
// nil to the next. Other errors are those of once.Do.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	if l == nil || l.period <= 0 || l.now == nil {
		return nil, fmt.Errorf("signalbox: lock job %q: %w: the period must be positive and the clock not nil", job, signalbox.ErrBadOption)
	}
	tick := l.now().Add(l.period / 4).Truncate(l.period)
	r := &run{began: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{})}
	go r.do(ctx, once.New(l.session, job, l.options...).At(tick))
	select {
	case <-r.began:
		return r, nil
	case <-r.ended:
	}
	if r.err != nil {
		return nil, r.err
	}
	return nil, ErrRan
}

// run is a tick that runs here. Its goroutine is in Do until Unlock.
type run struct {
	began chan struct{} // closed when the job may run
	ended chan struct{} // closed when Do has returned
	err   error         // of Do; written before ended is closed

	finish sync.Once
	over   chan struct{} // closed by Unlock
}

func (r *run) do(ctx context.Context, tick *once.Once) {
	defer close(r.ended)
	_, _, r.err = tick.Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
		close(r.began)
		<-r.over // also if the lease is lost: gocron does not stop the job
		return nil, nil
	})
}

// Unlock stores that the tick has run, and releases it. gocron calls it when the job has ended. If the
// lease was lost meanwhile, the error is signalbox.ErrStale. A further call returns the same.
func (r *run) Unlock(context.Context) error {
	r.finish.Do(func() { close(r.over) })
	<-r.ended
	return r.err
}
