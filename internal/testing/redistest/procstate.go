// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// stateLimit bounds how long a signal may take to show. It takes microseconds; a loaded
// machine may need a few scheduling rounds.
const stateLimit = 10 * time.Second

// errEnded says that there is no process left to send a signal to.
var errEnded = errors.New("redistest: process has ended")

// The signals below go to the right process: until end is called, which the callers'
// lock excludes, its process id cannot be given to another. See supervisor.

// freeze stops the program and returns when every thread of it is stopped.
func (s *supervised) freeze() error {
	return s.signalUntil(sigStop, allStopped)
}

// thaw continues a stopped program and returns when no thread of it is stopped.
func (s *supervised) thaw() error {
	return s.signalUntil(sigContinue, noneStopped)
}

// terminate asks the program to end (SIGTERM) and returns when it has. Its folder stays until end.
func (s *supervised) terminate() error {
	return s.signalUntil(syscall.SIGTERM, func([]byte) bool { return !s.running() })
}

// kill ends the program (SIGKILL) and returns when it has ended. Its folder stays until end.
func (s *supervised) kill() error {
	return s.signalUntil(syscall.SIGKILL, func([]byte) bool { return !s.running() })
}

func (s *supervised) signalUntil(sig syscall.Signal, reached func(states []byte) bool) error {
	if !s.running() {
		return errEnded
	}
	if err := sendSignal(s.pid, sig); err != nil {
		return fmt.Errorf("redistest: signal %v to process %d: %w", sig, s.pid, err)
	}
	if !PollUntil(stateLimit, func() bool { return reached(threadStates(s.pid)) }) {
		return fmt.Errorf("redistest: process %d: threads in states %q after signal %v", s.pid, threadStates(s.pid), sig)
	}
	return nil
}

// allStopped takes the letters of a process's threads. One in another state may still run.
func allStopped(states []byte) bool {
	return len(states) > 0 && bytes.Count(states, []byte{'T'}) == len(states)
}

func noneStopped(states []byte) bool {
	return len(states) > 0 && !bytes.Contains(states, []byte{'T'})
}

// threadStates returns the state letter of every thread of a process, nothing if there is
// no such process. SIGSTOP stops threads one by one, so one letter would not do.
func threadStates(pid int) []byte {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return nil
	}
	states := make([]byte, 0, len(files))
	for _, f := range files {
		stat, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		// The letter follows the name, which is in parentheses and may contain any character.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && i+2 < len(stat) {
			states = append(states, stat[i+2])
		}
	}
	return states
}
