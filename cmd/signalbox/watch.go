// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/words"
)

const watchHelp = `Show the names in use that begin with PREFIX, and keep the list up to date until q is pressed. CHANGES/S is
how often another hold was seen, averaged over the last polls: a name that changes hands between two polls
counts once. If the server does not reply, the last list stays and the first line says why. The last line says how late
names that are new may appear, if the server has millions of keys.

Keys: up, down, page up, page down and home scroll; s sorts by waiters or by name; q quits.`

// The limits of --every.
const (
	shortestPoll = 100 * time.Millisecond
	longestPoll  = time.Hour
)

// pollTimeout is how long a poll, or a break, may take.
const pollTimeout = 10 * time.Second

func newWatch(s *serverFlags) *cobra.Command {
	every := time.Second
	cmd := &cobra.Command{
		Use:     "watch [flags] [PREFIX]",
		GroupID: groupSee,
		Short:   "Show the names in use, live",
		Long:    watchHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if every < shortestPoll || every > longestPoll {
				return badUsage("--every %v: it must be from %v to %v", every, shortestPoll, longestPoll)
			}
			if !term.IsTerminal(int(os.Stdout.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())) {
				return badUsage("watch needs a terminal; without one use ls")
			}
			return arguments(0, 1, "at most one PREFIX")(cmd, args)
		},
	}
	durationVar(cmd.Flags(), &every, "every", every, "how long to pause between two polls")
	cmd.RunE = s.watching(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		ctx, prefix := cmd.Context(), strings.Join(args, "")
		names, stop := follow(ctx, session, prefix, every)
		defer stop()
		s.notices.hold()
		defer s.notices.release()
		sc := newScreen(prefix, every, poller(ctx, names))
		_, err := tea.NewProgram(sc, tea.WithContext(ctx), tea.WithoutSignalHandler()).Run()
		return cmp.Or(ctx.Err(), err)
	})
	return cmd
}

// follow keeps a list up to date until the command ends. stop waits for that.
func follow(ctx context.Context, session *signalbox.Session, prefix string, every time.Duration) (l *inspect.List, stop func()) {
	l = inspect.NewList(session, prefix, every)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends at stop
		defer close(ended)
		_ = l.Run(ctx) // Snapshot has the error
	}()
	return l, func() {
		cancel()
		<-ended
	}
}

// listMsg is what a poll found.
type listMsg struct {
	entries []inspect.Entry
	err     error
	at      time.Time
	note    string // how late the list is
}

// poller returns the command that reads the list. The screen sorts the entries in its own way.
func poller(ctx context.Context, names *inspect.List) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, pollTimeout)
		defer cancel()
		now := names.Snapshot(ctx)
		return listMsg{slices.Clone(now.Entries), now.Err, now.At, words.Lateness(now)}
	}
}

// pollDueMsg says that it is time for the next poll.
type pollDueMsg struct{}

// screen is the live view. The program calls it from one goroutine; a poll runs on one of its own, and no second
// one begins before it has ended.
type screen struct {
	prefix string
	every  time.Duration
	poll   tea.Cmd

	width, height int
	top           int  // the first row that is visible
	byName        bool // rows are sorted by name; otherwise by waiters

	now       time.Time // the time of the last tick
	pollBegun time.Time // when the poll that is under way began; zero between two polls
	last      listMsg   // the last list: of a poll that failed, the one before it
	err       error     // the error of the last poll, or nil
	rates     map[string]rate
}

// rate is how often a name changes hands.
type rate struct {
	hold   string // identifies a hold: another hold has another text
	second float64
}

// smoothing is the weight of the last poll in a rate.
const smoothing = 0.2

func newScreen(prefix string, every time.Duration, poll tea.Cmd) *screen {
	return &screen{prefix: prefix, every: every, poll: poll, rates: make(map[string]rate)}
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd {
	s.pollBegun = time.Now()
	return tea.Batch(s.poll, nextSecond())
}

// secondMsg says that a second has passed.
type secondMsg time.Time

func nextSecond() tea.Cmd {
	return tea.Tick(time.Second, func(at time.Time) tea.Msg { return secondMsg(at) })
}

// Update implements tea.Model.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
		s.scroll(0)
	case secondMsg:
		s.now = time.Time(msg)
		return s, nextSecond()
	case pollDueMsg:
		s.pollBegun = time.Now()
		return s, s.poll
	case listMsg:
		s.pollBegun = time.Time{}
		s.update(msg)
		return s, tea.Tick(s.every, func(time.Time) tea.Msg { return pollDueMsg{} })
	case tea.KeyPressMsg:
		return s, s.press(msg.String())
	}
	return s, nil
}

func (s *screen) press(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "s":
		s.byName = !s.byName
		s.sort()
	case "up", "k":
		s.scroll(-1)
	case "down", "j":
		s.scroll(1)
	case "pgup":
		s.scroll(-s.rows())
	case "pgdown", "space":
		s.scroll(s.rows())
	case "home", "g":
		s.scroll(-len(s.last.entries))
	case "end", "G":
		s.scroll(len(s.last.entries))
	}
	return nil
}

