// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// child is a program in a process group of its own. Its methods are called by one goroutine; its reaper runs on another one.
//
// The terminal stays with our own group at first, so that a pager behind a pipe works. ^C and ^Z come to
// us then, and are forwarded. A child that reads from the terminal is stopped by SIGTTIN, or SIGTTOU; it
// is given the terminal and continued.
//
// A process is signalled only if this user may signal it. A setuid program, such as sudo, may be none of these.
type child struct {
	pid         int
	exited      chan struct{}       // closed when the program was waited for
	stopped     chan syscall.Signal // receives the signal that stopped the program; has room for one
	status      syscall.WaitStatus  // written before exited is closed
	terminal    *terminal           // nil until the child wanted it
	relay       *relay              // set by relay.begin
	tree        processTree
	refreshedAt time.Time // the time at which gone last read the list of processes
}

// reaper starts programs, and waits for them and for every other child that this process has: the first process of a
// container, and a child subreaper, are given those whose parent has ended, and "exec signalbox" inherits those of a shell.
// Its goroutine is the one that waits, and ends with close. Nothing else of this process has children while it runs.
type reaper struct {
	ended  chan os.Signal // SIGCHLD
	closed chan struct{}

	mu       sync.Mutex     // held while a program is started, so that its end is not seen before its number is known
	children map[int]*child // the programs that were not waited for, by their numbers; guarded by mu
}

func newReaper() *reaper {
	r := &reaper{ended: make(chan os.Signal, 1), closed: make(chan struct{}), children: make(map[int]*child)}
	signal.Notify(r.ended, syscall.SIGCHLD) // before the first start: no end is missed
	// A warning that no process reads must not end this process. Ignoring the signal would make the program ignore it too.
	notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go r.run()
	return r
}

