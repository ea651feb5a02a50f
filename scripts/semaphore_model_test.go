// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// naivePermits is a semaphore as one would write it who need not care what it costs.
type naivePermits struct {
	naive

	stamp    int64 // the floor
	called   int   // the capacity that callers pass
	capacity int   // 0 if the key does not say
	holds    []permitHold
	granted  int64 // the stamp of the last hold that was granted from the queue
}

type permitHold struct {
	request string
	until   int64
}

func weightOf(request string) int {
	n, err := strconv.Atoi(request[41:51])
	if err != nil {
		panic(err) // a test's own mistake
	}
	return n
}

func (np *naivePermits) find(request string) *permitHold {
	for i := range np.holds {
		if np.holds[i].request == request {
			return &np.holds[i]
		}
	}
	return nil
}

func (np *naivePermits) remove(request string) {
	np.holds = slices.DeleteFunc(np.holds, func(h permitHold) bool { return h.request == request })
}

func (np *naivePermits) used() (sum int) {
	for _, h := range np.holds {
		sum += weightOf(h.request)
	}
	return sum
}

func (np *naivePermits) removeEnded() {
	np.holds = slices.DeleteFunc(np.holds, func(h permitHold) bool { return h.until <= np.now })
}

// bounds ends holds that would last longer than any was given: the clock was set back.
func (np *naivePermits) bounds() {
	for i := range np.holds {
		np.holds[i].until = min(np.holds[i].until, np.now+longestLife)
	}
}

func (np *naivePermits) left() int64 {
	var first int64
	for _, h := range np.holds {
		if first == 0 || h.until < first {
			first = h.until
		}
	}
	return max(first-np.now, 0)
}

// gives writes a hold down with the next token.
func (np *naivePermits) gives(request string, until int64) {
	np.stamp = max(np.now, np.stamp+1)
	if h := np.find(request); h != nil {
		h.until = max(h.until, until)
		return
	}
	np.holds = append(np.holds, permitHold{request, until})
}

// reserves writes a hold down with a stamp that stands for a block of tokens: the shorter, the further it runs ahead.
func (np *naivePermits) reserves(request string, until int64) {
	first := max(np.now, np.stamp+1)
	size := int64(1)
	for _, args := range []struct{ ahead, size int64 }{{80_000, 16}, {60_000, 64}, {40_000, 256}, {20_000, longestBlock}} {
		if first-np.now < args.ahead {
			size = args.size
		}
	}
	begins := first
	for permitBlock(begins) != size {
		begins++
	}
	last := begins + size - 1
	np.gives(request, until)
	np.granted, np.stamp = begins, last
}

// longestBlock is the largest number of tokens that one stamp of permits stands for.
const longestBlock = 1024

// permitBlock returns how many it stands for.
func permitBlock(stamp int64) int64 {
	length := int64(longestBlock)
	for stamp%length != 0 {
		length /= 4
	}
	return length
}

// handOff grants to all tickets at the head of the queue that are served and fit. It returns the grants to requester, and the
// stamp of the caller's own. One session sends both.
func (np *naivePermits) handOff(caller, requester string) (publishedTo string, callers int64) {
	var stay []ticket
	sender := (caller + requester)[:min(22, len(caller+requester))]
	np.blocked = ""
	for _, t := range np.tickets {
		session := t.hold[:22]
		switch {
		case np.blocked != "" || np.used() >= np.capacity || !np.serves(session, sender):
			stay = append(stay, t)
		case weightOf(t.hold) > np.capacity:
		case np.used()+weightOf(t.hold) > np.capacity:
			np.blocked = t.hold
			stay = append(stay, t)
		default:
			np.reserves(t.hold, max(np.now+second, np.sessions[session].until))
			switch {
			case t.hold == caller:
				callers = np.granted
			case session == requester:
				publishedTo += t.hold[22:41] + digits(np.granted) + np.sessions[session].number
			}
		}
	}
	np.tickets = stay
	return publishedTo, callers
}

func (np *naivePermits) enter(request, number string) []any {
	full := np.now + lease*1000
	if np.capacity == 0 && len(np.holds) > 0 {
		panic("holds without a capacity")
	}
	if np.find(request) != nil {
		np.gives(request, full)
		return []any{int64(1), digits(np.stamp), digits(np.now)}
	}
	capacity := np.capacity
	if capacity == 0 {
		capacity = np.called
	}
	if weightOf(request) > capacity {
		return []any{int64(-4), int64(capacity)}
	}
	np.capacity = capacity
	takes := len(np.tickets) == 0 && np.used()+weightOf(request) <= np.capacity
	if !takes {
		np.bounds()
		np.removeEnded()
		if number != "" {
			if !slices.ContainsFunc(np.tickets, func(t ticket) bool { return t.hold == request }) {
				at := np.now
				if n := len(np.tickets); n > 0 {
					at = max(at, np.tickets[n-1].at+1)
				}
				np.tickets = append(np.tickets, ticket{request, at})
			}
			np.countHeartbeat(request[:22], number)
		}
		_, stamp := np.handOff(request, "")
		if h := np.find(request); h != nil {
			h.until = max(h.until, full)
			return []any{int64(1), digits(stamp), digits(np.now)}
		}
		takes = number == "" && np.used()+weightOf(request) <= np.capacity &&
			!slices.ContainsFunc(np.tickets, func(t ticket) bool { return np.serves(t.hold[:22], request[:22]) })
	}
	if takes {
		np.gives(request, full)
		return []any{int64(1), digits(np.stamp), digits(np.now)}
	}
	return []any{int64(0), np.left(), int64(0), digits(np.now)}
}

