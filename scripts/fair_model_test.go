// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

// naive is a fair lock as one would write it who need not care what it costs.
type naive struct {
	now      int64
	tickets  []ticket
	sessions map[string]lifeOf
	hold     string // that has the lock, "" for nobody
	stamp    int64  // its, or the floor that was left; 0 is none
	until    int64
	told     map[string][]string // what each session was told by messages
}

type ticket struct {
	hold string
	at   int64
}

type lifeOf struct {
	until  int64
	number string
}

func (m *naive) lives(session string) bool {
	l, known := m.sessions[session]
	return known && l.until > m.now && l.until-m.now <= longestLife
}

func (m *naive) isGone(session string) bool {
	l, known := m.sessions[session]
	return !known || l.until+keepsPlace <= m.now
}

func (m *naive) beat(session string, number string) {
	l := lifeOf{m.now + life, number}
	if m.lives(session) {
		l.until, l.number = max(l.until, m.sessions[session].until), max(l.number, m.sessions[session].number)
	}
	m.sessions[session] = l
}

func (m *naive) left() int64 { return max(m.until-m.now, 0) }

func (m *naive) takes(hold string, until int64) {
	m.hold, m.stamp, m.until = hold, max(m.now, m.stamp+1), until
}

// handOff gives the lock to the first who lives, and tells it, unless it is the session that asked.
func (m *naive) handOff(asks string) (chosen, number string) {
	for i, t := range m.tickets {
		if session := t.hold[:22]; m.lives(session) {
			m.tickets = slices.Delete(m.tickets, i, i+1)
			m.takes(t.hold, max(m.now+second, m.sessions[session].until))
			number = m.sessions[session].number
			if session != asks {
				m.told[session] = append(m.told[session], attempt(t.hold)+digits(m.stamp)+number)
			}
			return t.hold, number
		}
	}
	m.hold, m.until = "", 0
	return "", ""
}

// enter answers as the script does; one that comes to try has no number.
func (m *naive) enter(hold, number string) []any {
	queues := number != ""
	full := m.now + lease*1000
	if m.hold == hold {
		m.until = max(m.until, full)
		return []any{int64(1), digits(m.stamp), digits(m.now)}
	}
	left, more := m.left(), int64(0)
	isFree := left == 0 && len(m.tickets) == 0
	handsOff := left == 0 && !isFree
	if queues && !isFree {
		if !slices.ContainsFunc(m.tickets, func(t ticket) bool { return t.hold == hold }) {
			at := m.now
			if n := len(m.tickets); n > 0 {
				at = max(at, m.tickets[n-1].at+1)
			}
			m.tickets = append(m.tickets, ticket{hold, at})
		}
		m.beat(hold[:22], number)
	}
	if handsOff {
		switch chosen, _ := m.handOff(hold[:22]); {
		case chosen == hold:
			m.until = full
			return []any{int64(1), digits(m.stamp), digits(m.now)}
		case chosen == "" && !queues:
			isFree = true
		case chosen != "" && chosen[:22] == hold[:22]:
			more = 1
		}
	}
	if isFree {
		m.takes(hold, full)
		return []any{int64(1), digits(m.stamp), digits(m.now)}
	}
	return []any{int64(0), left, more, digits(m.now)}
}

func (m *naive) leave(hold string) []any {
	if m.hold == hold {
		chosen, number := m.handOff(hold[:22])
		if chosen == "" || chosen[:22] != hold[:22] {
			return []any{int64(1), digits(m.now), "", int64(0)}
		}
		return []any{int64(1), digits(m.now), attempt(chosen) + digits(m.stamp) + number, int64(0)}
	}
	i := slices.IndexFunc(m.tickets, func(t ticket) bool { return t.hold == hold })
	if i < 0 {
		return []any{int64(0), digits(m.now)}
	}
	m.tickets = slices.Delete(m.tickets, i, i+1)
	return []any{int64(2), digits(m.now)}
}

func (m *naive) look(session, number string, holds []string) []any {
	m.beat(session, number)
	places := ""
	for _, hold := range holds {
		if slices.ContainsFunc(m.tickets, func(t ticket) bool { return t.hold == hold }) {
			places += "1"
		} else {
			places += "0"
		}
	}
	paid, fresh := strings.Repeat("-", 20), false
	if !slices.Contains(holds, m.hold) && m.left() == 0 {
		if m.hold, m.until = "", 0; len(m.tickets) > 0 {
			_, paid = m.handOff(session)
			fresh = true
		}
	}
	left := m.left()
	switch {
	case m.hold != "" && slices.Contains(holds, m.hold):
		ends := m.now + life
		if !fresh {
			ends = max(ends, m.until)
		}
		m.until, left, paid = ends, ends-m.now, number
	case fresh:
		left = 0
	}
	if m.hold == "" || m.hold[:22] != session {
		return []any{int64(1), left, int64(0), "", places, digits(m.now)}
	}
	return []any{int64(1), left, int64(0), attempt(m.hold) + digits(m.stamp) + paid, places, digits(m.now)}
}