// update keeps what a poll found. A list that is not complete is shown with its error.
func (s *screen) update(p listMsg) {
	s.err = p.err
	if p.err != nil && len(p.entries) == 0 {
		return
	}
	passed := p.at.Sub(s.last.at).Seconds()
	rates := make(map[string]rate, len(p.entries))
	for _, e := range p.entries {
		hold := fmt.Sprint(e.Token, e.HolderCount)
		if len(e.Holders) > 0 {
			hold += e.Holders[0].Label + e.Holders[0].Session
		}
		now, known := s.rates[e.Key]
		if known && passed > 0 {
			now.second *= 1 - smoothing
			if hold != now.hold {
				now.second += smoothing / passed
			}
		}
		now.hold = hold
		rates[e.Key] = now
	}
	s.last, s.rates = p, rates
	s.sort()
	s.scroll(0)
}

func (s *screen) sort() {
	slices.SortStableFunc(s.last.entries, func(a, b inspect.Entry) int {
		order := cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
		if s.byName {
			return order
		}
		return cmp.Or(cmp.Compare(b.WaiterCount, a.WaiterCount), order)
	})
}

// fixedLines is how many lines are not rows: the first one, the head of the table, and the last one.
const fixedLines = 3

// rows is for how many entries there is room.
func (s *screen) rows() int { return max(s.height-fixedLines, 1) }

func (s *screen) scroll(by int) {
	s.top = max(min(s.top+by, len(s.last.entries)-s.rows()), 0)
}

// columns are the heads of the table, and how wide they are; the first one has what is left.
//
//nolint:gochecknoglobals // a constant table
var columns = []struct {
	head  string
	width int
}{{"NAME", 0}, {"WAITING", 7}, {"HELD", 24}, {"FOR", 8}, {"CHANGES/S", 9}, {"KIND", 17}}

// leastNameWidth is how wide the first column is at the least; what does not fit then is cut at the right.
const leastNameWidth = 16

// View implements tea.Model.
func (s *screen) View() tea.View {
	view := tea.NewView(s.text())
	view.AltScreen = true
	return view
}

// text is what the window shows.
func (s *screen) text() string {
	if s.height < fixedLines+1 || s.width < 1 {
		return ""
	}
	lines := []string{s.title()}
	var heads []string
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	lines = append(lines, s.row(heads))
	for _, e := range s.last.entries[s.top:min(s.top+s.rows(), len(s.last.entries))] {
		lines = append(lines, s.row([]string{
			words.Shown(e.Name), strconv.Itoa(e.WaiterCount), words.Held(e), s.age(e.Since), fmt.Sprintf("%.1f", s.rates[e.Key].second), e.Kind,
		}))
	}
	for len(lines) < s.height-1 {
		lines = append(lines, "")
	}
	order := "by waiters"
	if s.byName {
		order = "by name"
	}
	if s.last.note != "" {
		order += "; " + s.last.note
	}
	lines = append(lines, fmt.Sprintf("%d to %d of %d, %s   q quits, s sorts, arrows scroll",
		min(s.top+1, len(s.last.entries)), min(s.top+s.rows(), len(s.last.entries)), len(s.last.entries), order))
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], s.width, "…")
	}
	return strings.Join(lines, "\n")
}

// title is the first line: the totals, and what is wrong.
func (s *screen) title() string {
	asOf := "no list yet"
	if !s.last.at.IsZero() {
		asOf = "list of " + s.last.at.Format(time.TimeOnly)
	}
	silent := s.now.Sub(s.pollBegun)
	switch {
	case s.err != nil:
		return asOf + "; " + strings.TrimPrefix(words.OneLine(s.err), "signalbox: ")
	case !s.pollBegun.IsZero() && silent > time.Second:
		return fmt.Sprintf("%s; no reply for %v", asOf, silent.Round(time.Second))
	case s.last.at.IsZero():
		return asOf
	}
	holders, waiters := 0, 0
	for _, e := range s.last.entries {
		holders, waiters = holders+e.HolderCount, waiters+e.WaiterCount
	}
	return fmt.Sprintf("signalbox %s  %s  %s, %s, %s", words.Shown(s.prefix+"*"), s.last.at.Format(time.TimeOnly),
		words.Counted(len(s.last.entries), "name"), words.Counted(holders, "holder"), words.Counted(waiters, "waiter"))
}

// row puts cells into the columns.
func (s *screen) row(cells []string) string {
	first := s.width
	for _, c := range columns[1:] {
		first -= c.width + 2
	}
	var text strings.Builder
	for i, cell := range cells {
		width := cmp.Or(columns[i].width, max(first, leastNameWidth))
		cell = ansi.Truncate(cell, width, "…")
		text.WriteString(cell + strings.Repeat(" ", width-ansi.StringWidth(cell)+2))
	}
	return strings.TrimRight(text.String(), " ")
}

// age is how long ago something began, by the clock of this host.
func (s *screen) age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return max(s.last.at.Sub(since), 0).Round(time.Second).String()
}
