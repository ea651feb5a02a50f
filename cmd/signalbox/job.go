// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox"
)

// job is a program that runs under a lease.
//
// # States
//
//	running -- the program ends ------------------------> holding -- --min is over, or a signal --> released
//	   |                                                                                               ^
//	   '-- the lease is lost, or ends in --grace --> ending -- the group is gone, or was killed -------'
//
// One goroutine, the command's, goes through them. The waiter of the child (see child) reports to it
// by a channel.
type job struct {
	name     string
	path     string // of the program
	command  []string
	lease    signalbox.Lease
	acquired time.Time
	min      time.Duration
	grace    time.Duration
	stderr   io.Writer

	limit time.Duration // how much the lease must have left; see left
}

// tick is how often the lease is checked at least: a suspended host stops timers, but not the lease.
const tick = 500 * time.Millisecond

// errLate is why a program is ended whose lease was not renewed in time.
var errLate = errors.New("the lock could not be renewed in time")

// run starts the program, and releases the lock when it has ended.
func (j *job) run(ctx context.Context) error {
	signals := make(chan os.Signal, 16)
	notify(signals, forwarded()...)
	defer signal.Stop(signals)
	// A signal that came before Notify has ended ctx. A later one is forwarded, even if it ends ctx as well.
	if ctx.Err() != nil {
		_ = j.lease.Unlock() // nothing ran under it
		return ctx.Err()
	}
	c, err := startChild(j.path, j.command, []string{
		"SIGNALBOX_NAME=" + j.name, "SIGNALBOX_TOKEN=" + strconv.FormatUint(j.lease.Token(), 10),
	})
	if err != nil {
		_ = j.lease.Unlock() // nothing ran under it
		return &exit{codeCannotRun, err}
	}
	lost := j.watch(c, signals)
	if lost != nil {
		j.end(c)
	}
	c.close() // before hold: a signal of the terminal ends that
	if lost == nil {
		if lost = j.lease.Err(); lost == nil {
			j.hold(signals)
		}
	}
	return j.release(c.code(), lost)
}

// watch returns when the program has ended, or why it must be ended.
func (j *job) watch(c *child, signals <-chan os.Signal) (lost error) {
	check := time.NewTimer(0)
	defer check.Stop()
	for {
		select {
		case <-c.exited:
			return nil
		case s := <-signals:
			if err := j.lease.Err(); err != nil {
				return err // a program that was stopped is not continued without a lock
			}
			c.forward(s)
		case stopped := <-c.stopped:
			c.onStop(stopped)
		case <-j.lease.Done():
			return j.lease.Err()
		case <-check.C:
			if err := j.lease.Err(); err != nil {
				return err
			}
			left := j.left()
			if left <= 0 {
				return errLate
			}
			check.Reset(min(left, tick))
		}
	}
}

// left returns how long the program may run on if no renewal succeeds. It ends --grace before the
// lease. A lease that was granted to a waiter is short until its first renewal: then half of it is kept.
func (j *job) left() time.Duration {
	remaining := time.Until(j.lease.Deadline())
	j.limit = max(j.limit, min(j.grace, remaining/2))
	return remaining - j.limit
}

// end terminates the program and its group, and kills what is left of them when the grace is over. It
// returns when the program has ended. The lock is not released before that.
func (j *job) end(c *child) {
	grace := j.grace
	if j.lease.Err() == nil {
		grace = min(j.limit, time.Until(j.lease.Deadline()))
	}
	over := time.NewTimer(grace)
	defer over.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	c.terminate()
	for !c.gone() {
		select {
		case <-over.C:
			c.kill()
			c.awaitExit()
			return
		case <-poll.C:
		case <-c.stopped: // it was continued, or is killed soon
		}
	}
}

// hold waits until the lock was held for --min, or for a signal.
func (j *job) hold(signals <-chan os.Signal) {
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
		return &exit{codeLost, fmt.Errorf("run %q: %w; the program ended with exit code %d", j.name, lost, code)}
	}
	if errors.Is(err, signalbox.ErrUnconfirmed) {
		j.warn(err.Error())
	}
	return &exit{code, nil}
}

func (j *job) warn(text string) {
	_, _ = fmt.Fprintln(j.stderr, oneLine(fmt.Errorf("run %q: %s", j.name, text))) // the exit code counts
}
