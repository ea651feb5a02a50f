// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/words"
)

// survivor is a process of the program that still runs.
type survivor struct {
	pid             int
	name            string // "" if the name is not known
	denied          bool   // reports that this user may not signal the process
	uninterruptible bool   // reports that the process waits in the kernel, where no signal ends it
}

func anyDenied(left []survivor) bool {
	return slices.ContainsFunc(left, func(s survivor) bool { return s.denied })
}

// maxListed is how many processes a line names.
const maxListed = 10

// listed returns the processes for a line, each with the reason why it still runs.
func listed(left []survivor) string {
	var shown []string
	for _, s := range left[:min(len(left), maxListed)] {
		text := strconv.Itoa(s.pid)
		if s.name != "" {
			text += " " + words.Shown(s.name)
		}
		switch {
		case s.denied:
			text += " (of another user)"
		case s.uninterruptible:
			text += " (waits in the kernel, as for a disk or NFS)"
		}
		shown = append(shown, text)
	}
	if more := len(left) - maxListed; more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return strings.Join(shown, ", ")
}

// How often the end of a program is looked for, and how often a survivor is reported.
const (
	pollEnd      = 10 * time.Millisecond
	killTimeout  = 3 * time.Second // the time in which SIGKILL ends a process that it can end
	remindAfter  = time.Minute
	recoverPause = time.Second // between two attempts to acquire the lock again
)

// awaitGroup waits for the rest of the group of a program that has ended at a forwarded signal: a shell ends at once, and what it
// has started may still close its files. It waits for --grace at most; for processes that may not be signalled it waits until
// they have ended. It returns why the rest must be ended, if the lock is lost meanwhile.
func (j *job) awaitGroup(c program, signals <-chan os.Signal) (lost error) {
	t := newTermination(j)
	defer t.stop()
	t.remind.Reset(j.grace)
	check := time.NewTimer(0)
	defer check.Stop()
	for !c.gone() {
		select {
		case <-t.poll.C:
		case <-c.stops():
		case s := <-signals:
			j.forward(c, s)
		case <-check.C:
			next, err := j.check()
			if err != nil {
				return err
			}
			check.Reset(next)
		case <-t.remind.C:
			left := c.survivors()
			if anyDenied(left) {
				t.report(left)
				continue
			}
			if len(left) > 0 {
				j.warn("the program has ended; without the lock these processes of its group continue: " + listed(left))
			}
			return nil
		}
	}
	return nil
}

// terminate terminates the program and what it has started, and kills what is left of that when the grace is over. It returns when
// no process of the program runs: the lock is not released before that. If the lock was lost, and the program cannot be ended,
// the lock is acquired again as soon as it is free: the next holder but one does not run beside the program.
func (j *job) terminate(ctx context.Context, c program, signals <-chan os.Signal) {
	grace := j.grace
	if lost := j.lease.Err(); lost == nil {
		grace = min(j.reserve, time.Until(j.lease.Deadline()))
	} else if j.graceOf != nil {
		grace = j.graceOf(lost)
	}
	over := time.NewTimer(grace)
	defer over.Stop()
	t := newTermination(j)
	defer t.stop()
	c.terminate()
	if anyDenied(c.survivors()) {
		t.remind.Reset(0) // no grace ends these
	}
	for !c.gone() {
		select {
		case <-over.C:
			c.kill()
			t.killed = true
			if !t.stuck {
				t.remind.Reset(killTimeout)
			}
		case <-t.remind.C:
			if t.killed {
				c.kill() // the rights of a process may have changed
			}
			t.report(c.survivors())
			t.recover(ctx)
		case lease := <-t.recovered:
			t.adopt(lease)
		case <-t.poll.C:
			t.recover(ctx)
		case <-c.stops(): // it was continued, or is killed soon
		case s := <-signals: // it was asked to end before
			if t.stuck && ends(s) {
				t.remind.Reset(0)
			}
		}
	}
}

// termination is the end of a program, while processes of it run.
type termination struct {
	job    *job
	poll   *time.Ticker
	remind *time.Timer // fires when survivors are to be reported
	stuck  bool        // reports that survivors were reported: the program cannot be ended
	killed bool        // reports that the grace is over

	recovered chan lease // receives the lock that recover acquires again; nil if recover does not run
	cancel    context.CancelFunc
}

func newTermination(j *job) *termination {
	t := &termination{job: j, poll: time.NewTicker(pollEnd), remind: time.NewTimer(remindAfter)}
	t.remind.Stop()
	return t
}

// report says which processes cannot be ended, now and once a minute.
func (t *termination) report(left []survivor) {
	t.stuck = true
	t.poll.Reset(tick)
	t.remind.Reset(remindAfter)
	if len(left) == 0 {
		return // they have just ended
	}
	state := "the lock is held until they end"
	switch {
	case t.job.keeps != "":
		state = t.job.keeps
	case t.job.lease.Err() != nil:
		state = "the lock is lost, another process may hold it; it is acquired again when it is free"
	}
	text := "these processes of the program cannot be ended: " + listed(left) + "; " + state
	if anyDenied(left) {
		text += "; a user that may signal them can end them with kill -KILL"
	}
	t.job.warn(text)
}

