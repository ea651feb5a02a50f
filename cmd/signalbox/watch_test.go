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

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/words"
)

// watched returns a screen of a size that has polled these entries.
func watched(width, height int, entries ...inspect.Entry) *screen {
	s := newScreen("", time.Second, func() tea.Msg { return nil })
	s.Init()
	s.Update(tea.WindowSizeMsg{Width: width, Height: height})
	s.Update(listMsg{entries: entries, at: time.Unix(100, 0)})
	return s
}

func press(s *screen, key string) tea.Cmd {
	msg := tea.KeyPressMsg{Text: key}
	for special, k := range map[string]tea.Key{
		"down": {Code: tea.KeyDown}, "up": {Code: tea.KeyUp}, "pgdown": {Code: tea.KeyPgDown}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	} {
		if key == special {
			msg = tea.KeyPressMsg(k)
		}
	}
	_, cmd := s.Update(msg)
	return cmd
}

func TestWatchFitsEveryWindow(t *testing.T) {
	t.Parallel()
	wide := entry("界界界界界界界界界界界界界界界界界界界界")
	s := watched(80, 24, entry(strange), entry("order/1"), wide)
	require.NotContains(t, s.text(), "\x1b", "names are escaped")
	require.Contains(t, s.text(), `"<script>alert`)
	for _, width := range []int{0, 1, 5, 20, 79, 80, 200} {
		for _, height := range []int{0, 1, 3, 4, 24, 100} {
			s.Update(tea.WindowSizeMsg{Width: width, Height: height})
			lines := strings.Split(s.text(), "\n")
			require.LessOrEqual(t, len(lines), max(height, 1))
			for _, line := range lines {
				require.LessOrEqual(t, ansi.StringWidth(line), width, "%q", line)
			}
		}
	}
	s.Update(tea.WindowSizeMsg{Width: 30, Height: 10})
	require.Contains(t, s.text(), "WAITING", "what matters most comes first")
}

func TestWatchSortsAndScrolls(t *testing.T) {
	t.Parallel()
	var entries []inspect.Entry
	for i := range 30 {
		e := entry(fmt.Sprintf("n%02d", i))
		e.WaiterCount = i
		entries = append(entries, e)
	}
	s := watched(80, 13, entries...)
	first := func() string { name, _, _ := strings.Cut(strings.Split(s.text(), "\n")[2], " "); return name }
	require.Equal(t, "n29", first())
	press(s, "s")
	require.Equal(t, "n00", first())
	press(s, "down")
	require.Equal(t, "n01", first())
	press(s, "pgdown")
	require.Equal(t, "n11", first())
	press(s, "G")
	require.Equal(t, "n20", first())
	require.Contains(t, s.text(), "21 to 30 of 30, by name")
	s.Update(listMsg{entries: entries[:5], at: time.Unix(101, 0)})
	require.Equal(t, "n00", first(), "there is less to scroll")
	press(s, "up")
	require.Equal(t, "n00", first())
	for _, key := range []string{"q", "ctrl+c"} {
		require.Equal(t, tea.Quit(), press(s, key)())
	}
}

func TestWatchOfAServerThatStops(t *testing.T) {
	t.Parallel()
	s := newScreen("a", time.Second, func() tea.Msg { return nil })
	s.Update(tea.WindowSizeMsg{Width: 120, Height: 10})
	require.Contains(t, s.text(), "no list yet")
	s.Update(listMsg{err: errors.New("signalbox: no server"), at: time.Unix(99, 0)})
	require.Contains(t, s.text(), "no list yet; no server")

	s.Update(listMsg{entries: []inspect.Entry{entry("a")}, at: time.Unix(100, 0)})
	require.Contains(t, s.text(), "1 name, 1 holder, 1 waiter")
	s.Update(pollDueMsg{})
	s.Update(secondMsg(time.Now().Add(5 * time.Second)))
	require.Contains(t, s.text(), "; no reply for 5s")
	s.Update(listMsg{err: errors.New("signalbox: no reply"), at: time.Unix(110, 0)})
	require.Contains(t, s.text(), "list of "+time.Unix(100, 0).Format(time.TimeOnly)+"; no reply")
	require.Contains(t, s.text(), "\na ", "the last list stays")

	_, next := s.Update(listMsg{entries: []inspect.Entry{entry("b")}, err: errors.New("a node is away"), at: time.Unix(111, 0)})
	require.NotNil(t, next, "the next poll comes after each")
	require.Contains(t, s.text(), "\nb ", "a list that is not complete is shown")
	require.Contains(t, s.text(), "a node is away")
}

func TestWatchSaysHowLateTheListIs(t *testing.T) {
	t.Parallel()
	s := watched(160, 10, entry("a"))
	require.NotContains(t, s.text(), "examined")
	s.Update(listMsg{at: time.Unix(101, 0), note: words.Lateness(inspect.Snapshot{Examined: 5, Keys: 20})})
	require.Contains(t, s.text(), "by waiters; not all names are found yet: 5 of 20 keys examined   q quits")
}

func TestProgressIsOneLineOfALongList(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	p := &progress{to: &text, begun: time.Now()}
	p.report(1, 100)
	p.end()
	require.Empty(t, text.String(), "a short list has no progress")
	p.begun = time.Now().Add(-10 * time.Second)
	p.report(20, 100)
	p.report(21, 100)
	p.end()
	require.Equal(t, "\rsignalbox: 20 of 100 keys examined, 40s left\x1b[K\r\x1b[K", text.String())
	require.Equal(t, "7 keys examined", words.Examined(7, 0))
}

func TestWatchCountsChanges(t *testing.T) {
	t.Parallel()
	e := entry("a")
	s := watched(80, 10, e)
	require.Contains(t, s.text(), " 0.0 ")
	for i := range 50 { // another hold each second
		e.Token++
		s.Update(listMsg{entries: []inspect.Entry{e}, at: time.Unix(int64(101+i), 0)})
	}
	require.Contains(t, s.text(), " 1.0 ")
	for i := range 50 {
		s.Update(listMsg{entries: []inspect.Entry{e}, at: time.Unix(int64(151+i), 0)})
	}
	require.Contains(t, s.text(), " 0.0 ")
}

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
