// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/words"
)

// job is a program that runs under a lease.
//
// # States
//
//	running -- the program ends ------------------------> holding -- --min is over, or a signal --> released
//	   |  |                                                  ^                                         ^
//	   |  '-- it ends after a signal --> settling -----------'                                         |
//	   |                                    |                                                          |
//	   '-- the lease is lost, or ends in --grace --> ending -- no process of the program is left ------'
//
// One goroutine, the command's, goes through them. The waiter of the child (see child), and the one that acquires a lost
// lock again (see termination), report to it by channels.
type job struct {
	title     string // what its lines begin with, such as: run "backup"
	path      string // the path of the program
	command   []string
	env       []string
	lease     lease
	reacquire func(ctx context.Context) (lease, error) // acquires a lost lock again; nil if there is no such thing
	acquired  time.Time
	min       time.Duration
	grace     time.Duration
	graceOf   func(lost error) time.Duration // how long the program has after a loss; nil: grace
	keeps     string                         // what a line about processes that cannot be ended says of the lease; "": that of a lock
	stderr    io.Writer

	reserve      time.Duration // the time that the lease must have left; see timeLeft
	endRequested bool          // reports that a signal that asks the program to end was forwarded
	warned       bool          // reports that warnOfDenial has warned
}

// lease is what a job needs of a signalbox.Lease.
type lease interface {
	Token() uint64
	Err() error
	Done() <-chan struct{}
	Deadline() time.Time
	Unlock() error
}

// program is what a job needs of a child, which documents it.
type program interface {
	exits() <-chan struct{}
	stops() <-chan syscall.Signal
	code() int
	denied() error
	forward(s os.Signal) error
	onStop(by syscall.Signal) error
	terminate()
	kill()
	gone() bool
	survivors() []survivor
	closeTerminal()
}

// tick is how often the lease is checked at least: a suspended host stops timers, but not the lease.
const tick = 500 * time.Millisecond

// errLate is why a program is ended whose lease was not renewed in time.
var errLate = errors.New("the lock could not be renewed in time")

// run starts the program, and releases the lock when it has ended.
func (j *job) run(ctx context.Context) error {
	signals := newRelay(nil)
	defer signals.close()
	// A signal that came before newRelay has ended ctx. A later one is forwarded, even if it ends ctx as well.
	if ctx.Err() != nil {
		_ = j.lease.Unlock() // nothing ran under it
		return ctx.Err()
	}
	programs := newReaper()
	defer programs.close()
	c, own, err := signals.begin(func() (*child, error) { return programs.start(j.path, j.command, j.env, os.Stdin) })
	if err != nil {
		_ = j.lease.Unlock() // nothing ran under it
		return cannotStart(err)
	}
	defer signals.remove(c)
	signals.start()
	return j.supervise(context.WithoutCancel(ctx), c, own)
}

// supervise returns when the program has ended and the lock was released.
func (j *job) supervise(ctx context.Context, c program, signals <-chan os.Signal) error {
	lost := j.awaitEnd(c, signals)
	if lost == nil && j.endRequested {
		lost = j.awaitGroup(c, signals)
	}
	if lost != nil {
		j.terminate(ctx, c, signals)
	}
	c.closeTerminal() // before holdMinimum: a signal of the terminal ends that
	if lost == nil {
		if lost = j.lease.Err(); lost == nil {
			j.holdMinimum(signals)
		}
	}
	return j.release(c.code(), lost)
}

// awaitEnd returns when the program has ended, or why it must be ended.
func (j *job) awaitEnd(c program, signals <-chan os.Signal) (lost error) {
	check := time.NewTimer(0)
	defer check.Stop()
	for {
		select {
		case <-c.exits():
			return nil
		case s := <-signals:
			if err := j.lease.Err(); err != nil {
				return err // a program that was stopped is not continued without a lock
			}
			j.forward(c, s)
		case stopped := <-c.stops():
			if err := c.onStop(stopped); err != nil {
				j.warn("the program was stopped (" + stopped.String() + "): " + err.Error())
			}
		case <-j.lease.Done():
			return j.lease.Err()
		case <-check.C:
			next, err := j.check()
			if err != nil {
				return err
			}
			check.Reset(next)
			j.warnOfDenial(c)
		}
	}
}

// check returns how long the program may run until the next check, or why it must be ended.
func (j *job) check() (next time.Duration, lost error) {
	if err := j.lease.Err(); err != nil {
		return 0, err
	}
	left := j.timeLeft()
	if left <= 0 {
		return 0, errLate
	}
	return min(left, tick), nil
}

func (j *job) forward(c program, s os.Signal) {
	j.endRequested = j.endRequested || ends(s)
	if err := c.forward(s); err != nil {
		j.warn(fmt.Sprintf("%v: the program did not get the signal: %v; the lock is held until it ends", s, err))
	}
}

// warnOfDenial says once that the program may not be signalled, while there is time to start it otherwise.
func (j *job) warnOfDenial(c program) {
	if err := c.denied(); err != nil && !j.warned {
		j.warned = true
		j.warn(fmt.Sprintf("the program runs as another user and cannot be signalled (%v): it is not ended if the lock is lost; "+
			"run signalbox as that user: sudo signalbox run ..., not signalbox run ... sudo", err))
	}
}

// timeLeft returns how long the program may run on if no renewal succeeds. It ends --grace before the
// lease. A lease that was granted to a waiter is short until its first renewal: then half of it is kept.
func (j *job) timeLeft() time.Duration {
	remaining := time.Until(j.lease.Deadline())
	j.reserve = max(j.reserve, min(j.grace, remaining/2))
	return remaining - j.reserve
}

// holdMinimum waits until the lock was held for --min, or for a signal.
func (j *job) holdMinimum(signals <-chan os.Signal) {
	left := time.Until(j.acquired.Add(j.min))
	if left <= 0 {
		return
	}
	enough := time.NewTimer(left)
	defer enough.Stop()
	for {
		select {
		case <-enough.C:
			return
		case <-j.lease.Done():
			j.warn("the lock was lost after the program had ended, before --min was over")
			return
		case s := <-signals:
			if ends(s) {
				return
			}
		}
	}
}

// release releases the lock and returns the exit code as an error.
func (j *job) release(code int, lost error) error {
	err := j.lease.Unlock()
	if lost != nil {
		return &exitError{codeLost, fmt.Errorf("%s: %w; the program ended with exit code %d", j.title, withoutOp(lost), code)}
	}
	if err != nil && !errors.Is(err, signalbox.ErrLost) { // a loss after the program's end harms nothing, and holdMinimum reported it
		j.warn(withoutOp(err).Error())
	}
	return &exitError{code, nil}
}

func (j *job) warn(text string) {
	_, _ = fmt.Fprintln(j.stderr, words.OneLine(fmt.Errorf("%s: %s", j.title, text))) // the exit code counts
}
