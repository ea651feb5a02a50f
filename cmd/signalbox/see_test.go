// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// output runs the command to its end. It returns what it printed, and its exit code.
func output(t *testing.T, url string, args ...string) (text string, code int) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = environment(url)
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return string(out) + string(exit.Stderr), exit.ExitCode()
	}
	require.NoError(t, err)
	return string(out), 0
}

func TestLsAndWho(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text, code := output(t, server.URL(), "ls")
	require.Equal(t, []any{"", 0}, []any{text, code})

	s := locktest.SteadySession(t, server)
	names := []string{"b/2", "b/1", "a", "b/\x1b[2J\u202e\"", "b/\xff"}
	for _, name := range names {
		lease := locktest.Must(t, reentrant.New(s, name).Lock)
		defer lease.Unlock()
	}
	permits, err := semaphore.New(s, "a", 5).Acquire(locktest.Context(t), 2)
	require.NoError(t, err)
	defer permits.Unlock()

	text, code = output(t, server.URL(), "ls", "b/")
	require.Zero(t, code)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	require.Len(t, lines, 5)
	for i, begins := range []string{"NAME ", `"b/\x1b[2J\u202e\"" `, "b/1 ", "b/2 ", `"b/\xff" `} {
		require.True(t, strings.HasPrefix(lines[i], begins), text)
	}

	text, code = output(t, server.URL(), "ls", "--json", "a")
	require.Zero(t, code)
	var entries []inspect.Entry
	for lines := json.NewDecoder(strings.NewReader(text)); lines.More(); {
		var e inspect.Entry
		require.NoError(t, lines.Decode(&e))
		entries = append(entries, e)
	}
	require.Len(t, entries, 2)
	require.Equal(t, []any{"reentrant", "semaphore", 5, 2, s.ID()}, []any{entries[0].Kind, entries[1].Kind, entries[1].Capacity, entries[1].Held, entries[0].Holders[0].Session})
	require.Contains(t, text, `"waiters":[],"waiter_count":0`)

	text, code = output(t, server.URL(), "ls", "--json", "b/\x1b")
	require.Zero(t, code)
	require.Contains(t, text, `"name":"b/\u001b[2J\u202e\""`)

	text, code = output(t, server.URL(), "who", "a")
	require.Zero(t, code)
	require.Contains(t, text, "a: reentrant\n  holds")
	require.Contains(t, text, "a: semaphore, 2 of 5 permits are held\n")
	require.Contains(t, text, "permits 2")
	text, code = output(t, server.URL(), "who", "nothing")
	require.Equal(t, []any{"nothing: not in use under \"sb:\"\n", 1}, []any{text, code})
	text, code = output(t, server.URL(), "who", "--json", "nothing")
	require.Equal(t, []any{"", 1}, []any{text, code})
}

func TestExitCodesOfSeeing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, args := range [][]string{{"ls", "a", "b"}, {"who"}, {"who", ""}, {"ls", "--hashed", "x"}, {"watch"}, {"serve", "--every", "1ms"}, {"serve", "--allow-break"}} {
		start(t, server.URL(), args...).ended(2, "")
	}
	start(t, server.URL(), "serve", "--listen", "localhost").ended(2, "missing port")
	start(t, server.URL(), "serve", "--listen", server.Addr()).ended(71, "address already in use")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, args := range [][]string{{"version"}, {"--version"}, {"who", "a"}} {
		cmd := exec.Command(binary, args...)
		cmd.Env, cmd.Stdout = environment(server.URL()), full
		require.Error(t, cmd.Run(), args)
		require.Equal(t, 71, cmd.ProcessState.ExitCode(), args)
	}
	server.Kill()
	start(t, server.URL(), "ls").ended(69, "")
	start(t, server.URL(), "who", "x").ended(69, "")
}

// address returns where serve listens, with a slash.
func (p *process) address() (address string) {
	p.tb.Helper()
	redistest.Await(p.tb, "the address", func() bool {
		_, rest, _ := strings.Cut(p.output(), "http://")
		whole := false
		address, _, whole = strings.Cut(rest, "\n")
		return whole
	})
	return address
}

