// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// Process is a child process that runs a registered function. Lines are read by one
// goroutine at a time; the other methods may be called from any.
type Process struct {
	report  reporter
	name    string
	stdout  *os.File
	lines   *bufio.Reader
	partial string // the part of a line that came before the limit of a ReadLine
	log     *tail

	mu struct {
		sync.Mutex
		proc  *supervised
		stdin *os.File // nil once closed
	}
}

// Child runs the function registered as name in a process of its own, in an empty folder,
// with env ("KEY=value") added to the environment. It is killed when the test ends. What it
// writes to standard error is part of the failure messages of its Process.
func Child(tb testing.TB, name string, env ...string) *Process {
	tb.Helper()
	p, err := startChild(reporter{tb}, name, env)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// StartChild is Child for programs that are no tests, and for a TestMain. The caller must Close the process; if the program
// ends without, the process ends with it.
func StartChild(name string, env ...string) (*Process, error) {
	return startChild(reporter{}, name, env)
}

func startChild(r reporter, name string, env []string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("redistest: child: %w", err)
	}
	var files pipes
	defer files.closeRest()
	in, out := files.open(), files.open()
	if files.err != nil {
		return nil, fmt.Errorf("redistest: pipe: %w", files.err)
	}
	p := &Process{report: r, name: name, log: new(tail)}
	p.mu.proc, err = supervise(program{
		path: self, env: append([]string{childEnv + "=" + name}, env...),
		stdin: in.r, stdout: out.w, log: p.log,
	})
	if err != nil {
		return nil, err
	}
	p.mu.stdin, p.stdout = files.keep(in.w), files.keep(out.r)
	p.lines = bufio.NewReader(p.stdout)
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.proc.pid
}

// Send writes a line to the child's standard input.
func (p *Process) Send(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.stdin == nil {
		p.report.failf("redistest: child %s: send %q: input closed", p.name, line)
	} else if _, err := fmt.Fprintln(p.mu.stdin, line); err != nil {
		p.report.failf("redistest: child %s: send %q: %v; it said:\n%s", p.name, line, err, p.log)
	}
}

// CloseInput makes the child read the end of its standard input.
func (p *Process) CloseInput() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.stdin != nil {
		_ = p.mu.stdin.Close() // nothing is buffered
		p.mu.stdin = nil
	}
}

// ReadLine returns the next line of the child's standard output, without its end. The error is
// os.ErrDeadlineExceeded if no line comes within limit, and io.EOF if no line will come.
func (p *Process) ReadLine(limit time.Duration) (string, error) {
	if err := p.stdout.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return "", fmt.Errorf("redistest: child %s: %w", p.name, err)
	}
	text, err := p.lines.ReadString('\n')
	p.partial += text
	if err != nil && (!errors.Is(err, io.EOF) || p.partial == "") {
		return "", fmt.Errorf("redistest: child %s: line: %w", p.name, err)
	}
	line := strings.TrimSuffix(p.partial, "\n")
	p.partial = ""
	return line, nil
}

// Kill ends the child with SIGKILL, also a frozen one, and returns when it is gone.
func (p *Process) Kill() {
	tally.Fault("process killed (SIGKILL)")
	p.kill()
}

func (p *Process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.proc.end()
}

// Freeze stops the child (SIGSTOP) and returns when every thread of it is stopped.
func (p *Process) Freeze() {
	tally.Fault("process stopped (SIGSTOP)")
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mu.proc.freeze(); err != nil {
		p.report.failf("freeze child %s: %v; it said:\n%s", p.name, err, p.log)
	}
}

// Thaw continues a frozen child (SIGCONT).
func (p *Process) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mu.proc.thaw(); err != nil {
		p.report.failf("thaw child %s: %v; it said:\n%s", p.name, err, p.log)
	}
}

// Wait waits until the child has ended by itself, or was killed, and returns its exit code:
// 128 plus the signal if it was killed by one. A child that does not end within limit fails
// the test and is killed.
func (p *Process) Wait(limit time.Duration) int {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-p.process().gone:
	case <-late.C:
		p.report.failf("redistest: child %s did not end within %v; it said:\n%s", p.name, limit, p.log)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.proc.end()
}

// Stderr returns the end of what the child has written to standard error.
func (p *Process) Stderr() string { return p.log.String() }

// Failures returns the lines of Stderr that are not the library's log. A child that was stopped may log that it lost a lease.
func (p *Process) Failures() (lines []string) {
	for line := range strings.Lines(p.Stderr()) {
		if !strings.Contains(line, " signalbox: ") {
			lines = append(lines, line)
		}
	}
	return lines
}

func (p *Process) process() *supervised {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.proc
}

// Close kills the child and closes its pipes. A Process of [Child] is closed when its test ends.
func (p *Process) Close() {
	p.kill()
	p.CloseInput()
	_ = p.stdout.Close() // only read from
}

// childEnv names the registered function that a test binary runs instead of its tests.
const childEnv = "SIGNALBOX_TEST_CHILD"

// children has the functions that RegisterChild was given.
//
//nolint:gochecknoglobals // a process has one TestMain, which fills it
var children = make(map[string]func(stdin io.Reader, stdout io.Writer))

// RegisterChild makes fn available to Child. It is called in TestMain, before RunChild. The
// child exits with code 0 when fn returns; fn may exit with another.
func RegisterChild(name string, fn func(stdin io.Reader, stdout io.Writer)) { children[name] = fn }

// RunChild reports whether this process is a child, after it has run the child's function.
// TestMain returns if it is, and runs its tests if not.
func RunChild() bool {
	name, isChild := os.LookupEnv(childEnv)
	if !isChild {
		return false
	}
	fn := children[name]
	if fn == nil {
		fmt.Fprintf(os.Stderr, "redistest: no child is registered as %q\n", name)
		os.Exit(2)
	}
	fn(os.Stdin, os.Stdout)
	return true
}

// pipes opens pipes and closes each end that was not kept.
type pipes struct {
	rest []*os.File
	err  error // the first one
}

// pipe is both ends of one, closed on exec unless it is inherited.
type pipe struct{ r, w *os.File }

func (p *pipes) open() pipe {
	r, w, err := os.Pipe()
	if err != nil {
		if p.err == nil {
			p.err = err
		}
		return pipe{}
	}
	p.rest = append(p.rest, r, w)
	return pipe{r, w}
}

// keep hands f over to the caller.
func (p *pipes) keep(f *os.File) *os.File {
	for i, other := range p.rest {
		if other == f {
			p.rest = append(p.rest[:i], p.rest[i+1:]...)
			break
		}
	}
	return f
}

// closeNow closes ends before closeRest would.
func (p *pipes) closeNow(files ...*os.File) {
	for _, f := range files {
		_ = p.keep(f).Close() // a pipe end has nothing to flush
	}
}

func (p *pipes) closeRest() {
	p.closeNow(append([]*os.File(nil), p.rest...)...)
}
