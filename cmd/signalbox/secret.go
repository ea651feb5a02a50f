// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/words"
)

// secretFile is a file whose first line is a secret. It is read whenever the secret is needed, since secrets are rotated while a
// command runs: a mounted one is replaced, a file of its own is written anew. While it is missing, empty, unreadable or too short,
// as a file that is being written, or if reading it hangs, as on a network that is away, the last good secret is used.
type secretFile struct {
	what    string // what it is, for people
	path    string
	least   int // the least length of the secret
	notices *notices

	mu struct {
		sync.Mutex
		last string      // the last good secret; "" before the first
		once bool        // reports that the file is a pipe, which can be read once
		read *secretRead // the read that has not returned, or nil
	}
}

type secretRead struct {
	pipe, done chan struct{} // closed when the file is known to be a pipe, and at the end of the read
	line       string
	regular    bool
	err        error
}

// secretTimeout bounds the wait for a file, and is less than the time for a connection. A program may take its time to write to a pipe.
const secretTimeout = time.Second

var errSlow = fmt.Errorf("reading it takes longer than %v", secretTimeout)

// readLocked reads the file by do, which is firstLine except in a test. At most one read is under way.
func (f *secretFile) readLocked(ctx context.Context, do func(path string, isPipe func()) (string, bool, error)) (line string, regular bool, err error) {
	r := f.mu.read
	if r == nil {
		r = &secretRead{pipe: make(chan struct{}), done: make(chan struct{})}
		f.mu.read = r
		go func() { // ends when the file system does
			defer close(r.done)
			r.line, r.regular, r.err = do(f.path, func() { close(r.pipe) })
		}()
	}
	limit := time.NewTimer(secretTimeout)
	defer limit.Stop()
	select {
	case <-r.done:
	case <-r.pipe:
		select {
		case <-r.done:
		case <-ctx.Done(): // a signal ends the command, also if no program writes to the pipe
			return "", false, ctx.Err()
		}
	case <-limit.C:
		return "", true, errSlow
	}
	f.mu.read = nil
	return r.line, r.regular, r.err
}

// read returns the secret. It returns an error only if there was never a good one.
func (f *secretFile) read(ctx context.Context) (string, error) { return f.readBy(ctx, firstLine) }

func (f *secretFile) readBy(ctx context.Context, do func(path string, isPipe func()) (string, bool, error)) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.once {
		return f.mu.last, nil
	}
	secret, regular, err := f.readLocked(ctx, do)
	if err == nil && len(secret) < f.least {
		err = fmt.Errorf("it has %s, and needs %d or more", words.Counted(len(secret), "character"), f.least)
	}
	switch {
	case err == nil:
		f.mu.last, f.mu.once = secret, !regular
		f.notices.end(f.what, fmt.Sprintf("%s %q can be read again", f.what, f.path))
	case f.mu.last == "":
		return "", &exitError{codeUsage, fmt.Errorf("%s %q: %w", f.what, f.path, err)}
	default:
		f.notices.begin(f.what, err.Error(), fmt.Sprintf("%s %q: %v; the secret that it had before is used: write the file again", f.what, f.path, err))
	}
	return f.mu.last, nil
}

// credentials returns a function for the credentials of a user whose password the file has.
func (f *secretFile) credentials(user string) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		password, err := f.read(context.Background()) // a pipe was read before
		return rueidis.AuthCredentials{Username: user, Password: password}, err
	}
}

var (
	errEmptySecret = errors.New("the file is empty")
	errNoText      = errors.New("its first line has a byte-order mark or a zero byte: write it in UTF-8 without a mark")
)

// firstLine returns the first line of a file, and whether the file can be read again. It calls isPipe before it reads a file that cannot.
func firstLine(path string, isPipe func()) (line string, regular bool, err error) {
	info, err := os.Stat(path) // before it is opened: opening a pipe waits for a writer
	var text []byte
	if err == nil {
		if regular = info.Mode().IsRegular(); !regular {
			isPipe()
		}
		text, err = os.ReadFile(path) //nolint:gosec // the caller names it
	}
	if err != nil {
		if failed := new(fs.PathError); errors.As(err, &failed) {
			err = failed.Err
		}
		return "", regular, err
	}
	line, _, _ = strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	switch {
	case line == "":
		return "", regular, errEmptySecret
	case strings.HasPrefix(line, "\ufeff"), strings.Contains(line, "\x00"): // as editors of Windows write it
		return "", regular, errNoText
	}
	return line, regular, nil
}