// metric returns the value of a metric that serve serves, "" if it is missing.
func (p *process) metric(name string) string {
	p.tb.Helper()
	response, err := http.Get("http://" + p.address() + "metrics")
	require.NoError(p.tb, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(p.tb, err)
	require.NoError(p.tb, response.Body.Close())
	_, rest, _ := strings.Cut(string(text), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// screen returns the path of a program that shows what a user sees, and skips the test if it is not installed.
func screen(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil && os.Getenv("SIGNALBOX_SCREENS") != "required" {
		t.Skip(program + " is not installed; make screens installs it")
	}
	require.NoError(t, err)
	return path
}

// A browser shows what serve serves, within the page's own policy, with its styles and its script.
func TestServeInChromium(t *testing.T) {
	t.Parallel()
	browser := screen(t, "chromium-headless-shell")
	redistest.Slow(t, "a browser takes seconds to start")
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	for _, name := range []string{`order/<script>alert("x")</script>`, "order/\x1b[2J", "order/1"} {
		lease := locktest.Must(t, reentrant.New(s, name).Lock)
		defer lease.Unlock()
	}
	waiter := start(t, server.URL(), "run", "order/1", "--", "true")
	redistest.Await(t, "a waiter", func() bool {
		entries, err := inspect.Name(locktest.Context(t), s, "order/1")
		return err == nil && entries[0].WaiterCount == 1
	})
	p := startWith(t, environment(server.URL(), "SIGNALBOX_BREAK_TOKEN=the token of the test"), "serve", "--listen", "127.0.0.1:0", "--allow-break", "order/")
	cmd := exec.Command(browser, "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--enable-logging=stderr", "--dump-dom", "http://"+p.address())
	var output strings.Builder
	cmd.Stderr = &output
	dom, err := cmd.Output()
	require.NoError(t, err, output.String())
	require.NotContains(t, output.String(), "Content Security Policy", "nothing was blocked")
	for _, text := range []string{">order/1</a>", `&lt;script&gt;alert`, `"order/\x1b[2J"`, "3 names, 3 holders, 1 waiter", "break?key="} {
		require.Contains(t, string(dom), text)
	}
	require.Equal(t, 1, strings.Count(string(dom), "<script"), "the page's own")
	waiter.signal(syscall.SIGTERM)
	waiter.code()
}

func TestServeBreaksANameForTheTokenAndEndsAtASignal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	lease := locktest.Must(t, reentrant.New(s, "order/<b>").Lock)
	const token = "the token of the test"
	p := startWith(t, environment(server.URL(), "SIGNALBOX_BREAK_TOKEN="+token), "serve", "--listen", "127.0.0.1:0", "--every", "100ms", "--allow-break", "order/")
	address := p.address()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Contains(t, string(text), "order/&lt;b&gt;")
	require.NotContains(t, string(text), "<b>")

	key := url.Values{"key": {locktest.Key("order/<b>")}, "kind": {"reentrant"}}
	request, err := http.NewRequest(http.MethodGet, "http://"+address+"break?"+key.Encode(), nil)
	require.NoError(t, err)
	request.Header.Set("Accept", "application/json")
	response, err = client.Do(request)
	require.NoError(t, err)
	var shown struct {
		Hold        []string
		Since, Form string
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&shown))
	require.NoError(t, response.Body.Close())
	form := url.Values{"key": key["key"], "kind": key["kind"], "hold": shown.Hold, "since": {shown.Since}, "form": {shown.Form}, "token": {token}}
	response, err = client.PostForm("http://"+address+"break", form)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	redistest.Receive(t, "the loss", lease.Done())
	p.signal(syscall.SIGTERM)
	require.Equal(t, 128+int(syscall.SIGTERM), p.code())
}

// Each reason why signalbox_up is 0 is a line with its remedy, once, and so is its end.
func TestServeSaysWhyItIsDown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "ops", "on", ">geheim", "~*", "&*", "+@all")
	p := startWith(t, environment(server.URL(), "SIGNALBOX_USER=ops", "SIGNALBOX_PASSWORD=geheim"), "serve", "--listen", "127.0.0.1:0", "--every", "100ms")
	becomes := func(up string) {
		t.Helper()
		redistest.Await(t, "signalbox_up "+up, func() bool { return p.metric("signalbox_up") == up })
	}
	becomes("1")
	says := func(words string) {
		t.Helper()
		redistest.Await(t, words, func() bool { return strings.Contains(p.output(), words) })
	}
	for _, c := range []struct {
		fault, mend []any
		word        string
	}{
		{[]any{"ACL", "SETUSER", "ops", "-scan"}, []any{"ACL", "SETUSER", "ops", "+scan"}, "NOPERM"},
		{[]any{"ACL", "SETUSER", "ops", "resetpass", ">other"}, []any{"ACL", "SETUSER", "ops", ">geheim"}, "WRONGPASS"},
	} {
		server.MustDo(t, c.fault...)
		server.MustDo(t, "CLIENT", "KILL", "USER", "ops")
		becomes("0")
		says(c.word)
		becomes("0") // again, for the same reason
		server.MustDo(t, c.mend...)
		becomes("1")
		says("signalbox: serve: the server replies again\n")
		require.Equal(t, 1, strings.Count(p.output(), c.word), p.output())
	}
	require.Contains(t, p.output(), "; renew the password in its file, or grant the right that is missing")
	server.Kill()
	becomes("0")
	says("; check that the server runs")
}

