// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// said returns the lines of n.
func said(n *notices) (all []string) {
	n.flush()
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.mu.out.(*bytes.Buffer) //nolint:forcetypeassert // of these tests
	for line := range strings.Lines(out.String()) {
		all = append(all, strings.TrimSuffix(line, "\n"))
	}
	out.Reset()
	return all
}

// What lasts is one line when it begins and one when it is over, whatever the log repeats. What calls return is no line.
func TestSessionLogIsALineWhenItBeginsAndOneAtItsEnd(t *testing.T) {
	t.Parallel()
	n := newNotices(new(bytes.Buffer))
	log := slog.New(sessionLog{n, true})
	reason := errors.New("dial tcp: refused\nby \x1b[2J")
	for range 3 {
		log.Warn("signalbox: the server is away", "error", reason, "do", "check it", "for", 5, "events", 3)
		log.Warn("signalbox: a right is missing", "error", "NOPERM", "do", "grant it")
		log.Info("signalbox: no messages", "error", reason, "events", 1)
		log.Warn("signalbox: a lease was lost", "kind", "reentrant", "name", "a", "error", reason, "events", 1)
		log.Warn("signalbox: it evicts", "maxmemory-policy", "allkeys-lru")
	}
	require.Equal(t, []string{
		`signalbox: the server is away: dial tcp: refused by \x1b[2J; check it`, "signalbox: a right is missing: NOPERM; grant it",
	}, said(n))
	log.Info("signalbox: the server is back", "after", "7s", "events", 9)
	log.Info("signalbox: messages arrive again", "events", 1)
	log.Warn("signalbox: the sentinels differ", "primaries", "a by b; c by d")
	require.Equal(t, []string{"signalbox: the server is back, after 7s", "signalbox: the sentinels differ, primaries a by b; c by d"}, said(n))

	slog.New(sessionLog{n, false}).Warn("signalbox: the server is away", "error", reason, "do", "check it")
	require.Empty(t, said(n), "the command says it")
}

// A pipe that no process reads holds up no job: its lines wait, and the end of the command does so for a second.
func TestNoticesDoNotWaitForTheirReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		read, pipe := io.Pipe()
		n := newNotices(pipe)
		_, err := fmt.Fprintln(n, "signalbox: run: a line")
		require.NoError(t, err)
		n.begin("a", "x", "another")
		begun := time.Now()
		n.flush()
		require.Equal(t, flushTimeout, time.Since(begun))
		buffer := make([]byte, 100)
		for _, line := range []string{"signalbox: run: a line\n", "signalbox: another\n"} {
			size, err := read.Read(buffer)
			require.NoError(t, err)
			require.Equal(t, line, string(buffer[:size]))
		}
		n.flush()
	})
}

// A view that has the whole terminal is not written over.
func TestHeldNoticesComeAtTheEnd(t *testing.T) {
	t.Parallel()
	n := newNotices(new(bytes.Buffer))
	n.hold()
	for range 2 * mostLines {
		n.begin("a", "x", "x")
		n.end("a", "y")
	}
	require.Empty(t, said(n))
	n.release()
	require.Len(t, said(n), mostLines)
}
