// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// supervisor is the shell program that every server and child runs under.
//
// It makes a folder, puts the files into it that come first in its arguments (name and text each,
// up to a word "--"), starts the program there, reports the program's process id and the
// folder on descriptor 4 and then waits for the end of descriptor 3, the lifeline. Only this
// process holds the other end of the lifeline (descriptors of Go programs are closed on
// exec), and the kernel closes it when this process ends, in whatever way. So the
// supervisor learns of every end, SIGKILL included, and then kills the program with
// SIGKILL, which a stopped program cannot outlive either, and removes the folder.
//
// The parent-death signal of Linux would not do: it is sent when the thread that forked ends, and removes no folder.
//
// Why it holds:
//   - The supervisor leads a session of its own, and ignores signals: the lifeline alone says when it is time. Until the
//     program has started the traps are handlers, not SIG_IGN, which the program would inherit.
//   - kill hits the right process: its process id cannot be given to another before it is waited for, which comes after.
//   - A background command of a shell gets /dev/null as standard input unless it is redirected: hence descriptor 5.
//   - After the start the supervisor keeps none of the program's descriptors, so the
//     reader of the program's standard error sees its end when the program ends.
const supervisor = `
trap : HUP INT QUIT TERM PIPE
dir=$(mktemp -d "${TMPDIR:-/tmp}/redistest.XXXXXX") && cd "$dir" || exit 1
while [ "$1" != -- ]; do
	printf %s "$2" >"$1"
	shift 2
done
shift
exec 5<&0
"$@" <&5 3<&- 4>&- 5<&- &
pid=$!
trap '' HUP INT QUIT TERM PIPE
exec </dev/null >/dev/null 2>&1 5<&-
echo "$pid $dir" >&4
exec 4>&-
read -r _ <&3
kill -9 "$pid"
wait "$pid"
code=$?
cd / && rm -rf "$dir"
exit "$code"
`

// program says what to run under supervision.
type program struct {
	path   string
	args   []string
	env    []string  // added to this process's
	files  []file    // the files in the program's folder when it starts
	stdin  *os.File  // nil: /dev/null
	stdout *os.File  // nil: where standard error goes
	log    io.Writer // receives standard error
}

// file is what a program finds in its folder. Its text is an argument of the supervisor: short, and no
// secret.
type file struct{ name, text string }

// supervised is a running program.
type supervised struct {
	pid      int
	dir      string
	shell    *exec.Cmd
	lifeline *os.File
	gone     chan struct{} // closed when the program has ended, by itself or not
	once     sync.Once
	code     int // exit code as a shell puts it, 128+signal if killed; set by once
}

// supervise starts a program. Its error is about the supervisor; a program that cannot be
// started ends with code 126 or 127 and says why in the log.
func supervise(p program) (*supervised, error) {
	var files pipes
	defer files.closeRest()
	life, report, log := files.open(), files.open(), files.open()
	if files.err != nil {
		return nil, fmt.Errorf("redistest: pipe: %w", files.err)
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", supervisor, "redistest"}, p.words()...)...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.SysProcAttr = ownSession()
	cmd.ExtraFiles = []*os.File{life.r, report.w}
	cmd.Stdout, cmd.Stderr = log.w, log.w
	if p.stdin != nil {
		cmd.Stdin = p.stdin
	}
	if p.stdout != nil {
		cmd.Stdout = p.stdout
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("redistest: supervisor: %w", err)
	}
	s := &supervised{shell: cmd, lifeline: files.keep(life.w), gone: make(chan struct{})}
	files.closeNow(life.r, report.w, log.w)
	go s.watch(files.keep(log.r), p.log)
	line, err := io.ReadAll(report.r)
	if err == nil {
		pid, dir, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		s.dir = dir
		s.pid, err = strconv.Atoi(pid)
	}
	if err != nil {
		s.end()
		return nil, fmt.Errorf("redistest: supervisor did not report a process: %w", err)
	}
	return s, nil
}

// words are the arguments of the supervisor.
func (p program) words() []string {
	var words []string
	for _, f := range p.files {
		words = append(words, f.name, f.text)
	}
	return append(append(words, "--", p.path), p.args...)
}

// watch copies the program's standard error until the program and everything that
// inherited its standard error have ended.
func (s *supervised) watch(r *os.File, log io.Writer) {
	defer runtime.KeepAlive(s) // the collector would close the lifeline of a program that nothing refers to
	defer close(s.gone)
	defer r.Close()
	_, err := io.Copy(log, r)
	if err != nil { // the sink failed, but the end must still be seen
		_, _ = io.Copy(io.Discard, r)
	}
}

// end kills the program unless it has ended, waits until it and its folder are gone, and
// returns its exit code. It may be called many times.
func (s *supervised) end() int {
	s.once.Do(func() {
		_ = s.lifeline.Close() // nothing was written, so nothing can be lost
		err := s.shell.Wait()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			s.code = exit.ExitCode()
		}
		s.endAlone()
		<-s.gone
	})
	return s.code
}

// endAlone does the work of the supervisor if something has killed it. Otherwise it finds nothing to do.
func (s *supervised) endAlone() {
	if s.code >= 0 || s.pid == 0 {
		return // not ended by a signal, or nothing was started
	}
	if s.running() {
		_ = sendSignal(s.pid, syscall.SIGKILL) // an error means that it has just ended
	}
	_ = os.RemoveAll(s.dir) // there is no caller to report to, and the system clears its temporary folder
}

// running reports whether the program has not yet ended.
func (s *supervised) running() bool {
	select {
	case <-s.gone:
		return false
	default:
		return true
	}
}

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