// recover acquires a lost lock again for a program that cannot be ended.
func (t *termination) recover(ctx context.Context) {
	if !t.stuck || t.recovered != nil || t.job.reacquire == nil || t.job.lease.Err() == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	recovered := make(chan lease, 1)
	t.recovered, t.cancel = recovered, cancel
	go func() { // ends with ctx, or when it has the lock; stop waits for it
		defer close(recovered)
		pause := time.NewTimer(0)
		defer pause.Stop()
		for ctx.Err() == nil {
			lease, err := t.job.reacquire(ctx)
			if err == nil {
				recovered <- lease
				return
			}
			pause.Reset(recoverPause) // the server is away, or refuses
			select {
			case <-ctx.Done():
			case <-pause.C:
			}
		}
	}()
}

// adopt makes the job release the lease that recover acquired.
func (t *termination) adopt(lease lease) {
	t.cancel()
	t.recovered = nil
	if lease != nil {
		t.job.lease = lease
		t.job.warn("the lock is held again, until the program ends")
	}
}

// stop ends the timers, and the goroutine of recover.
func (t *termination) stop() {
	t.poll.Stop()
	t.remind.Stop()
	if t.recovered == nil {
		return
	}
	t.cancel()
	if lease := <-t.recovered; lease != nil {
		_ = lease.Unlock() // the program has ended meanwhile
	}
}

// relay forwards the signals of this process to the programs that it runs, for run and shards serve alike. A stop, as by ^Z, stops
// all programs first, and then this process, which renews their leases. Its goroutine ends with close.
type relay struct {
	received chan os.Signal
	closed   chan struct{}
	ending   func(os.Signal) bool // acts on a signal that ends this command, and reports that; nil: the programs decide

	mu       sync.Mutex
	programs map[*child]*relayed // guarded by mu, as stopping
	stopping bool                // reports that the programs are being stopped, and this process after them
}

// relayed is a program that gets signals.
type relayed struct {
	signals chan os.Signal
	stopped bool // reports that it was stopped since stopping began
}

// newRelay catches the signals that are forwarded. Those that come before start wait for it.
func newRelay(ending func(os.Signal) bool) *relay {
	r := &relay{received: make(chan os.Signal, 16), closed: make(chan struct{}), ending: ending, programs: make(map[*child]*relayed)}
	notify(r.received, forwarded()...)
	return r
}

// start begins to forward. A signal that comes while there is no program is dropped: a later program has not loaded its handlers.
func (r *relay) start() {
	go func() {
		for {
			select {
			case s := <-r.received:
				if r.ending == nil || !r.ending(s) {
					r.forward(s)
				}
			case <-r.closed:
				return
			}
		}
	}()
}

func (r *relay) close() {
	signal.Stop(r.received)
	close(r.closed)
}

// begin starts a program, and returns the channel on which its job gets signals; remove ends that. A signal waits until the program is
// in the list, so that one that has said it is ready misses none.
func (r *relay) begin(start func() (*child, error)) (*child, <-chan os.Signal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := start()
	if err != nil {
		return nil, nil, err
	}
	c.relay = r
	p := &relayed{signals: make(chan os.Signal, 16)}
	r.programs[c] = p
	if r.stopping {
		p.signals <- stopSignal
	}
	return c, p.signals, nil
}

// remove is called when the job of a program has ended.
func (r *relay) remove(c *child) {
	r.mu.Lock()
	delete(r.programs, c)
	r.stopWhenAllAre()
}

// forward hands a signal to the jobs of all programs. One that has sixteen waiting does not get it.
func (r *relay) forward(s os.Signal) {
	if s == stopSignal && orphaned() {
		return // without a shell nothing would continue this process
	}
	r.mu.Lock()
	switch s {
	case stopSignal:
		if r.stopping {
			r.mu.Unlock()
			return
		}
		r.stopping = true
	case continueSignal:
		r.resetLocked()
	}
	for _, p := range r.programs {
		p.send(s)
	}
	r.stopWhenAllAre()
}

func (r *relayed) send(s os.Signal) {
	select {
	case r.signals <- s:
	default:
	}
}

// resetLocked ends a stop.
func (r *relay) resetLocked() {
	r.stopping = false
	for _, p := range r.programs {
		p.stopped = false
	}
}

// stopped is called when a program was stopped: by a stop that was forwarded to it, or by the terminal. Then the others are stopped
// too, since nothing renews their leases while this process is stopped.
func (r *relay) stopped(c *child) {
	r.mu.Lock()
	if p := r.programs[c]; p != nil {
		p.stopped = true
	}
	if !r.stopping {
		r.stopping = true
		for other, p := range r.programs {
			if other != c {
				p.send(stopSignal)
			}
		}
	}
	r.stopWhenAllAre()
}

// refusesStop is called if a program cannot be stopped. This process must not stop beside it, and the others continue.
func (r *relay) refusesStop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.programs {
		if p.stopped {
			p.send(continueSignal)
		}
	}
	r.resetLocked()
}

// stopWhenAllAre unlocks mu. It stops this process if all programs are stopped, and returns when it was continued: the signal that
// did that is forwarded.
func (r *relay) stopWhenAllAre() {
	all := r.stopping
	for _, p := range r.programs {
		all = all && p.stopped
	}
	if all {
		r.resetLocked()
	}
	r.mu.Unlock()
	if all {
		stopProcess()
	}
}
