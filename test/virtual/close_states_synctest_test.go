// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
)

// logged returns a logger, and what it has logged.
func logged() (*slog.Logger, *logLines) {
	link := new(logLines)
	return slog.New(slog.NewTextHandler(link, nil)), link
}

// logLines is a buffer for lines of a log. A session writes them on a goroutine of its own.
type logLines struct {
	mu struct {
		sync.Mutex
		text bytes.Buffer
	}
}

// Write implements io.Writer.
func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.Write(line)
}

// String returns what was written.
func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.String()
}

// owned returns a session whose Close also closes its client, as Dial makes it.
func (f *fixture) owned(options ...signalbox.SessionOption) (*signalbox.Session, *wire) {
	c, link := f.client(f.T)
	set := session.Defaults()
	for _, option := range options {
		option(&set)
	}
	return (*signalbox.Session)(session.New(c, set, true).Handle()), link
}

// A forgotten lease delays Close for its context or for the grace, whichever is shorter. The lease ends, and is logged.
func TestCloseEndsAForgottenLease(t *testing.T) {
	t.Parallel()
	const held = 90 * time.Second
	for name, c := range map[string]struct {
		within time.Duration // the caller's deadline; 0 for no deadline
		lasts  time.Duration
		option []signalbox.SessionOption
	}{
		"Default":  {0, session.DefaultCloseGrace, nil},
		"Grace":    {0, 2 * time.Minute, []signalbox.SessionOption{signalbox.WithCloseGrace(2 * time.Minute)}},
		"Deadline": {time.Minute, time.Minute, nil},
		"Shorter":  {time.Minute, time.Minute, []signalbox.SessionOption{signalbox.WithCloseGrace(time.Hour)}},
		"Longer":   {time.Minute, 2 * time.Second, []signalbox.SessionOption{signalbox.WithCloseGrace(2 * time.Second)}},
	} {
		bubbleOfUsers(t, func(f *fixture) {
			logger, lines := logged()
			s, _ := f.owned(append(c.option, signalbox.WithLogger(logger))...)
			atOnce(f.T, reentrant.New(s, "a"))
			time.Sleep(held)
			ctx := context.Background()
			if c.within > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.within)
				defer cancel()
			}
			var err error
			closed := took(func() { err = s.Close(ctx) })
			require.ErrorContains(f, err, "holders were left", name)
			require.Equal(f, c.within == c.lasts, ctx.Err() != nil)
			if c.within != c.lasts {
				require.ErrorContains(f, err, "grace")
				require.NotErrorIs(f, err, context.DeadlineExceeded)
			}
			require.GreaterOrEqual(f, closed, c.lasts)
			require.LessOrEqual(f, closed, c.lasts+time.Second)
			require.Contains(f, lines.String(), fmt.Sprintf("kind=reentrant name=a held=%v\n", held+c.lasts), name)
		})
	}
}

// The log is bounded, names are as hashed as the session wants them, and without a logger of the
// session the lines go to the program's own.
func TestCloseLogsTheLeasesItEnds(t *testing.T) { //nolint:paralleltest // sets the logger of the program
	const leases = 50
	logger, lines := logged()
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(logger)
	bubbleOfUsers(t, func(f *fixture) {
		s, _ := f.owned(signalbox.WithHashedNames())
		for i := range leases {
			atOnce(f.T, reentrant.New(s, fmt.Sprint("secret/", i)))
		}
		require.Error(f, s.Close(locktest.Ended()))
	})
	require.Equal(t, 20, strings.Count(lines.String(), "kind=reentrant name=%sha256-"))
	require.Contains(t, lines.String(), "leases=30")
	require.NotContains(t, lines.String(), "secret")
}

// later makes a call that waits.
func (f *fixture) later(call func() error) <-chan error {
	end := make(chan error, 1)
	go func() { end <- call() }()
	time.Sleep(100 * time.Millisecond)
	return end
}

// A lock over several sessions is logged by one of them, once.
func TestCloseLogsALeaseOfAQuorumOnce(t *testing.T) {
	t.Parallel()
	bubbleOf(t, 3, func(r *redlockServers) {
		r.makeReady()
		logger, lines := logged()
		sessions, _ := r.process(signalbox.WithLogger(logger))
		lease := r.mustLock(redlock.New(sessions, "a"))
		for i, s := range sessions {
			lasted := took(func() { _ = s.Close(context.Background()) })
			require.LessOrEqual(r, lasted, session.DefaultCloseGrace+time.Second, "session %d", i)
		}
		require.ErrorIs(r, lease.Err(), signalbox.ErrClosed)
		require.Equal(r, 1, strings.Count(lines.String(), "kind=redlock name=a"))
	})
}
