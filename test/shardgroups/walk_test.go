// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// walk takes random steps on a group, with what may go wrong.
type walk struct {
	*world

	random *rand.Rand
	loses  bool // keys are lost, and the clock is not set back: the tokens of a group that was lost rise by the clock alone
	steps  int
	log    []string
}

// steps is how long a walk is.
const steps = 300

// walks is which walks a test takes: the one of SIGNALBOX_WALK, or a million steps if SIGNALBOX_SOAK is set, or few.
func walks(tb testing.TB) (first, behind int) {
	tb.Helper()
	if text := os.Getenv("SIGNALBOX_WALK"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(tb, err)
		return n, n + 1
	}
	if os.Getenv("SIGNALBOX_SOAK") != "" {
		return 0, 1_000_000/steps + 1
	}
	return 0, redistest.Rounds(40, 400)
}

// Random steps never make two owners; tokens rise; the index is what the rows say; and when all is quiet, the loads are even.
func TestRandomWalks(t *testing.T) {
	t.Parallel()
	first, behind := walks(t)
	for seed := first; seed < behind; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			wk := newWalk(t, seed)
			wk.take()
			wk.drop()
		})
	}
}

// newWalk returns a walk that is not taken yet.
func newWalk(t *testing.T, seed int) *walk {
	t.Helper()
	random := rand.New(rand.NewPCG(2, uint64(seed)))
	wk := &walk{world: newWorld(newGroup(t), 1+random.IntN(12)), random: random, loses: seed%2 == 0}
	t.Cleanup(func() {
		if t.Failed() {
			for _, line := range wk.log[max(0, len(wk.log)-60):] {
				t.Log(line)
			}
		}
	})
	return wk
}

// take takes all steps of the walk, to the calm at its end.
func (wk *walk) take() {
	wk.Helper()
	for range 1 + wk.random.IntN(3) {
		wk.add(wk.some())
	}
	if wk.random.IntN(2) == 0 {
		wk.runs(5*second, second)
	}
	for range steps {
		wk.step()
	}
	wk.calms()
}

// some returns what a member may say.
func (wk *walk) some() settings {
	s := defaults(wk.count)
	s.weight = 1 + wk.random.IntN(3)
	if wk.random.IntN(4) == 0 {
		s.limit = wk.random.IntN(2 * wk.count)
	}
	if wk.random.IntN(3) == 0 {
		s.moves = 1 + wk.random.IntN(3)
	}
	return s
}

// any returns a member that polls, nil if no member does. A member that comes to its deadline first learns that.
func (wk *walk) any() *member {
	alive := wk.alive()
	if len(alive) == 0 {
		return nil
	}
	m := alive[wk.random.IntN(len(alive))]
	if wk.time >= m.deadline {
		wk.comesBack(m)
		return nil
	}
	return m
}

// comesBack is what a member does whose lease is over by its own clock.
func (wk *walk) comesBack(m *member) {
	wk.note("lost", m)
	m.lose()
	s := wk.some()
	if wk.random.IntN(2) == 0 {
		s.old = m.number
	}
	if !m.leaves {
		wk.add(s)
	}
}

func (wk *walk) note(what string, m *member) {
	line := fmt.Sprintf("%d %d %s", wk.steps, wk.clock-noon, what)
	if m != nil {
		line += fmt.Sprintf(" %s %v asked %v until %d", m.number, m.owns, m.due, m.deadline)
	}
	wk.log = append(wk.log, line)
}

func (wk *walk) step() {
	wk.Helper()
	wk.steps++
	switch n := wk.random.IntN(100); {
	case n < 30:
		wk.passes(wk.random.Int64N([]int64{100 * millisecond, second}[wk.random.IntN(2)]))
	case n < 34:
		if len(wk.alive()) < 5 {
			wk.note("join", wk.add(wk.some()))
		}
	case n < 38:
		wk.goesWrong()
	default:
		if m := wk.any(); m != nil {
			wk.acts(m, n)
		}
	}
	if wk.steps%10 == 0 {
		wk.audit()
	}
}

// acts is a step of a member.
func (wk *walk) acts(m *member, n int) {
	wk.Helper()
	switch {
	case n < 65:
		wk.note("poll", m)
		m.poll()
	case n < 85:
		wk.note("release", m)
		for shard := range m.due {
			if m.owns[shard] != "" {
				m.release(shard, "r", 0)
				break
			}
		}
	case n < 88:
		wk.note("elsewhere", m)
		for shard := range m.owns {
			m.release(shard, []string{"r", "e", "u", "d"}[wk.random.IntN(4)], wk.random.Int64N(30*second))
			break
		}
	case n < 91:
		wk.note("leave", m)
		m.leave()
	case n < 94:
		wk.note("set", m)
		s := wk.some()
		m.set(s.weight, s.limit, "l")
	case n < 97:
		wk.note("move", m)
		m.call(proto.ShardsMoveScript, wk.random.IntN(wk.count), m.number, digits(m.clock+second), "PUBLISH", channel)
	default:
		wk.note("kill", m)
		m.kill()
	}
}

// goesWrong is a step of what is around a group.
func (wk *walk) goesWrong() {
	wk.Helper()
	switch wk.random.IntN(6) {
	case 4, 5:
		if len(wk.sent) > 0 { // a call arrives twice, the second time late
			wk.note("late copy", nil)
			wk.sent[wk.random.IntN(len(wk.sent))]()
		}
	case 0:
		if m := wk.any(); m != nil { // the reply of a poll is lost, or it arrives late
			wk.note("lost reply", m)
			m.call(proto.ShardsPollScript, m.number, m.seen, "PUBLISH", channel)
		}
	case 1:
		if wk.loses {
			return
		}
		back := wk.random.Int64N([]int64{second, 20 * second}[wk.random.IntN(2)])
		wk.note("clock back", nil)
		wk.clock -= back
	case 2:
		wk.note("clock ahead", nil)
		wk.clock += 4*second + wk.random.Int64N(20*second)
		wk.allReachIt()
	default:
		if !wk.loses {
			return
		}
		wk.note("keys are lost", nil)
		wk.drop()
		wk.allReachIt()
	}
}

// allReachIt lets all members that are alive poll within two seconds.
func (wk *walk) allReachIt() {
	wk.Helper()
	for _, m := range wk.alive() {
		wk.passes(wk.random.Int64N(200 * millisecond))
		if wk.time >= m.deadline {
			wk.comesBack(m)
			continue
		}
		wk.note("reaches", m)
		if m.poll(); m.isLost {
			wk.add(wk.some())
		}
	}
}

// calms lets the group come to rest: no shard is without an owner then, and no move improves the loads.
func (wk *walk) calms() {
	wk.Helper()
	wk.note("calm", nil)
	if len(wk.alive()) == 0 {
		wk.add(wk.some())
	}
	for _, m := range wk.alive() {
		m.set(m.weight, m.limit, "l") // what ending u has made less
	}
	for range 800 {
		for _, m := range wk.alive() {
			if wk.time >= m.deadline {
				wk.comesBack(m)
			}
		}
		if wk.turn(); wk.isCalm() {
			break
		}
		wk.passes(second)
	}
	wk.note("is calm", nil)
	wk.requireEven()
}

func (wk *walk) isCalm() bool {
	sum := 0
	for _, load := range wk.loads() {
		sum += load
	}
	parts := wk.parts()
	return len(parts) > 0 && sum == min(wk.count, capacity(parts)) && isBest(wk.loads(), parts)
}