// window is a terminal that the command draws on.
type window struct {
	*os.File

	mu   sync.Mutex
	text []byte // all bytes written to the window
}

// read reads until the terminal is closed.
func (w *window) read() {
	for chunk := make([]byte, 4096); ; {
		n, err := w.Read(chunk)
		w.mu.Lock()
		w.text = append(w.text, chunk[:n]...)
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// shows waits until a text was written, behind all that it waited for before.
func (w *window) shows(t *testing.T, text string) {
	t.Helper()
	redistest.Await(t, text, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		_, rest, found := strings.Cut(ansi.Strip(string(w.text)), text)
		if found {
			w.text = []byte(rest)
		}
		return found
	})
}

// A window that changes its size, a server that stops, and the end by q.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	lease := locktest.Must(t, reentrant.New(s, "order/\x1b[2J").Lock)
	defer lease.Unlock()
	cmd := exec.Command(binary, "watch", "--every", "100ms", "order/")
	cmd.Env = environment(server.URL(), "TERM=xterm")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 120, Rows: 12})
	require.NoError(t, err)
	w := &window{File: terminal}
	read := make(chan struct{})
	go func() { // ends when the terminal is closed
		defer close(read)
		w.read()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		terminal.Close()
		<-read
	})
	w.shows(t, "1 name, 1 holder, 0 waiters")
	w.shows(t, `"order/\x1b[2J"`)
	require.NoError(t, pty.Setsize(terminal, &pty.Winsize{Cols: 50, Rows: 6}))
	w.shows(t, "…")
	server.Kill()
	w.shows(t, "list of ")
	_, err = w.WriteString("q")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
}

// onTerminal starts the command as ssh -t does, with a terminal of its own and no shell. What it writes to
// standard error is not shown.
func onTerminal(tb testing.TB, url string, args ...string) *process {
	tb.Helper()
	return programOnTerminal(tb, url, binary, args...)
}

// inShell starts a program as a job of a shell that has a terminal. When the job stops, the shell prints "stopped", reads
// a line and continues the job.
func inShell(tb testing.TB, url string, job ...string) *process {
	tb.Helper()
	// The standard error is the terminal that bash hands to its jobs.
	const script = `exec 2>/dev/tty; set -m; "$@"; code=$?; if [ $code -gt 128 ]; then echo stopped; read line; fg; code=$?; fi; exit $code`
	return programOnTerminal(tb, url, "bash", append([]string{"-c", script, "bash"}, job...)...)
}