// leaveShortly is leave of a hold that certainly has no ticket, without the mark: nothing else is taken out.
func (np *naivePermits) leaveShortly(request string) []any {
	np.remove(request)
	return []any{int64(1), int64(0), "", int64(0)}
}

func (np *naivePermits) leave(request string) []any {
	code := int64(2)
	if np.find(request) != nil {
		np.remove(request)
		code = 1
	} else if i := slices.IndexFunc(np.tickets, func(t ticket) bool { return t.hold == request }); i >= 0 {
		np.tickets = slices.Delete(np.tickets, i, i+1)
	} else {
		return []any{int64(0), digits(np.now)}
	}
	if np.capacity == 0 {
		return []any{code, digits(np.now), "", int64(0)} // the key is lost
	}
	return np.handsOn(code, request)
}

// lose is what the key says.
func (np *naivePermits) lose() { np.holds, np.capacity, np.stamp = nil, 0, 0 }

func (np *naivePermits) handsOn(code int64, request string) []any {
	np.removeEnded()
	published, _ := np.handOff("", request[:22])
	return []any{code, digits(np.now), published, int64(0)}
}

// yield releases a hold if the queue has tickets other than alike.
func (np *naivePermits) yield(request string, alike []string) []any {
	if np.find(request) == nil {
		return []any{int64(0), digits(np.now)}
	}
	others := slices.ContainsFunc(np.tickets, func(t ticket) bool { return !slices.Contains(alike, t.hold) })
	if !others && np.used() <= np.capacity {
		np.reserves(request, np.now+lease*1000)
		return []any{int64(1), digits(np.now), digits(np.granted)}
	}
	np.remove(request)
	return np.handsOn(4, request)
}

func (np *naivePermits) poll(session, number string, requests []string) []any {
	np.countHeartbeat(session, number)
	states, publishedTo := "", ""
	for _, request := range requests {
		switch {
		case np.find(request) != nil:
			np.reserves(request, np.now+life)
			publishedTo += request[22:41] + digits(np.granted) + number
			states += "2"
		case slices.ContainsFunc(np.tickets, func(t ticket) bool { return t.hold == request }):
			if weightOf(request) <= np.capacity {
				states += "1"
				break
			}
			np.tickets = slices.DeleteFunc(np.tickets, func(t ticket) bool { return t.hold == request })
			states += "0"
		default:
			states += "0"
		}
	}
	np.bounds()
	np.removeEnded()
	handed, _ := np.handOff("", session)
	return np.withUnlisted([]any{int64(1), np.left(), int64(0), publishedTo + handed, states, digits(np.now)}, session, requests)
}

func (np *naivePermits) resize(n int) []any {
	np.capacity = n
	if np.stamp == 0 {
		np.stamp = np.now
	}
	np.removeEnded()
	np.handOff("", "")
	return []any{int64(1), digits(np.now), int64(0)}
}

func (np *naivePermits) split(kept, request string) []any {
	full := np.now + lease*1000
	if np.find(kept) != nil {
		np.gives(kept, full)
		return []any{int64(1), digits(np.now), "", int64(0), digits(np.stamp)}
	}
	old := np.find(request)
	if old == nil {
		return []any{int64(0), digits(np.now)}
	}
	until := max(old.until, full)
	np.remove(request)
	np.gives(kept, until)
	stamp := np.stamp
	np.removeEnded()
	handed, _ := np.handOff("", request[:22])
	return []any{int64(1), digits(np.now), handed, int64(0), digits(stamp)}
}

func (np *naivePermits) renew(request string, ttl int64) int64 {
	h := np.find(request)
	if h == nil || h.until <= np.now {
		return 0
	}
	if ttl > 0 {
		h.until = max(h.until, np.now+ttl)
	}
	return 1
}

func (np *naivePermits) drop(request string) int64 {
	h := np.find(request)
	if h == nil || h.until <= np.now {
		return 0
	}
	h.until = np.now
	return 1
}

func (np *naivePermits) available() []any {
	capacity, out := np.capacity, 0
	if capacity == 0 {
		capacity = -1
	}
	for _, h := range np.holds {
		if h.until > np.now {
			out += weightOf(h.request)
		}
	}
	return []any{int64(1), int64(capacity), int64(out)}
}

// permitGame is a game of a semaphore.
type permitGame struct {
	*permits
	*game

	model          naivePermits
	heldBefore     int // the permits that were held before the last step
	capacityBefore int // the capacity that there was then
}