// start starts the program. The thread is locked: on Linux the program is killed if the thread that started it dies. That is
// when this process does, or when the goroutine ends, which must not be before the program.
func (r *reaper) start(path string, command, env []string, stdin *os.File) (*child, error) {
	runtime.LockOSThread()
	cmd := &exec.Cmd{
		Path: path, Args: command, Env: append(os.Environ(), env...), Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if stdin != nil {
		cmd.Stdin = stdin
	}
	dieWithParent(cmd.SysProcAttr)
	c := &child{exited: make(chan struct{}), stopped: make(chan syscall.Signal, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// The child has started with its default. This process writes to its terminal from the background, and takes it back.
	signal.Ignore(syscall.SIGTTOU)
	c.pid = cmd.Process.Pid
	c.tree = processTree{leader: c.pid, outsideGroup: make(map[int]string)}
	r.children[c.pid] = c
	_ = cmd.Process.Release() // the reaper waits for it, since os.Process reports no stops
	return c, nil
}

func (r *reaper) run() {
	for {
		for r.reapOne() {
		}
		select {
		case <-r.ended: // one for any number of ends: reapOne asks until there are no more
		case <-r.closed:
			return
		}
	}
}

// reapOne waits for one child that has ended or stopped. It returns false if no child has.
func (r *reaper) reapOne() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
	c := r.children[pid]
	switch {
	case errors.Is(err, syscall.EINTR):
	case err != nil || pid <= 0: // ECHILD: this process has no child left
		return false
	case c == nil:
	case status.Stopped():
		select {
		case c.stopped <- status.StopSignal():
		default: // the job has not acted on the last stop yet
		}
	default:
		delete(r.children, pid)
		c.status = status
		close(c.exited)
	}
	return true
}

func (r *reaper) close() {
	signal.Stop(r.ended)
	close(r.closed)
}

func (c *child) exits() <-chan struct{} { return c.exited }

func (c *child) stops() <-chan syscall.Signal { return c.stopped }

// ended reports whether the program was waited for.
func (c *child) ended() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// code returns the exit code of a program that has ended, as a shell does.
func (c *child) code() int {
	if c.status.Signaled() {
		return codeSignal + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

func forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP,
	}
}

// The signals that stop a job, and continue it.
const stopSignal, continueSignal = syscall.SIGTSTP, syscall.SIGCONT

// dropSignals drops signals that are for a program, while no program runs.
func dropSignals() {
	notify(make(chan os.Signal, 1), syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
}

func stopProcess() { _ = syscall.Kill(0, syscall.SIGSTOP) } // it cannot fail: the group has this process

// ends reports whether the signal asks a program to end.
func ends(s os.Signal) bool {
	return slices.Contains([]os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}, s)
}

// forward sends a signal that this process got to the group. ^Z stops both: a program must not work on
// while nothing renews its lease.
func (c *child) forward(s os.Signal) error {
	number, _ := s.(syscall.Signal) // on Unix each is one
	err := c.denied()
	switch {
	case number == syscall.SIGWINCH || number == syscall.SIGCONT:
		return c.send(number) // a program that does not get it misses little
	case err != nil && number != syscall.SIGTSTP:
		_ = c.send(number) // the others of its group may get it
		return c.offerTerminal(number, err)
	case err != nil:
		c.relay.refusesStop()
		return c.offerTerminal(number, err)
	case number == syscall.SIGTSTP:
		if err := c.send(syscall.SIGSTOP); err != nil {
			c.relay.refusesStop()
			return err
		}
		c.stopSelf()
		return nil
	default:
		return c.send(number)
	}
}

// onStop acts on a stop of the program that the terminal caused. A SIGSTOP is for those who sent it.
func (c *child) onStop(by syscall.Signal) error {
	switch by {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		front, err := c.foreground()
		background := err == nil && front != syscall.Getpgrp() && front != c.pid
		if background && !orphaned() {
			c.stopSelf() // until the shell continues it
			return nil
		}
		if err == nil && !background {
			err = c.setForeground(c.pid)
		}
		if err != nil || background {
			// As the kernel does. It would wait for a terminal that no shell gives it, or ask for it again and again.
			err = cmp.Or(err, c.send(syscall.SIGHUP))
		}
		return cmp.Or(err, c.send(syscall.SIGCONT))
	case syscall.SIGTSTP:
		if orphaned() {
			return c.send(syscall.SIGCONT)
		}
		c.stopSelf()
	default:
	}
	return nil
}

// stopSelf stops this process, and the others of its job, as the terminal would have done: when the other programs are stopped.
// The SIGCONT that ends it is forwarded.
func (c *child) stopSelf() {
	c.takeTerminal()
	c.relay.stopped(c)
}

// terminate asks the program to end: its group, and what its processes have started in other groups, as timeout(1) does. What
// is stopped is continued for that.
func (c *child) terminate() {
	c.tree.refresh()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		_ = c.send(s) // survivors says which processes may not be signalled
		c.tree.signalOutsideGroup(s)
	}
}

// kill ends what terminate asks.
func (c *child) kill() {
	c.tree.refresh()
	_ = c.send(syscall.SIGKILL) // as in terminate
	c.tree.signalOutsideGroup(syscall.SIGKILL)
}

// refreshPause is how long gone does not read the list of processes again: a host may have thousands.
const refreshPause = 100 * time.Millisecond

// gone reports whether the program was waited for and no process of its tree runs. A zombie does not run: it is there
// until its parent waits for it, which may never be. The number of a group is not used again while it has a process.
func (c *child) gone() bool {
	if !c.ended() {
		return false
	}
	group := syscall.Kill(-c.pid, 0)
	if errors.Is(group, syscall.ESRCH) && len(c.tree.outsideGroup) == 0 {
		return true
	}
	if time.Since(c.refreshedAt) < refreshPause {
		return false
	}
	c.refreshedAt = time.Now()
	running, zombies, known := c.tree.refresh()
	switch {
	case !known || len(running) > 0:
		return false
	case errors.Is(group, syscall.ESRCH):
		return true
	default:
		return zombies // without any, it ended just now, or the list hides it as another user's process
	}
}

// survivors returns the processes of the program that run.
func (c *child) survivors() (all []survivor) {
	running, _, _ := c.tree.refresh()
	for _, p := range running {
		all = append(all, survivor{pid: p.pid, name: p.name, denied: isDenied(p.pid), uninterruptible: p.state == 'D'})
	}
	if len(all) == 0 && !c.gone() { // the list cannot be read, or hides it
		all = append(all, survivor{pid: c.pid, denied: isDenied(-c.pid)})
	}
	return all
}

// denied returns EPERM if this user may not signal the program.
func (c *child) denied() error {
	if c.ended() || !isDenied(c.pid) {
		return nil
	}
	return syscall.EPERM
}

func isDenied(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.EPERM) }

// send sends a signal to those of the group who may be signalled. It returns an error if there are others alone.
func (c *child) send(s syscall.Signal) error {
	err := syscall.Kill(-c.pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return nil // no process is left
	}
	return err
}