func (m *naive) renew(hold string, ttl int64) int64 {
	if m.hold != hold || m.until <= m.now {
		return 0
	}
	m.until = max(m.until, m.now+ttl)
	return 1
}

// game is a random use of one lock, and what ought to come of it.
type game struct {
	*line
	*rand.Rand

	model naive
	holds []string // all that there ever were
	hear  map[string]*listener
}

// games is how many games are played with each kind of lock.
func games() uint64 { return uint64(redistest.Rounds(2, 20)) }

// players are the sessions of a game.
var players = []string{session("a"), session("b"), session("c"), session("d")}

func newGame(t *testing.T, seed uint64) *game {
	t.Helper()
	g := &game{line: newLine(t), Rand: rand.New(rand.NewPCG(seed, 1)), hear: make(map[string]*listener)}
	g.model.sessions, g.model.told = make(map[string]lifeOf), make(map[string][]string)
	for _, session := range players {
		g.hear[session] = g.hears(session)
	}
	g.advance(0)
	return g
}

// anyHold answers one of all holds, mostly a late one.
func (g *game) anyHold() string {
	n := len(g.holds)
	if n == 0 || g.IntN(4) == 0 {
		g.holds = append(g.holds, players[g.IntN(len(players))]+fmt.Sprintf("%019d", n))
		return g.holds[n]
	}
	return g.holds[max(n-1-g.IntN(8), 0)]
}

// step does one thing to the lock and to the model, and answers what both say.
func (g *game) step() (what string, got, want any) {
	hold := g.anyHold()
	switch g.IntN(12) {
	case 0, 1, 2:
		got = g.joins(hold)
		return "joins " + hold, got, g.model.enter(hold, beatNumber(g.beats))
	case 3:
		return "tries " + hold, g.tries(hold), g.model.enter(hold, "")
	case 4, 5:
		return "leaves " + hold, g.leaves(hold), g.model.leave(hold)
	case 6, 7:
		session := hold[:22]
		var listed []string
		for _, h := range g.holds[max(len(g.holds)-12, 0):] {
			if h[:22] == session && g.IntN(4) > 0 {
				listed = append(listed, h)
			}
		}
		got = g.looks(session, listed...)
		return fmt.Sprint("looks ", listed), got, g.model.look(session, beatNumber(g.beats), listed)
	case 8:
		number := beatNumber(max(g.beats-g.IntN(3), 1)) // some are late
		g.beat(hold[:22], life, number)
		g.model.beat(hold[:22], number)
		return "beats " + hold[:22], nil, nil
	case 9:
		if g.model.hold == hold && g.IntN(3) == 0 {
			g.model.hold, g.model.until = "", 0
			return "drops " + hold, g.drops(hold), int64(1)
		}
		ttl := g.Int64N(10)
		return "renews " + hold, g.renews(hold, time.Duration(ttl)*time.Second), g.model.renew(hold, ttl*second)
	case 10:
		g.advance(g.Int64N(2 * second))
	default:
		g.advance([]int64{1, 4 * second, 15 * second, 40 * second, -second, -hour}[g.IntN(6)])
	}
	return fmt.Sprint("time is ", g.clock), nil, nil
}

func (g *game) advance(us int64) {
	g.clock += us
	g.model.now = g.clock
}

// compare holds the lock against the model. Tickets of those that lost their places may be there still.
func (g *game) compare() {
	g.Helper()
	want := []any{}
	real := g.inLine()
	g.model.tickets = slices.DeleteFunc(g.model.tickets, func(t ticket) bool {
		return g.model.isGone(t.hold[:22]) && !slices.Contains(real, any(t.hold))
	})
	for _, t := range g.model.tickets {
		want = append(want, t.hold)
	}
	require.Equal(g, want, real)
	switch value := g.value(); {
	case g.model.hold != "":
		require.Equal(g, "sb1f"+digits(g.model.stamp)+g.model.hold+digits(g.model.until), value[:min(77, len(value))])
	case len(value) >= 77 && g.model.stamp > 0:
		require.LessOrEqual(g, value[61:77], digits(g.model.now), "nobody has it")
		require.Equal(g, digits(g.model.stamp), value[4:20])
	case value != "":
		require.Equal(g, released(g.model.stamp), value)
	}
}

// compareMessages holds what the sessions were told since the last call against the model.
func (g *game) compareMessages() {
	g.Helper()
	for _, session := range players {
		require.Equal(g, append([]string{}, g.model.told[session]...), g.hear[session].heard(), "what %s was told", session)
	}
	clear(g.model.told)
}

// P1, P3, order: whatever happens in whatever order, and whatever the clock does, the lock is what the
// naive one is.
func TestTheLineIsWhatANaiveOneIs(t *testing.T) {
	t.Parallel()
	const steps, between = 500, 20 // steps between two looks at the messages
	for seed := range games() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			g := newGame(t, seed)
			var history []string
			for n := range steps {
				what, got, want := g.step()
				history = append(history, what)
				require.Equal(t, want, got, "%v", history[max(len(history)-40, 0):])
				g.compare()
				if (n+1)%between == 0 {
					g.compareMessages()
				}
			}
			g.requireEnds()
		})
	}
}
