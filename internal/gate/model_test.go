// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// model is a gate as one would write it without caring for speed.
type model struct {
	state  state
	queue  []*Waiter
	passes int
	turns  map[*Waiter]Turn // given and not taken
}

func (m *model) next() {
	m.state = idle
	if len(m.queue) > 0 {
		m.state = contending
		m.turns[m.queue[0]] = Turn{}
		m.queue = m.queue[1:]
	}
}

// step does one random thing to both, where it makes sense, and says what it was.
func (m *model) step(t *testing.T, r *rand.Rand, g *Gate, ws []*Waiter) string {
	t.Helper()
	w := ws[r.IntN(len(ws))]
	_, turned := m.turns[w]
	waits := slices.Contains(m.queue, w)
	switch event := r.IntN(10); {
	case event <= 2 && !waits && !turned:
		contends := g.Join(w)
		require.Equal(t, m.state == idle, contends)
		if contends {
			m.state = contending
		} else {
			m.queue = append(m.queue, w)
		}
		return "join"
	case event == 3:
		got := g.Try()
		require.Equal(t, m.state == idle, got)
		if got {
			m.state = contending
		}
		return "try"
	case event == 4 && (waits || turned):
		left, isHeld := g.Leave(w)
		require.Equal(t, waits, left)
		require.Equal(t, waits && m.state == held, isHeld)
		m.queue = slices.DeleteFunc(m.queue, func(o *Waiter) bool { return o == w })
		return "leave"
	case event == 5 && turned:
		turn, given := taken(w)
		require.True(t, given, "a turn was lost")
		require.Equal(t, m.turns[w], turn)
		delete(m.turns, w)
		return "take a turn"
	case event == 6 && r.IntN(8) == 0:
		why := fmt.Errorf("refusal %d", r.Int())
		g.Refuse(why)
		for _, w := range m.queue {
			m.turns[w] = Turn{Err: why}
		}
		m.queue = nil
		return "refuse"
	}
	return m.advance(t, r, g)
}

// advance does what the contender or holder may do.
func (m *model) advance(t *testing.T, r *rand.Rand, g *Gate) string {
	t.Helper()
	switch choice := r.IntN(6); {
	case m.state == contending && choice < 2:
		g.Quit()
		m.next()
		return "quit"
	case m.state == contending:
		g.Won(now, nil)
		m.state, m.passes = held, 0
		return "won"
	case m.state == held && choice == 0:
		g.Lost()
		m.next()
		return "lost"
	case m.state == held && choice == 1:
		g.Vacate()
		m.state = releasing
		return "vacate"
	case m.state == held:
		want := GiveBack
		switch {
		case len(m.queue) == 0 || m.queue[0].Accepts != terms:
		case m.passes >= MaxPasses:
			want = Ask
		default:
			want = Passed
			m.turns[m.queue[0]] = Turn{Passed: true}
			m.queue = m.queue[1:]
			m.passes++
		}
		require.Equal(t, want, g.Pass(now, terms, give))
		return "pass"
	case m.state == releasing:
		g.Vacated(clock.Instant{})
		m.next()
		return "vacated"
	}
	return ""
}

func TestAGateIsWhatItsModelIs(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		seed := rand.Uint64()
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			g, m := &Gate{}, &model{turns: make(map[*Waiter]Turn)}
			ws := make([]*Waiter, 1+r.IntN(8))
			for i := range ws {
				ws[i] = waiter()
				if r.IntN(4) == 0 {
					ws[i].Accepts = Terms{Life: time.Second} // not what is passed here
				}
			}
			var done []string
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, after %v", seed, done[max(0, len(done)-20):])
				}
			}()
			for range 2_000 {
				done = append(done, m.step(t, r, g, ws))
				m.compare(t, g, ws)
			}
		})
	}
}

func (m *model) compare(t *testing.T, g *Gate, ws []*Waiter) {
	t.Helper()
	require.Equal(t, m.state, g.inState())
	var queue []*Waiter
	for w := g.mu.head; w != nil; w = w.next {
		queue = append(queue, w)
	}
	if !slices.Equal(m.queue, queue) {
		require.Fail(t, "the queues differ")
	}
	for _, w := range ws {
		if _, given := m.turns[w]; given != (len(w.Turn) == 1) {
			require.Fail(t, "a turn was lost, or given twice")
		}
	}
}