func newPermitGame(t *testing.T, seed uint64) player {
	t.Helper()
	const capacity = 4
	g := &permitGame{permits: newPermits(t, capacity)}
	g.memory, g.model.called = make(memory), capacity
	g.game = newGame(g.queueFixture, &g.model.naive, seed, nil)
	return g
}

// anyRequest returns one of all requests, mostly a late one.
func (g *permitGame) anyRequest() string {
	n := len(g.made)
	if n == 0 || g.IntN(4) == 0 {
		g.made = append(g.made, permitRequest(nth(string(rune('a'+g.IntN(4))), n), 1+g.IntN(5)))
		return g.made[n]
	}
	return g.latest(8)[g.IntN(min(n, 8))]
}

func (g *permitGame) step() (what string, got, want any) {
	g.heldBefore, g.capacityBefore = g.model.used(), g.model.capacity
	w := g.anyRequest()
	switch g.IntN(19) {
	case 0, 1, 2:
		got := g.joins(w)
		g.entered(w, got)
		return "joins " + w, got, g.model.enter(w, heartbeatNumber(g.heartbeatCount))
	case 3:
		got := g.tries(w)
		g.entered(w, got)
		return "tries " + w, got, g.model.enter(w, "")
	case 4, 5:
		if g.isCertain(w) && g.score("queue") != 1 && g.model.find(w) != nil {
			return "leaves shortly " + w, g.leaves(w), g.model.leaveShortly(w)
		}
		return "leaves " + w, g.leaves(w), g.model.leave(w)
	case 18:
		if g.IntN(8) == 0 {
			g.server.MustDo(g, "DEL", g.key)
			g.model.lose()
			return "loses the key", nil, nil
		}
	case 6, 7:
		if g.model.capacity == 0 {
			break // the key is lost: its own test
		}
		listed := g.late(w[:22])
		got = g.polls(w[:22], listed...)
		return fmt.Sprint("polls ", listed), got, g.model.poll(w[:22], heartbeatNumber(g.heartbeatCount), listed)
	case 8:
		return g.beats(w[:22]), nil, nil
	case 9, 10:
		ttl := g.Int64N(10)
		return "renews " + w, g.renews(w, time.Duration(ttl)*time.Second), g.model.renew(w, ttl*second)
	case 11:
		return "drops " + w, g.drops(w), g.model.drop(w)
	case 12:
		n := 1 + g.IntN(6)
		return fmt.Sprint("resizes to ", n), g.resizes(n), g.model.resize(n)
	case 13:
		if weight := weightOf(w); weight > 1 {
			kept := permitRequest(nth(w[:1], len(g.made)), 1+g.IntN(weight-1))
			g.made = append(g.made, kept)
			return fmt.Sprint("splits ", kept, w), g.splits(kept, w), g.model.split(kept, w)
		}
	case 14, 15:
		var alike []string
		for _, other := range g.latest(8) {
			if other[:22] == w[:22] && other[41:] == w[41:] && g.IntN(8) > 0 {
				alike = append(alike, other)
			}
		}
		return fmt.Sprint("yields ", w, alike), g.yields(w, alike...), g.model.yield(w, alike)
	case 16:
		return g.listened(w[:22]), nil, nil
	}
	return g.elapse(), g.available(), g.model.available()
}

// compare holds the semaphore against the model. Tickets of those that lost their positions may be there still.
func (g *permitGame) compare() {
	g.Helper()
	queue := g.inQueue()
	g.model.tickets = slices.DeleteFunc(g.model.tickets, func(t ticket) bool {
		return g.model.isGone(t.hold[:22]) && !slices.Contains(queue, any(t.hold))
	})
	want := []any{}
	for _, t := range g.model.tickets {
		want = append(want, t.hold)
	}
	require.Equal(g, want, queue)
	slices.SortFunc(g.model.holds, func(a, b permitHold) int {
		return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.request, b.request))
	})
	out := []any{}
	for _, h := range g.model.holds {
		out = append(out, holdFor(h.request), fmt.Sprint(h.until))
	}
	require.Equal(g, out, g.out())
	if len(queue) > 0 && g.score("sb1s") != -1 {
		require.Equal(g, int64(1), g.score("queue"), "the mark stands while tickets do")
	}
	if g.model.capacity > 0 {
		require.Equal(g, int64(g.model.used()), g.score("used"), "the sum is kept beside the holds")
		require.Equal(g, int64(g.model.capacity), g.score("capacity"))
		require.Equal(g, -g.model.stamp, g.score("sb1s"), "the floor")
	}
	if used := g.model.used(); used > g.heldBefore && g.capacityBefore == g.model.capacity {
		require.LessOrEqual(g, used, g.capacityBefore, "more were granted than there are")
	}
}

// P1, P3, order: whatever happens in whatever order, and whatever the clock does, the semaphore is what the naive one
// is: it grants in order, and its sum is that of its holds.
func TestASemaphoreIsWhatANaiveOneIs(t *testing.T) {
	t.Parallel()
	plays(t, newPermitGame)
}
