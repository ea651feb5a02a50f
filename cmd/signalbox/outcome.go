// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/words"
)

// The exit codes. Those of the program that run starts are passed through, and 128+n if a signal ended
// it. Codes from 64 on mean what sysexits.h and lockf(1) say.
const (
	codeNotHeld     = 1   // who, break: no process holds the name
	codeWarning     = 1   // doctor: it found something to know, and no problem
	codeUsage       = 2   // a flag, a name or a URL is not valid
	codeUnavailable = 69  // the server cannot be reached, or refuses for now
	codeLost        = 70  // run: the lock was lost while the program ran
	codeFailed      = 71  // anything else, such as a right that is missing
	codeHeld        = 75  // another holder has the lock; run -E changes it
	codeProblem     = 78  // doctor: the server does not suit locks as it is, or grants none now
	codeCannotRun   = 126 // run: the program cannot be executed
	codeNotFound    = 127 // run: there is no such program
	codeSignal      = 128 // and the number of the signal
)

// exitError is the error of a command that decides its exit code itself.
type exitError struct {
	code int
	err  error // nil: no line is printed
}

// Error implements error.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns what went wrong.
func (e *exitError) Unwrap() error { return e.err }

func badUsage(format string, args ...any) error {
	return &exitError{codeUsage, fmt.Errorf(format, args...)}
}

// outcome returns the exit code for the error of a command, and the line to print.
func outcome(ctx context.Context, err error) (code int, line string) {
	var decided *exitError
	switch {
	case err == nil:
		return 0, ""
	case errors.As(err, &decided):
		if decided.err == nil {
			return decided.code, ""
		}
		return decided.code, words.OneLine(err)
	default:
		var caught *signalError
		if errors.As(context.Cause(ctx), &caught) {
			return caught.code(), ""
		}
		return codeOf(err), words.OneLine(err)
	}
}

// sessionError is an error that a session's call returned. An error without it is cobra's, about the
// command line.
type sessionError struct{ error }

// Unwrap returns the error of the call.
func (s sessionError) Unwrap() error { return s.error }

// codeOf returns the exit code for an error that does not decide it.
func codeOf(err error) int {
	for _, c := range []struct {
		code  int
		kinds []error
	}{
		{codeUsage, []error{signalbox.ErrBadName, signalbox.ErrBadOption}},
		{codeFailed, []error{
			signalbox.ErrDenied, signalbox.ErrWrongKind, signalbox.ErrCapacity, signalbox.ErrOldServer, signalbox.ErrUnsupported, signalbox.ErrUpgrade,
			signalbox.ErrClosed,
		}},
		{codeLost, []error{signalbox.ErrLost, signalbox.ErrMaxHold}},
		{codeHeld, []error{signalbox.ErrHeld}},
		{codeNotHeld, []error{signalbox.ErrNotHeld, election.ErrNoCandidate}},
	} {
		if slices.ContainsFunc(c.kinds, func(kind error) bool { return errors.Is(err, kind) }) {
			return c.code
		}
	}
	if path := new(fs.PathError); errors.As(err, &path) {
		return codeFailed // of our own output, such as a full disk: a server is no file
	}
	if errors.As(err, new(sessionError)) {
		return codeUnavailable
	}
	return codeUsage
}

// withoutOp returns err without the operation and the name, which the caller adds itself.
func withoutOp(err error) error {
	if of, is := err.(*signalbox.OpError); is { //nolint:errorlint // the outermost one alone
		return of.Err
	}
	return err
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

// Error implements error.
func (s *signalError) Error() string { return "signal: " + s.signal.String() }

func (s *signalError) code() int { return codeSignal + int(s.signal) }

// untilSignal returns a context that ends at SIGINT, SIGTERM, SIGHUP or SIGQUIT, with a signalError as its cause.
// stop ends the watch.
func untilSignal(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() { // ends with the context
		select {
		case s := <-signals:
			if number, ok := s.(syscall.Signal); ok {
				cancel(&signalError{number})
			}
		case <-ctx.Done():
		}
		signal.Stop(signals)
	}()
	return ctx, func() { cancel(nil) }
}

// notify is signal.Notify without the signals that are ignored, as by nohup: Notify would end that.
func notify(signals chan<- os.Signal, heeded ...os.Signal) {
	heeded = slices.DeleteFunc(heeded, signal.Ignored)
	if len(heeded) > 0 { // else Notify means all
		signal.Notify(signals, heeded...)
	}
}

// trouble is why a server refuses a probe of doctor that it was not made for. A probe that meets one knows nothing of what it was
// made for, except that the user has the right, if only writes are refused: a server checks rights first.
type trouble struct {
	begins   string // how the server's words begin
	ofWrites bool   // only commands that write are refused
	advice   string
}

//nolint:gochecknoglobals // a constant table
var troubles = []trouble{
	{begins: "OOM", ofWrites: true, advice: "give the server more memory (maxmemory), or free some: it grants nothing until then"},
	{begins: "NOREPLICAS", ofWrites: true, advice: "connect the replicas that min-replicas-to-write wants, or lower it: the server grants nothing until then"},
	{begins: "MISCONF", ofWrites: true, advice: "see the server's log and its disk: it cannot save its data, and grants nothing until it can"},
	{begins: "READONLY", ofWrites: true, advice: "name the primary: this is a replica"},
	{begins: "LOADING", advice: "wait until the server has loaded its data, and run this again"},
	{begins: "BUSY", advice: "end the script or the function that runs (SCRIPT KILL, FUNCTION KILL), and run this again"},
	{begins: "CLUSTERDOWN", advice: "mend the cluster (redis-cli --cluster check): it serves not all slots"},
	{begins: "MASTERDOWN", advice: "name the primary: this is a replica that has lost its own"},
	{begins: "MOVED", advice: "the server is a node of a cluster, which the client was not told, or whose slots move: grant +cluster|slots +cluster|shards, and run this again"},
	{begins: "TRYAGAIN", advice: "wait until the slots have moved, and run this again"},
	{begins: "NOAUTH", advice: "give the user and the password of now"},
	{begins: "WRONGPASS", advice: "give the user and the password of now"},
}

// troubleOf returns the trouble in the words of a server, or nil. Redis 6.2 puts a position and a minus before those of a script.
func troubleOf(words string) *trouble {
	words = strings.TrimPrefix(scriptPosition.ReplaceAllString(words, ""), "-")
	first, _, _ := strings.Cut(words, " ")
	for i := range troubles {
		if troubles[i].begins == first {
			return &troubles[i]
		}
	}
	return nil
}

// adviceFor returns what to do about the error of a probe. usual is the advice for a right that is missing.
func adviceFor(err error, usual string) string {
	words := wordsOf(err)
	switch t := troubleOf(words); {
	case words == "":
		return "see whether the server is overloaded, and the network, and run this again"
	case t != nil:
		return t.advice
	case parseRefusal(words) != notRefused:
		return usual
	}
	return "docs/refusals.md says what the server's words mean"
}