func programOnTerminal(tb testing.TB, url, program string, args ...string) *process {
	tb.Helper()
	stderr, err := os.CreateTemp(tb.TempDir(), "stderr")
	require.NoError(tb, err)
	p := &process{tb: tb, stderr: stderr, lines: make(chan string, 1000), exited: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Env, p.cmd.Stderr = environment(url), stderr
	terminal, err := pty.Start(p.cmd)
	require.NoError(tb, err)
	// A read of this descriptor ends when it is closed, even if a process that outlived the program has the terminal.
	end, err := unix.FcntlInt(terminal.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(tb, err)
	require.NoError(tb, unix.SetNonblock(end, true))
	require.NoError(tb, terminal.Close())
	p.stdin = os.NewFile(uintptr(end), terminal.Name())
	p.stdout = p.stdin
	p.supervise()
	return p
}

// A program that reads from the terminal is given it, and signalbox has it back at the end.
func TestRunGivesItsProgramTheTerminal(t *testing.T) {
	t.Parallel()
	p := onTerminal(t, redistest.Start(t).URL(), "run", "a", "--", "sh", "-c", "stty -echo; echo ready; read x; echo got $x; exit 3")
	require.Equal(t, "ready", p.line())
	p.send("hello")
	require.Equal(t, "got hello", p.line())
	p.ended(3)
}

// ^C ends the program, whether it has the terminal or not. After "ready" the scripts start no program that lives for long:
// a shell that starts one while it gets SIGINT may keep the signal from it, and waits for its end.
func TestInterruptOfTheTerminalEndsTheProgram(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	for _, script := range []string{"echo ready; read x <$0", "stty -echo; echo ready; read x", "trap 'exit 130' INT; echo ready; while :; do sleep 0.01; done"} {
		p := onTerminal(t, url, "run", "a", "--", "sh", "-c", script, pipe(t).Name())
		require.Equal(t, "ready", p.line())
		_, err := p.stdin.WriteString("\x03")
		require.NoError(t, err)
		p.ended(130)
	}
}

// ^C ends the wait for --min, also if the program had the terminal.
func TestInterruptOfTheTerminalEndsTheMinimum(t *testing.T) {
	t.Parallel()
	script := "stty -echo; echo ready; read x; echo over; exit 3"
	p := onTerminal(t, redistest.Start(t).URL(), "run", "--min", "1h", "a", "--", "sh", "-c", script)
	require.Equal(t, "ready", p.line())
	p.send("")
	require.Equal(t, "over", p.line())
	redistest.Await(t, "the end", func() bool {
		_, err := p.stdin.WriteString("\x03") // again, since the terminal may be that of the program still
		return err != nil || locktest.IsClosed(p.exited)
	})
	require.Contains(t, []int{3, 130, -1}, p.code()) // -1: the last one came when the lock was released, and nothing caught it
}

// The two ways of a program with a terminal: it never reads from it, but from the pipe $0; or it is given it.
var terminalScripts = []string{"echo $PPID; echo $$; read x <$0", "stty -echo; echo $PPID; echo $$; read x"}

// pipe returns a named pipe, open to write to.
func pipe(tb testing.TB) *os.File {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "pipe")
	require.NoError(tb, syscall.Mkfifo(path, 0o600))
	end, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(tb, err)
	tb.Cleanup(func() { end.Close() })
	return end
}

// ^Z stops the program and signalbox, and the shell continues both, a signalbox in a script too.
func TestStopOfTheTerminalStopsBoth(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	for _, script := range terminalScripts {
		for _, job := range [][]string{{binary}, {"sh", "-c", `"$0" "$@"; exit $?`, binary}} {
			end := pipe(t)
			p := inShell(t, url, append(job, "run", "a", "--", "sh", "-c", script, end.Name())...)
			self, child := p.pid(), p.pid()
			_, err := p.stdin.WriteString("\x1a")
			require.NoError(t, err)
			redistest.Await(t, "a stop", func() bool { return stopped(t, self) && stopped(t, child) })
			for p.line() != "stopped" { // behind what the terminal echoes
			}
			p.send("")
			redistest.Await(t, "the end of the stop", func() bool { return !stopped(t, self) && !stopped(t, child) })
			_, err = end.WriteString("\n")
			require.NoError(t, err)
			p.send("")
			p.ended(0)
		}
	}
}

// Where no shell would continue it, ^Z stops nothing: under ssh -t, say, or with a wrapper that leads the session.
func TestStopOfATerminalWithoutAShellStopsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, script := range terminalScripts {
		for _, start := range []func(args ...string) *process{
			func(args ...string) *process { return onTerminal(t, server.URL(), args...) },
			func(args ...string) *process {
				return programOnTerminal(t, server.URL(), "sh", append([]string{"-c", `"$0" "$@"; exit $?`, binary}, args...)...)
			},
		} {
			end := pipe(t)
			p := start("run", "--lease", "3s", "a", "--", "sh", "-c", script, end.Name())
			p.pid()
			p.pid()
			_, err := p.stdin.WriteString("\x1a\x1a\n")
			require.NoError(t, err)
			_, err = end.WriteString("\n")
			require.NoError(t, err)
			p.ended(0)
		}
	}
}

func TestBreakAsksOnATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	held := locktest.Must(t, reentrant.New(s, "a").Lock)
	for _, c := range []struct {
		reply string
		code  int
	}{{"", 1}, {"no", 1}, {"yes", 0}} {
		p := onTerminal(t, server.URL(), "break", "a")
		redistest.Await(t, "the question", func() bool { return strings.Contains(p.output(), "[y/N]") })
		require.Contains(t, p.output(), `"a" is held as reentrant by`)
		require.NoError(t, held.Err())
		p.send(c.reply)
		require.Equal(t, c.code, p.code())
	}
	redistest.Receive(t, "the loss", held.Done())
	require.Error(t, held.Unlock())

	first := locktest.Must(t, reentrant.New(s, "a").Lock)
	p := onTerminal(t, server.URL(), "break", "a")
	redistest.Await(t, "the question", func() bool { return strings.Contains(p.output(), "[y/N]") })
	require.NoError(t, locktest.IgnoreUnconfirmed(first.Unlock()))
	second := locktest.Must(t, reentrant.New(s, "a").Lock)
	p.send("yes")
	require.Equal(t, 75, p.code(), "another holder than the one that was shown")
	require.Contains(t, p.output(), "another hold than the one that was meant")
	require.NoError(t, second.Err())
	require.NoError(t, locktest.IgnoreUnconfirmed(second.Unlock()))

	p = onTerminal(t, server.URL(), "break", "a")
	require.Equal(t, 1, p.code())
	require.Contains(t, p.output(), "no process holds it")
}
