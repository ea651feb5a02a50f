// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/signalbox-go/signalbox/internal/words"
)

// notices writes what lasts, and what no call returns, to standard error: a line when it begins, which says what to do, and one when
// it is over. It is the log of the command's session, and takes the lines of jobs.
//
// Lines are written on a goroutine that runs while there are lines: a pipe that no process reads holds up no connection and no
// renewal.
type notices struct {
	mu struct {
		sync.Mutex
		out     io.Writer           // nil discards
		waiting []string            // the lines that are not written yet
		held    bool                // lines wait until release
		written chan struct{}       // closed when no line waits; nil if no goroutine writes
		open    map[notice]struct{} // what was said, and is not over
	}
}

// notice identifies what a line is about. The same subject for another reason is another notice.
type notice struct{ subject, reason string }

const (
	// mostLines bounds the lines that wait. Later ones are dropped.
	mostLines = 100
	// flushTimeout is how long the end of the command waits for its lines.
	flushTimeout = time.Second
	// logSubject is the subject of the session's log.
	logSubject = "log"
)

// unbroken is standard error for lines that are not worth the process: if it is a pipe that was closed, a write has an error and no
// signal.
type unbroken struct{ file *os.File }

// Write implements io.Writer.
func (u unbroken) Write(b []byte) (int, error) {
	broken := make(chan os.Signal, 1)
	notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	return u.file.Write(b)
}

func newNotices(out io.Writer) *notices {
	n := new(notices)
	n.mu.out, n.mu.open = out, make(map[notice]struct{})
	return n
}

// begin writes a line, unless the last one for that subject had the same reason.
func (n *notices) begin(subject, reason, line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, said := n.mu.open[notice{subject, reason}]; said {
		return
	}
	if subject != logSubject { // which has several at a time
		n.closeLocked(subject)
	}
	n.mu.open[notice{subject, reason}] = struct{}{}
	n.writeLocked(line)
}

// end writes a line if the subject was written about.
func (n *notices) end(subject, line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closeLocked(subject) {
		n.writeLocked(line)
	}
}

func (n *notices) closeLocked(subject string) (was bool) {
	for said := range n.mu.open {
		if said.subject == subject {
			delete(n.mu.open, said)
			was = true
		}
	}
	return was
}

// hold keeps lines back until release, for a view that has the whole terminal.
func (n *notices) hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.held = true
}

func (n *notices) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.held = false
	n.startLocked()
}

// Write implements io.Writer for whole lines, such as those of a job, which must not wait for the reader of a pipe.
func (n *notices) Write(lines []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for line := range strings.Lines(string(lines)) {
		n.writeLocked(line)
	}
	return len(lines), nil
}

func (n *notices) writeLocked(line string) {
	if len(n.mu.waiting) < mostLines {
		n.mu.waiting = append(n.mu.waiting, words.OneLine(errors.New(line)))
	}
	n.startLocked()
}

// startLocked starts the goroutine that writes, if there is something to write. It ends when there is nothing more.
func (n *notices) startLocked() {
	if n.mu.held || n.mu.written != nil || len(n.mu.waiting) == 0 {
		return
	}
	n.mu.written = make(chan struct{})
	go func() {
		for n.writeNext() {
		}
	}()
}

func (n *notices) writeNext() bool {
	n.mu.Lock()
	if n.mu.held || len(n.mu.waiting) == 0 {
		close(n.mu.written)
		n.mu.written = nil
		n.mu.Unlock()
		return false
	}
	line, out := n.mu.waiting[0], n.mu.out
	n.mu.waiting = n.mu.waiting[1:]
	n.mu.Unlock()
	if out != nil {
		_, _ = fmt.Fprintln(out, line) // if it is closed, no process reads it
	}
	return true
}

// flush waits until the lines are written, for flushTimeout at most.
func (n *notices) flush() {
	n.mu.Lock()
	written := n.mu.written
	n.mu.Unlock()
	if written == nil {
		return
	}
	timeout := time.NewTimer(flushTimeout)
	defer timeout.Stop()
	select {
	case <-written:
	case <-timeout.C:
	}
}

// sessionLog writes the log of a session to notices. It leaves out what the command says itself: the outcome of calls.
type sessionLog struct {
	notices *notices
	outages bool // outages are written: no line of the command's own says why its calls fail
}

// Enabled implements slog.Handler.
func (sessionLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements slog.Handler. The session does not call it, nor WithGroup.
func (l sessionLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l sessionLog) WithGroup(string) slog.Handler { return l }

// Handle implements slog.Handler. A line of a higher level than Info, or about an error, is about something that lasts, or that
// no call returns. Another one of level Info says that something is over.
func (l sessionLog) Handle(_ context.Context, r slog.Record) error {
	line, more := r.Message, ""
	is := make(map[string]string)
	r.Attrs(func(a slog.Attr) bool {
		is[a.Key] = a.Value.String()
		switch a.Key {
		case "events", "for", "after":
		case "error":
			more += ": " + is[a.Key]
		case "do":
			more += "; " + is[a.Key]
		default:
			line += fmt.Sprintf(", %s %s", a.Key, is[a.Key])
		}
		return true
	})
	_, ofCall := is["events"]
	ofCall = ofCall && is["name"] != "" // the call returns it, or the job of a program says it
	_, failed := is["error"]
	_, outage := is["do"]
	_, policy := is["maxmemory-policy"] // which doctor checks
	switch {
	case ofCall, policy, outage && !l.outages:
	case r.Level > slog.LevelInfo:
		l.notices.begin(logSubject, r.Message+is["name"], line+more)
	case !failed:
		if after := is["after"]; after != "" {
			line += ", after " + after
		}
		l.notices.end(logSubject, line)
	}
	return nil
}

// progress says on a terminal how far a long list is, on a line that it writes over.
type progress struct {
	to    io.Writer // nil if there is no terminal
	begun time.Time
	last  time.Time
	wrote bool
}

// progressAfter is how long a list is silent, and progressEvery how often it writes then.
const progressAfter, progressEvery = time.Second, 500 * time.Millisecond

func newProgress(to io.Writer) *progress {
	p := &progress{begun: time.Now()}
	if file, is := to.(*os.File); is && term.IsTerminal(int(file.Fd())) {
		p.to = to
	}
	return p
}

// report is called after each page of keys.
func (p *progress) report(examined, keys int64) {
	now := time.Now()
	if p.to == nil || now.Sub(p.begun) < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last, p.wrote = now, true
	text := "signalbox: " + words.Examined(examined, keys)
	if left := time.Duration(float64(now.Sub(p.begun)) * float64(keys-examined) / float64(max(examined, 1))); keys > 0 && left >= time.Second {
		text += ", " + left.Round(time.Second).String() + " left"
	}
	_, _ = fmt.Fprintf(p.to, "\r%s\x1b[K", text) // it is no part of the result
}

// end removes the line.
func (p *progress) end() {
	if p.wrote {
		_, _ = fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// say prints a line for the person at the terminal.
func (p *progress) say(text string) {
	if p.to != nil {
		_, _ = fmt.Fprintln(p.to, "signalbox: "+text)
	}
}
