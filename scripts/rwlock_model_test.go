// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// naiveRW is a read-write lock as one would write it who need not care what it costs. Its sessions are those of a
// naive lock, of which it uses nothing else.
type naiveRW struct {
	naive

	has   []rwHold
	queue []rwTicket // the tickets of both modes, in the order of their arrival
	wrote bool       // the last who had the lock was a writer
	floor int64
}

type rwHold struct {
	hold, mode string
	until      int64
}

type rwTicket struct {
	hold, mode string
	at         int64
}

func (nr *naiveRW) holds(hold string) int {
	return slices.IndexFunc(nr.has, func(h rwHold) bool { return h.hold == hold })
}

func (nr *naiveRW) queues(hold string) int {
	return slices.IndexFunc(nr.queue, func(t rwTicket) bool { return t.hold == hold })
}

// takes gives the lock to hold, with the next token.
func (nr *naiveRW) takes(hold, mode string, until int64) {
	nr.floor = max(nr.now, nr.floor+1)
	nr.wrote = mode == writes
	nr.has = append(nr.has, rwHold{hold, mode, until})
}

// dropEnded takes the holds out that have ended.
func (nr *naiveRW) dropEnded() {
	nr.has = slices.DeleteFunc(nr.has, func(h rwHold) bool { return h.until <= nr.now })
}

// bounds ends holds that would last longer than any was given: the clock was set back.
func (nr *naiveRW) bounds() {
	for i := range nr.has {
		nr.has[i].until = min(nr.has[i].until, nr.now+longestLife)
	}
}

// writer returns the position of the first writer in the queue that is served, and whether there is one.
func (nr *naiveRW) writer(caller string) (at int, waits bool) {
	at = slices.IndexFunc(nr.queue, func(t rwTicket) bool { return t.mode == writes && nr.serves(t.hold[:22], caller) })
	return at, at >= 0
}

// left returns when the first hold ends.
func (nr *naiveRW) left() int64 {
	if len(nr.has) == 0 {
		return 0
	}
	first := slices.MinFunc(nr.has, func(a, b rwHold) int { return cmp.Compare(a.until, b.until) })
	return max(first.until-nr.now, 0)
}

// handOff grants the lock by the phases: after a writer to all readers, else to the readers before the first
// writer, or to that writer if the lock is free then. It returns the grants to requester and
// notifies the others, of all grants but that to silent, whose session is a caller too.
func (nr *naiveRW) handOff(requester, silent string) string {
	var let []rwTicket
	caller := (silent + requester)[:min(22, len(silent+requester))]
	writer, waits := nr.writer(caller)
	nr.blocked = ""
	if len(nr.has) == 0 || nr.has[0].mode == reads {
		if waits {
			nr.blocked = nr.queue[writer].hold
		}
		for i, t := range nr.queue {
			if t.mode == reads && nr.serves(t.hold[:22], caller) && (nr.wrote || !waits || i < writer) {
				let = append(let, t)
			}
		}
		if len(nr.has) == 0 && len(let) == 0 && waits {
			let = append(let, nr.queue[writer])
			nr.blocked = ""
		}
	}
	published := make(map[string]string)
	for _, t := range let {
		session := t.hold[:22]
		nr.queue = slices.Delete(nr.queue, nr.queues(t.hold), nr.queues(t.hold)+1)
		nr.takes(t.hold, t.mode, max(nr.now+second, nr.sessions[session].until))
		if t.hold != silent {
			published[session] += attempt(t.hold) + digits(nr.floor) + nr.sessions[session].number
		}
	}
	for session, text := range published {
		if session != requester {
			nr.messages[session] = append(nr.messages[session], text)
		}
	}
	return published[requester]
}

// enter returns as the script does; one that comes to try has no number.
func (nr *naiveRW) enter(hold, mode, number string) []any {
	queues, full := number != "", nr.now+lease*1000
	taken := func() []any { return []any{int64(1), digits(nr.floor), digits(nr.now)} }
	if i := nr.holds(hold); i >= 0 {
		nr.has[i].until = max(nr.has[i].until, full)
		return taken()
	}
	if len(nr.queue) == 0 && mode == reads && len(nr.has) > 0 && nr.has[0].mode == reads {
		nr.takes(hold, mode, full) // beside readers whose holds may have ended: they exclude no reader
		return taken()
	}
	nr.bounds()
	nr.dropEnded()
	fits := len(nr.has) == 0 || mode == reads && nr.has[0].mode == reads
	if len(nr.queue) == 0 && fits {
		nr.takes(hold, mode, full)
		return taken()
	}
	if queues {
		if nr.queues(hold) < 0 {
			at := nr.now
			for _, t := range nr.queue {
				at = max(at, t.at+1)
			}
			nr.queue = append(nr.queue, rwTicket{hold, mode, at})
		}
		nr.countHeartbeat(hold[:22], number)
	}
	nr.handOff("", hold)
	if i := nr.holds(hold); i >= 0 {
		nr.has[i].until = max(nr.has[i].until, full)
		return []any{int64(1), digits(nr.floorOf(hold)), digits(nr.now)}
	}
	if !queues {
		_, waits := nr.writer(hold[:22])
		fits = len(nr.has) == 0 || mode == reads && nr.has[0].mode == reads
		if fits && !waits {
			nr.takes(hold, mode, full)
			return taken()
		}
	}
	return []any{int64(0), nr.left(), int64(0), digits(nr.now)}
}

