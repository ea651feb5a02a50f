// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// child is a program in a process group of its own. Its methods are called by one goroutine.
//
// The terminal stays with our own group at first, so that a pager behind a pipe works. ^C and ^Z come to
// us then, and are forwarded. A child that reads from the terminal is stopped by SIGTTIN, or SIGTTOU; it
// is given the terminal and continued.
type child struct {
	pid      int
	exited   chan struct{}       // closed when the program was waited for
	stopped  chan syscall.Signal // what stopped it
	status   syscall.WaitStatus  // written before exited is closed
	terminal *os.File            // nil until the child wanted it
}

// startChild starts the program. The thread is locked: on Linux the program is killed if the thread
// that started it dies, which is when this process does.
func startChild(path string, command, env []string) (*child, error) {
	runtime.LockOSThread()
	cmd := &exec.Cmd{
		Path: path, Args: command, Env: append(os.Environ(), env...),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	dieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{pid: cmd.Process.Pid, exited: make(chan struct{}), stopped: make(chan syscall.Signal)}
	_ = cmd.Process.Release() // await waits for it, since os.Process reports no stops
	go c.await()
	return c, nil
}

// await waits for the program. It is the one goroutine that does, and ends with the program.
func (c *child) await() {
	defer close(c.exited)
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(c.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // cannot be: no one else waits for it
			c.status = codeFailed << 8
			return
		case status.Stopped():
			c.stopped <- status.StopSignal() // the job receives until exited is closed
		default:
			c.status = status
			return
		}
	}
}

// code returns the exit code of a program that has ended, as a shell does.
func (c *child) code() int {
	if c.status.Signaled() {
		return codeSignal + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

// forwarded returns the signals that are forwarded.
func forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP,
	}
}

// ends reports whether the signal asks a program to end.
func ends(s os.Signal) bool {
	return slices.Contains([]os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}, s)
}

// forward sends a signal that this process got to the group. ^Z stops both: a program must not work on
// while nothing renews its lease. Without a shell ^Z does nothing; see orphaned.
func (c *child) forward(s os.Signal) {
	number, _ := s.(syscall.Signal) // on Unix each is one
	switch {
	case number != syscall.SIGTSTP:
		c.send(number)
	case !orphaned():
		c.send(syscall.SIGSTOP)
		c.stopSelf()
	}
}

// onStop acts on a stop of the program that the terminal caused. A SIGSTOP is for those who sent it.
func (c *child) onStop(by syscall.Signal) {
	switch by {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		front, known := c.foreground()
		switch background := known && front != unix.Getpgrp() && front != c.pid; {
		case background && orphaned():
			c.send(syscall.SIGHUP) // as the kernel does: it would wait for a terminal that no shell gives it
		case background:
			c.stopSelf() // until the shell continues it
			return
		default:
			c.setForeground(c.pid)
		}
		c.send(syscall.SIGCONT)
	case syscall.SIGTSTP:
		if orphaned() {
			c.send(syscall.SIGCONT)
		} else {
			c.stopSelf()
		}
	default:
	}
}

// stopSelf stops this process, and the others of its job, as the terminal would have done. The SIGCONT
// that ends it is forwarded.
func (c *child) stopSelf() {
	c.takeTerminal()
	_ = syscall.Kill(0, syscall.SIGSTOP) // it cannot fail: the group has this process
}

// orphaned reports whether no shell would continue this process if it stopped: it leads its session, as under
// "ssh -t host signalbox run", or is the first process of a container. The kernel stops no such group at ^Z. Its child would
// stop, since this process is its parent. A group has a shell if the parent of one of its processes is in another group of
// the session; only the ancestors of this process are searched.
func orphaned() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return false // cannot be
	}
	parent, known := os.Getppid(), true
	for known && parent > 0 { // 0: it is outside of the container
		group, err := unix.Getpgid(parent)
		if err != nil {
			return true // it has ended
		}
		if group != unix.Getpgrp() {
			other, err := unix.Getsid(parent)
			return err != nil || other != session
		}
		parent, known = parentOf(parent)
	}
	return known
}

// foreground returns the group that has the terminal, if there is one. It opens the terminal.
func (c *child) foreground() (group int, known bool) {
	if c.terminal == nil {
		terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return 0, false
		}
		c.terminal = terminal
		signal.Ignore(syscall.SIGTTOU) // setForeground is called from the background; the child is started already
	}
	group, err := unix.IoctlGetInt(int(c.terminal.Fd()), unix.TIOCGPGRP)
	return group, err == nil
}

// setForeground gives a group the terminal. If it cannot, the shell does it when it has control again.
func (c *child) setForeground(group int) {
	if c.terminal != nil {
		_ = unix.IoctlSetPointerInt(int(c.terminal.Fd()), unix.TIOCSPGRP, group)
	}
}

// takeTerminal brings this process's group back to the foreground, if the child's is there.
func (c *child) takeTerminal() {
	if c.terminal == nil {
		return
	}
	if front, known := c.foreground(); known && front == c.pid {
		c.setForeground(unix.Getpgrp())
	}
}

// terminate asks the group to end. What is stopped is continued for that.
func (c *child) terminate() {
	c.send(syscall.SIGTERM)
	c.send(syscall.SIGCONT)
}

// kill ends the group.
func (c *child) kill() { c.send(syscall.SIGKILL) }

// awaitExit returns when the program was waited for.
func (c *child) awaitExit() {
	for {
		select {
		case <-c.exited:
			return
		case <-c.stopped:
		}
	}
}

// gone reports whether the program was waited for and no process of its group is left. The number
// of a group is not used again while it has a process.
func (c *child) gone() bool {
	select {
	case <-c.exited:
		return errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH)
	default:
		return false
	}
}

// send sends a signal to the group. It fails only if no process is left.
func (c *child) send(s syscall.Signal) { _ = syscall.Kill(-c.pid, s) }

// close takes the terminal back from a child that has ended.
func (c *child) close() {
	c.takeTerminal()
	if c.terminal != nil {
		_ = c.terminal.Close() // nothing was written
	}
}
