// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/once"
)

// firstLook is when a call of Lock asks for the first time whether another scheduler has the tick.
const firstLook = 10 * time.Millisecond

// errNotRun ends the claim of a tick that does not run here: it is not stored.
var errNotRun = errors.New("signalbox: the job ended before this tick was run")

// state is what a run is at.
type state int

const (
	called  state = iota // a call of Lock waits for the claim
	watched              // that call has returned ErrRan: the claim means that the other scheduler died
	pending              // it has the claim, and waits for a call of Lock
	running              // a call of Lock has returned it
	dropped              // nothing is to run here
)

// run is a tick of a job, as this scheduler sees it. Its goroutine is in Do until the tick has run, here or elsewhere.
//
// It ends when the tick is stored, when Do returns an error, when gocron ends the context of the job and the tick does
// not run here, or in Unlock. The session ends it in Close.
type run struct {
	locker *Locker
	job    string
	name   string             // of the tick
	began  chan struct{}      // closed when this scheduler has the claim
	ended  chan struct{}      // closed when Do has returned
	err    error              // of Do; written before ended is closed
	cancel context.CancelFunc // of Do
	also   []*run             // ticks that this run counts for; written before Unlock can be called

	state state // guarded by the lock of locker

	finish sync.Once
	over   chan struct{} // closed by Unlock
	drop   chan struct{} // closed when the state becomes dropped
}

// begin starts to wait for the claim of a tick.
func (l *Locker) begin(ctx context.Context, job string, tick time.Time, period time.Duration) *run {
	r := &run{
		locker: l, job: job, name: job + "@" + tick.UTC().Format(time.RFC3339Nano),
		began: make(chan struct{}), ended: make(chan struct{}), over: make(chan struct{}), drop: make(chan struct{}),
	}
	// A job that runs is not ended with the context: its tick is stored when gocron calls Unlock.
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	options := append([]signalbox.LockOption{once.Keep(min(max(10*period, 10*time.Minute), 30*24*time.Hour))}, l.options...)
	stop := context.AfterFunc(ctx, r.abandon)
	go func() {
		defer close(r.ended)
		defer cancel()
		defer stop()
		_, _, r.err = once.New(l.session, job, options...).At(tick).Do(waiting, r.claimed)
	}()
	return r
}

// claimed is the function of Do: it keeps the claim until Unlock.
func (r *run) claimed(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
	l := r.locker
	l.mu.Lock()
	adopted := r.state == watched
	if adopted {
		r.state = pending
		l.pending[r.job] = append(l.pending[r.job], r)
	}
	close(r.began) // under the lock: lost and leave find either this or the state that they set
	l.mu.Unlock()
	if adopted {
		go l.order(r) // it asks the scheduler, which may be busy for a moment
	}
	select {
	case <-r.over: // also if the lease is lost: gocron does not stop the job
		return nil, nil
	case <-r.drop:
		return nil, errNotRun
	case <-ctx.Done():
	}
	l.mu.Lock()
	runs := r.state == running
	if !runs {
		r.state = dropped
	}
	l.mu.Unlock()
	if !runs {
		return nil, context.Cause(ctx)
	}
	<-r.over
	return nil, nil
}

// abandon ends a tick that does not run here: the job was removed, or its scheduler stops.
func (r *run) abandon() {
	r.locker.mu.Lock()
	defer r.locker.mu.Unlock()
	if r.state == running || r.state == dropped {
		return
	}
	r.state = dropped
	close(r.drop)
	select {
	case <-r.began: // the claim ends with claimed
	default:
		r.cancel()
	}
}

// leave says that no call waits for the claim any more. If it is here already, it waits for the next call.
func (r *run) leave() {
	l := r.locker
	l.mu.Lock()
	if r.state != called {
		l.mu.Unlock()
		return
	}
	r.state = watched
	adopted := false
	select {
	case <-r.began: // claimed found the state called
		r.state, adopted = pending, true
		l.pending[r.job] = append(l.pending[r.job], r)
	default:
	}
	l.mu.Unlock()
	if adopted {
		go l.order(r)
	}
}

// await waits until the tick may run here. It returns ErrRan if another scheduler has it, and leaves the goroutine to
// wait for the end of that run.
func (r *run) await(ctx context.Context, patience time.Duration) error {
	job := ctx
	ctx, cancel := context.WithTimeout(job, patience)
	defer cancel()
	pause := min(firstLook, patience/4)
	look := time.NewTimer(pause)
	defer look.Stop()
	mine := 0 // how often the holder was a call of this session
	for {
		select {
		case <-r.began:
			return r.accept()
		case <-r.ended:
			if r.err != nil {
				return r.err
			}
			return ErrRan
		case <-ctx.Done():
			r.abandon()
			if job.Err() != nil {
				return context.Cause(job)
			}
			return fmt.Errorf("signalbox: lock job %q: %w: nothing is known of its tick after %v", r.job, signalbox.ErrNoReply, patience)
		case <-look.C:
		}
		holder, err := fair.New(r.locker.session, r.name, signalbox.WithLayout(signalbox.Native())).Holder(ctx)
		if err == nil && holder.Session == r.locker.session.ID() {
			mine++
		}
		if err == nil && (holder.Session != r.locker.session.ID() || mine > 1) {
			return r.lost()
		}
		pause = min(2*pause, time.Second)
		look.Reset(pause)
	}
}

// accept begins the run here.
func (r *run) accept() error {
	r.locker.mu.Lock()
	defer r.locker.mu.Unlock()
	if r.state == dropped {
		return errNotRun
	}
	r.state = running
	return nil
}

// lost leaves the tick to the scheduler that has it.
func (r *run) lost() error {
	r.locker.mu.Lock()
	select {
	case <-r.began: // it is here by now
		r.locker.mu.Unlock()
		return r.accept()
	default:
	}
	if r.state == called {
		r.state = watched
	}
	r.locker.mu.Unlock()
	return ErrRan
}

// Unlock stores that the tick has run, and releases it. gocron calls it when the job has ended. If the
// lease was lost meanwhile, the error is signalbox.ErrStale. A further call returns the same.
func (r *run) Unlock(context.Context) error {
	r.finish.Do(func() { close(r.over) })
	for _, other := range r.also {
		other.finish.Do(func() { close(other.over) })
	}
	<-r.ended
	for _, other := range r.also {
		<-other.ended
	}
	return r.err
}
