// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal of this process.
type terminal struct {
	file   *os.File
	opened bool // file was opened here; otherwise it is a standard file
}

// openTerminal returns the controlling terminal. A container may have no /dev/tty; then a standard file may be it.
func openTerminal() (*terminal, error) {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err == nil {
		return &terminal{file, true}, nil
	}
	for _, file := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if _, failed := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP); failed == nil {
			return &terminal{file, false}, nil
		}
	}
	return nil, err
}

// hasTerminal reports whether this process has a controlling terminal that has not hung up.
func hasTerminal() bool {
	t, err := openTerminal()
	if err == nil && t.opened {
		_ = t.file.Close() // nothing was written
	}
	return err == nil
}

// foreground returns the group that has the terminal. It opens the terminal.
func (c *child) foreground() (group int, err error) {
	if c.terminal == nil {
		if c.terminal, err = openTerminal(); err != nil {
			return 0, err
		}
	}
	return unix.IoctlGetInt(int(c.terminal.file.Fd()), unix.TIOCGPGRP)
}

// setForeground gives a group the terminal that foreground opened.
func (c *child) setForeground(group int) error {
	return unix.IoctlSetPointerInt(int(c.terminal.file.Fd()), unix.TIOCSPGRP, group)
}

// takeTerminal brings this process's group back to the foreground, if the child's is there. If that fails, the shell does
// it when it has control again.
func (c *child) takeTerminal() {
	if c.terminal == nil {
		return
	}
	if front, err := c.foreground(); err == nil && front == c.pid {
		_ = c.setForeground(unix.Getpgrp())
	}
}

// closeTerminal takes the terminal back from a child that has ended.
func (c *child) closeTerminal() {
	c.takeTerminal()
	if c.terminal != nil && c.terminal.opened {
		_ = c.terminal.file.Close() // nothing was written
	}
	c.terminal = nil
}

// offerTerminal gives the terminal to a program that may not be signalled, if the signal is one of a key: the kernel sends
// the signal of the next one to the program itself, also if that is another user's. It returns why the signal was not forwarded.
func (c *child) offerTerminal(s syscall.Signal, denied error) error {
	if s != syscall.SIGINT && s != syscall.SIGQUIT && s != syscall.SIGTSTP {
		return denied
	}
	// If the output is a pipe, a pager of our own group may need the terminal.
	front, err := c.foreground()
	if err != nil || front != unix.Getpgrp() || !term.IsTerminal(int(os.Stdout.Fd())) || c.setForeground(c.pid) != nil {
		return denied
	}
	return fmt.Errorf("%w; it has the terminal now: press the key again", denied)
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
			return true // it has ended, or the system hides processes of other sessions
		}
		if group != unix.Getpgrp() {
			other, err := unix.Getsid(parent)
			return err != nil || other != session
		}
		parent, known = parentOf(parent)
	}
	return known
}

// isBusy reports whether a program could not be started because the system is short of something, for now.
func isBusy(err error) bool {
	shortages := []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EIO}
	return slices.ContainsFunc(shortages, func(short error) bool { return errors.Is(err, short) })
}