// floorOf returns the token of a hold that was let in just now, of those that came in together.
func (nr *naiveRW) floorOf(hold string) int64 { return nr.floor - int64(len(nr.has)-1-nr.holds(hold)) }

// leaveShortly is leave of a hold that certainly has no ticket and has the lock alone, without the mark.
func (nr *naiveRW) leaveShortly() []any {
	if len(nr.has) > 1 {
		panic("others have the lock")
	}
	nr.has = nil
	return []any{int64(1), int64(0), "", int64(0)}
}

func (nr *naiveRW) leave(hold string) []any {
	what := int64(1)
	if i := nr.holds(hold); i >= 0 {
		nr.has = slices.Delete(nr.has, i, i+1)
	} else if i = nr.queues(hold); i >= 0 {
		what = 2
		nr.queue = slices.Delete(nr.queue, i, i+1)
	} else {
		return []any{int64(0), digits(nr.now)}
	}
	nr.dropEnded()
	return []any{what, digits(nr.now), nr.handOff(hold[:22], ""), int64(0)}
}

func (nr *naiveRW) poll(session, number string, holds []string) []any {
	nr.countHeartbeat(session, number)
	states, grants := "", ""
	for _, hold := range holds {
		if i := nr.holds(hold); i >= 0 {
			nr.has[i].until = max(nr.has[i].until, nr.now+life)
			states += "2"
			grants += attempt(hold) + digits(nr.floor) + number
		} else if nr.queues(hold) >= 0 {
			states += "1"
		} else {
			states += "0"
		}
	}
	nr.bounds()
	nr.dropEnded()
	grants += nr.handOff(session, "")
	return nr.withUnlisted([]any{int64(1), nr.left(), int64(0), grants, states, digits(nr.now)}, session, holds)
}

func (nr *naiveRW) downgrade(hold string) []any {
	i := nr.holds(hold)
	if i < 0 || nr.has[i].until <= nr.now {
		return []any{int64(0), digits(nr.now)}
	}
	grants := ""
	if nr.has[i].mode == writes {
		nr.has[i].mode, nr.wrote = reads, true
		grants = nr.handOff(hold[:22], "")
		nr.wrote = false
	}
	return []any{int64(1), digits(nr.now), grants, int64(0)}
}

func (nr *naiveRW) force(holds []string) int64 {
	before := len(nr.has)
	nr.has = slices.DeleteFunc(nr.has, func(h rwHold) bool { return slices.Contains(holds, h.hold) })
	taken := before - len(nr.has)
	if taken > 0 {
		nr.dropEnded()
		nr.handOff("", "")
	}
	return int64(taken)
}

func (nr *naiveRW) isOpen(hold string) bool {
	i := nr.holds(hold)
	waits := slices.ContainsFunc(nr.queue, func(t rwTicket) bool { return t.mode == writes && nr.isAlive(t.hold[:22]) })
	return i >= 0 && nr.has[i].until > nr.now && !waits
}

// renew returns 1 if the hold lives on; 0 ms end it.
func (nr *naiveRW) renew(hold string, ms int64) int64 {
	i := nr.holds(hold)
	switch {
	case i < 0 || nr.has[i].until <= nr.now:
		return 0
	case ms == 0:
		nr.has[i].until = nr.now
	default:
		nr.has[i].until = max(nr.has[i].until, nr.now+ms*1000)
	}
	return 1
}

// lose is what the key says.
func (nr *naiveRW) lose() { nr.has, nr.wrote, nr.floor = nil, false, 0 }

// rwGame is a game of a read-write lock.
type rwGame struct {
	*rwlock
	*game

	model naiveRW
}

func newRWGame(t *testing.T, seed uint64) player {
	t.Helper()
	g := &rwGame{rwlock: newRWLock(t)}
	g.memory = make(memory)
	g.game = newGame(g.queueFixture, &g.model.naive, seed, players[:3])
	return g
}

