// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// child is a program. Windows has no signals that ask a program to end: terminate kills it, and
// programs that it has started continue.
type child struct {
	process *os.Process
	exited  chan struct{}
	stopped chan syscall.Signal // never used
	status  int                 // written before exited is closed
	refused bool                // this user may not end it
	relay   *relay              // set by relay.begin
}

// reaper starts programs. Each is waited for by a goroutine of its own.
type reaper struct{}

func newReaper() *reaper { return new(reaper) }

func (*reaper) close() {}

func (*reaper) start(path string, command, env []string, stdin *os.File) (*child, error) {
	cmd := &exec.Cmd{Path: path, Args: command, Env: append(os.Environ(), env...), Stdout: os.Stdout, Stderr: os.Stderr}
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{process: cmd.Process, exited: make(chan struct{}), stopped: make(chan syscall.Signal)}
	go func() { // ends with the program
		defer close(c.exited)
		err := cmd.Wait()
		c.status = cmd.ProcessState.ExitCode()
		if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
			c.status = codeFailed
		}
	}()
	return c, nil
}

func (c *child) exits() <-chan struct{} { return c.exited }

func (c *child) stops() <-chan syscall.Signal { return c.stopped }

func (c *child) code() int { return c.status }

func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

// No signal stops a job here.
const stopSignal, continueSignal = syscall.Signal(-1), syscall.Signal(-2)

func dropSignals() {}

func stopProcess() {}

func orphaned() bool { return true }

func hasTerminal() bool { return false }

func ends(os.Signal) bool { return true }

// forward does nothing: the console sends Ctrl-C to all its programs.
func (c *child) forward(os.Signal) error { return nil }

func (c *child) onStop(syscall.Signal) error { return nil }

func (c *child) denied() error { return nil }

func (c *child) terminate() { c.kill() }

func (c *child) kill() {
	err := c.process.Kill()
	c.refused = err != nil && !errors.Is(err, os.ErrProcessDone)
}

func (c *child) gone() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

func (c *child) survivors() []survivor {
	if c.gone() {
		return nil
	}
	return []survivor{{pid: c.process.Pid, denied: c.refused}}
}

func (c *child) closeTerminal() {}

func isBusy(error) bool { return false }
