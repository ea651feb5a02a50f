// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// binary is the command, built once.
var binary string

func TestMain(m *testing.M) { redistest.VerifyTestMain(redistest.WithParallelism(4, built{m})) }

// built are tests that run beside a binary.
type built struct{ tests redistest.Tests }

// Run implements redistest.Tests.
func (b built) Run() int {
	// Under nohup, or in the background of a script, some signals are ignored, and what is started from here would ignore them
	// too. A program starts with the default action of a signal that its parent catches.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, s)
			defer signal.Stop(caught)
		}
	}
	folder, err := os.MkdirTemp("", "signalbox")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o755); err != nil { // other users run it too
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = filepath.Join(folder, "signalbox")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintln(os.Stderr, string(out), err)
		return 1
	}
	return b.tests.Run()
}

// environment returns that of a command which is to use the server at url.
func environment(url string, more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "SIGNALBOX_") })
	return append(append(env, "SIGNALBOX_REDIS="+url), more...)
}

// process is a running command.
type process struct {
	tb     testing.TB
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	lines  chan string // the lines of the standard output; closed at the end
	stderr *os.File
	exited chan struct{}
}

// start starts the command with a server.
func start(tb testing.TB, url string, args ...string) *process {
	tb.Helper()
	return startWith(tb, environment(url), args...)
}

func startWith(tb testing.TB, env []string, args ...string) *process {
	tb.Helper()
	return startProgram(tb, env, binary, args...)
}

func startProgram(tb testing.TB, env []string, program string, args ...string) *process {
	tb.Helper()
	in, stdin, err := os.Pipe()
	require.NoError(tb, err)
	stdout, out, err := os.Pipe()
	require.NoError(tb, err)
	stderr, err := os.CreateTemp(tb.TempDir(), "stderr")
	require.NoError(tb, err)
	p := &process{tb: tb, stdin: stdin, stdout: stdout, stderr: stderr, lines: make(chan string, 1000), exited: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Env, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = env, in, out, stderr
	// A group of its own, as a shell gives a job.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(tb, p.cmd.Start())
	in.Close()
	out.Close()
	p.supervise()
	return p
}

// supervise reads the output, waits for the end, and kills what is left when the test ends.
func (p *process) supervise() {
	read := make(chan struct{})
	go func() { // ends with the output, which the cleanup closes
		defer close(read)
		defer close(p.lines)
		for scanner := bufio.NewScanner(p.stdout); scanner.Scan(); {
			p.lines <- strings.TrimSuffix(scanner.Text(), "\r")
		}
	}()
	go func() { // ends with the process, which the cleanup kills
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	p.tb.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		p.stdin.Close()
		p.stdout.Close()
		<-read
		p.stderr.Close()
	})
}

// line returns the next line of the output.
func (p *process) line() string {
	p.tb.Helper()
	return redistest.Receive(p.tb, "a line of output", p.lines)
}

// pid returns the next line of the output as the id of a process.
func (p *process) pid() int {
	p.tb.Helper()
	n, err := strconv.Atoi(p.line())
	require.NoError(p.tb, err)
	return n
}

// send writes a line to the input.
func (p *process) send(line string) {
	p.tb.Helper()
	_, err := p.stdin.WriteString(line + "\n")
	require.NoError(p.tb, err)
}

func (p *process) signal(s syscall.Signal) {
	p.tb.Helper()
	require.NoError(p.tb, p.cmd.Process.Signal(s))
}

// code waits for the end and returns the exit code.
func (p *process) code() int {
	p.tb.Helper()
	redistest.Receive(p.tb, "the end of the command", p.exited)
	code := p.cmd.ProcessState.ExitCode()
	if code < 0 {
		p.tb.Log(p.cmd.ProcessState, p.output())
	}
	return code
}

// output returns what was written to standard error.
func (p *process) output() string {
	p.tb.Helper()
	text, err := os.ReadFile(p.stderr.Name())
	require.NoError(p.tb, err)
	return string(text)
}

// ended requires an exit code, and one line on standard error with these words if it has any.
func (p *process) ended(code int, words ...string) {
	p.tb.Helper()
	require.Equal(p.tb, code, p.code(), p.output())
	text := p.output()
	if len(words) == 0 {
		require.Empty(p.tb, text)
		return
	}
	require.Equal(p.tb, 1, strings.Count(text, "\n"), text)
	require.True(p.tb, strings.HasPrefix(text, "signalbox: "), text)
	for _, word := range words {
		require.Contains(p.tb, text, word)
	}
}

// isThere reports whether there is a process, a zombie too.
func isThere(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// stopped reports whether a process is stopped.
func stopped(tb testing.TB, pid int) bool {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(tb, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "T")
}