// any returns one of all holds, mostly a late one, and its mode: there are more readers than writers.
func (g *rwGame) any() (hold, mode string) {
	if n := len(g.made); n == 0 || g.IntN(3) == 0 {
		hold = players[g.IntN(len(players))] + fmt.Sprintf("%019d", n)
		g.made = append(g.made, hold)
	} else {
		hold = g.latest(10)[g.IntN(min(n, 10))]
	}
	if (hold[40]-'0')%3 == 0 {
		return hold, writes
	}
	return hold, reads
}

// holder returns one of those that have the lock, if there is one, or any hold.
func (g *rwGame) holder() string {
	if n := len(g.model.has); n > 0 && g.IntN(4) > 0 {
		return g.model.has[g.IntN(n)].hold
	}
	hold, _ := g.any()
	return hold
}

func (g *rwGame) step() (what string, got, want any) {
	hold, mode := g.any()
	switch g.IntN(19) {
	case 0, 1, 2, 3:
		got := g.joins(hold, mode)
		g.entered(hold, got)
		return "joins " + mode + hold, got, g.model.enter(hold, mode, heartbeatNumber(g.heartbeatCount))
	case 4:
		got := g.tries(hold, mode)
		g.entered(hold, got)
		return "tries " + mode + hold, got, g.model.enter(hold, mode, "")
	case 5, 6, 7:
		return g.leave(g.holder())
	case 17:
		return g.leave(hold)
	case 18:
		if g.IntN(8) == 0 {
			g.server.MustDo(g, "DEL", g.key)
			g.model.lose()
			return "loses the key", nil, nil
		}
	case 8, 9:
		listed := g.late(hold[:22])
		got = g.polls(hold[:22], listed...)
		return fmt.Sprint("polls ", hold[:1], listed), got, g.model.poll(hold[:22], heartbeatNumber(g.heartbeatCount), listed)
	case 10:
		hold = g.holder()
		return "downgrades " + hold, g.downgrades(hold), g.model.downgrade(hold)
	case 11:
		hold = g.holder()
		return "asks whether it may share with " + hold, g.isOpen(hold), g.model.isOpen(hold)
	case 12:
		taken := g.late("")
		return fmt.Sprint("forces ", taken), g.forces(taken...), g.model.force(taken)
	case 13:
		hold = g.holder()
		if g.IntN(2) == 0 && g.model.holds(hold) >= 0 {
			return "drops " + hold, g.drops(hold), g.model.renew(hold, 0)
		}
		ms := 1 + g.Int64N(10_000)
		return "renews " + hold, g.renews(hold, ms), g.model.renew(hold, ms)
	case 14:
		return g.beats(hold[:22]), nil, nil
	case 15:
		return g.listened(players[3]), nil, nil
	}
	return g.elapse(), nil, nil
}

// leave is a step: the leave of a hold, which may have the lock alone.
func (g *rwGame) leave(hold string) (what string, got, want any) {
	scores := g.scores(g.key)
	isAlone := g.model.holds(hold) >= 0 && (scores["phase"] == 1 || scores["phase"] == 3)
	if g.isCertain(hold) && scores["queue"] != 1 && isAlone {
		return "leaves shortly " + hold, g.leaves(hold), g.model.leaveShortly()
	}
	return "leaves " + hold, g.leaves(hold), g.model.leave(hold)
}

// compare holds the lock against the model. Tickets of those that lost their positions may be there still.
func (g *rwGame) compare() {
	g.Helper()
	real, want := g.inQueues(), []any{}
	g.model.queue = slices.DeleteFunc(g.model.queue, func(t rwTicket) bool {
		return g.model.isGone(t.hold[:22]) && !slices.Contains(real, any(t.hold))
	})
	for _, t := range g.model.queue {
		want = append(want, t.hold)
	}
	require.Equal(g, want, real)
	has := make(map[string]int64)
	for _, h := range g.model.has {
		has[h.hold] = h.until
	}
	require.Equal(g, has, g.until())
	require.Equal(g, g.model.floor, g.floor())
	if scores := g.scores(g.key); len(real) > 0 && len(scores) > 0 {
		require.Equal(g, int64(1), scores["queue"], "the mark stands while tickets do")
	}
	if len(has) > 0 {
		g.requireHave(g.model.has[0].mode, slices.Collect(maps.Keys(has))...)
	}
}

// P1, P3, order: whatever happens in whatever order, and whatever the clock does, the lock is what the
// naive one is.
func TestAReadWriteLockIsWhatANaiveOneIs(t *testing.T) {
	t.Parallel()
	plays(t, newRWGame)
}
