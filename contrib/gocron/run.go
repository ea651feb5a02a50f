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

// firstPoll is when a call of Lock asks for the first time whether another scheduler has the tick.
const firstPoll = 10 * time.Millisecond

// errNotRun ends the claim of a tick that does not run here: it is not stored.
var errNotRun = errors.New("signalbox: the job ended before this tick was run")

type runState int

const (
	waiting runState = iota // a call of Lock waits for the claim
	watched                 // that call has returned ErrRan: the claim means that the other scheduler died
	pending                 // the run has the claim, and waits for a call of Lock
	running                 // a call of Lock has returned it
	dropped                 // nothing is to run here
)

// tickRun is a tick of a job, as this scheduler sees it. Its goroutine is in Do until the tick has run, here or elsewhere.
//
// It ends when the tick is stored, when Do returns an error, when gocron ends the context of the job and the tick does
// not run here, or in Unlock. The session ends it in Close.
type tickRun struct {
	locker      *Locker
	job         string
	name        string             // the name of the tick
	claimedHere chan struct{}      // closed when this scheduler has the claim
	doEnded     chan struct{}      // closed when Do has returned
	err         error              // the error of Do; written before doEnded is closed
	cancel      context.CancelFunc // ends the context of Do
	merged      []*tickRun         // ticks that this run counts for; written before Unlock can be called

	state runState // guarded by the lock of locker

	finish      sync.Once
	unlocked    chan struct{} // closed by Unlock
	droppedHere chan struct{} // closed when the state becomes dropped
}

// begin starts to wait for the claim of a tick.
func (l *Locker) begin(ctx context.Context, job string, tick time.Time, period time.Duration) *tickRun {
	r := &tickRun{
		locker: l, job: job, name: job + "@" + tick.UTC().Format(time.RFC3339Nano),
		claimedHere: make(chan struct{}), doEnded: make(chan struct{}), unlocked: make(chan struct{}), droppedHere: make(chan struct{}),
	}
	// A job that runs is not ended with the context: its tick is stored when gocron calls Unlock.
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	options := append([]signalbox.LockOption{once.Keep(max(10*min(period, 3*24*time.Hour), 10*time.Minute))}, l.options...)
	stop := context.AfterFunc(ctx, r.abandon)
	go func() {
		defer close(r.doEnded)
		defer cancel()
		defer stop()
		r.err = errNotRun // if a hook of an observer ends the goroutine
		_, _, r.err = once.New(l.session, job, options...).At(tick).Do(waiting, r.claimed)
	}()
	return r
}

// claimed is the function of Do: it keeps the claim until Unlock.
func (r *tickRun) claimed(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
	l := r.locker
	l.mu.Lock()
	adopted := r.state == watched
	if adopted {
		r.state = pending
		l.pending[r.job] = append(l.pending[r.job], r)
	}
	close(r.claimedHere) // under the lock: leaveToOther and callerReturned find either this or the state that they set
	l.mu.Unlock()
	if adopted {
		go l.requestRun(r) // it asks the scheduler, which may be busy for a moment
	}
	select {
	case <-r.unlocked: // also if the lease is lost: gocron does not stop the job
		return nil, nil
	case <-r.droppedHere:
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
	<-r.unlocked
	return nil, nil
}

// abandon ends a tick that does not run here: the job was removed, or its scheduler stops.
func (r *tickRun) abandon() {
	r.locker.mu.Lock()
	defer r.locker.mu.Unlock()
	if r.state == running || r.state == dropped {
		return
	}
	r.state = dropped
	close(r.droppedHere)
	select {
	case <-r.claimedHere: // the claim ends with claimed
	default:
		r.cancel()
	}
}

// callerReturned says that no call waits for the claim any more. If it is here already, it waits for the next call.
func (r *tickRun) callerReturned() {
	l := r.locker
	l.mu.Lock()
	if r.state != waiting {
		l.mu.Unlock()
		return
	}
	r.state = watched
	adopted := false
	select {
	case <-r.claimedHere: // claimed found the state waiting
		r.state, adopted = pending, true
		l.pending[r.job] = append(l.pending[r.job], r)
	default:
	}
	l.mu.Unlock()
	if adopted {
		go l.requestRun(r)
	}
}

// await waits until the tick may run here. It returns ErrRan if another scheduler has it, and leaves the goroutine to
// wait for the end of that run.
func (r *tickRun) await(ctx context.Context, patience time.Duration) error {
	job := ctx
	ctx, cancel := context.WithTimeout(job, patience)
	defer cancel()
	pause := min(firstPoll, patience/4)
	poll := time.NewTimer(pause)
	defer poll.Stop()
	ownHolds := 0 // how often the holder was a call of this session
	for {
		select {
		case <-r.claimedHere:
			return r.accept()
		case <-r.doEnded:
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
		case <-poll.C:
		}
		holder, err := fair.New(r.locker.session, r.name, signalbox.WithLayout(signalbox.Native())).Holder(ctx)
		if err == nil && holder.Session == r.locker.session.ID() {
			ownHolds++
		}
		if err == nil && (holder.Session != r.locker.session.ID() || ownHolds > 1) {
			return r.leaveToOther()
		}
		pause = min(2*pause, time.Second)
		poll.Reset(pause)
	}
}

// accept begins the run here.
func (r *tickRun) accept() error {
	r.locker.mu.Lock()
	defer r.locker.mu.Unlock()
	if r.state == dropped {
		return errNotRun
	}
	r.state = running
	return nil
}

// leaveToOther leaves the tick to the scheduler that has it.
func (r *tickRun) leaveToOther() error {
	r.locker.mu.Lock()
	select {
	case <-r.claimedHere: // it is here by now
		r.locker.mu.Unlock()
		return r.accept()
	default:
	}
	if r.state == waiting {
		r.state = watched
	}
	r.locker.mu.Unlock()
	return ErrRan
}

// Unlock stores that the tick has run, and releases it. gocron calls it when the job has ended. If the
// lease was lost meanwhile, the error is signalbox.ErrStale. A further call returns the same.
func (r *tickRun) Unlock(context.Context) error {
	r.finish.Do(func() { close(r.unlocked) })
	for _, other := range r.merged {
		other.finish.Do(func() { close(other.unlocked) })
	}
	<-r.doEnded
	for _, other := range r.merged {
		<-other.doEnded
	}
	return r.err
}
