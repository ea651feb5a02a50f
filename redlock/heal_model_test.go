// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The model of healing: servers that restart without data or with old data, and two sessions that vote for one lock, renew and heal, in
// every order. A request is executed when it likes, and its reply is quick or lost; a heal is executed at any time after its sending, also
// after more losses. Time passes in ticks. There is no bound on rounds, votes and time: a state that was visited is not visited again.
// What a session had is gone when its lease ends, which lets a rival do more. ForceUnlock is not in it.

const (
	modelServers  = 5 // at the most
	modelSessions = 2
)

// What a session does.
const (
	modelIdle = iota
	modelVotes
	modelHolds
)

// What a session knows of a server's epoch.
const (
	noReport       = iota
	reportedNow    // in this round
	reportedBefore // before this round was sent
)

// A heal that is on its way.
const (
	noHeal    = iota
	healYoung // within the quarantine, for one epoch
	healOld   // after the quarantine
)

// modelServer is one server, with what each session knows of it.
type modelServer struct {
	owner, left         int8 // the session that has the key, 0 for none, and the ticks until it ends
	young               int8 // what is left of the quarantine; -1: there is no epoch
	snapOwner, snapLeft int8 // what a file has of the key
	per                 [modelSessions]struct {
		yes    bool // it granted, or confirmed in this round
		gone   bool // it said in this round that the hold is gone
		report int8
		heal   int8
	}
}

// modelSession is one session.
type modelSession struct {
	phase, left, age int8 // left is the time until the deadline, age the time since the round or the vote was sent
	round, carried   bool
}

type modelState struct {
	servers  [modelServers]modelServer
	sessions [modelSessions]modelSession
	losses   int8
}

// model is one run: its bounds, and the rules, each of which can be dropped.
type model struct {
	servers    int
	life       [modelSessions]int8 // the leases
	quarantine int8
	losses     int8 // how many restarts lose data
	healers    int  // so many sessions heal
	young, old bool // they heal within the quarantine, and after it
	files      bool // a restart may have old data
	fast       bool // a server's clock may be a tick ahead
	allowance  int8 // what sessions take off their deadline for that

	anyEpoch    bool // the epoch is not compared
	sameRound   bool // a report of the same round suffices
	notCarried  bool // the round need not be carried
	noCondition bool // the server need not have reported
	breaks      bool // two sessions must come to hold the lock
}

func (s *modelState) pack(c *model) uint64 {
	var words [modelServers]uint64
	best := uint64(0)
	for swap := range 2 {
		a, b := 0, 1
		if swap == 1 {
			if c.life[0] != c.life[1] || c.healers == 1 {
				break
			}
			a, b = 1, 0
		}
		own := func(o int8) uint64 {
			if o != 0 && swap == 1 {
				return uint64(3 - o)
			}
			return uint64(o)
		}
		for i := range c.servers {
			v := &s.servers[i]
			w := own(v.owner)
			w = w<<3 | uint64(v.left)
			w = w<<3 | uint64(v.young+1)
			w = w<<2 | own(v.snapOwner)
			w = w<<3 | uint64(v.snapLeft)
			for _, p := range [2]int{a, b} {
				q := &v.per[p]
				w = w<<1 | b2u(q.yes)
				w = w<<1 | b2u(q.gone)
				w = w<<2 | uint64(q.report)
				w = w<<2 | uint64(q.heal)
			}
			words[i] = w
		}
		slices.Sort(words[:c.servers])
		h := uint64(1469598103934665603)
		mix := func(x uint64) { h ^= x; h *= 0x9E3779B97F4A7C15; h ^= h >> 29; h *= 0xBF58476D1CE4E5B9; h ^= h >> 32 }
		for i := range c.servers {
			mix(words[i])
		}
		w := uint64(s.losses)
		for _, p := range [2]int{a, b} {
			x := &s.sessions[p]
			w = w<<2 | uint64(x.phase)
			w = w<<3 | uint64(x.left)
			w = w<<3 | uint64(x.age)
			w = w<<1 | b2u(x.round)
			w = w<<1 | b2u(x.carried)
		}
		mix(w)
		if k := h; swap == 0 || k < best {
			best = k
		}
	}
	if best == 0 {
		best = 1
	}
	return best
}

func b2u(b bool) uint64 { //nolint:revive // a conversion
	if b {
		return 1
	}
	return 0
}

type set struct {
	slots []uint64
	n     int
}

func newSet(bits int) *set { return &set{slots: make([]uint64, 1<<bits)} }

func (t *set) add(k uint64) bool {
	mask := uint64(len(t.slots) - 1)
	for i := k & mask; ; i = (i + 1) & mask {
		switch t.slots[i] {
		case 0:
			t.slots[i] = k
			t.n++
			return true
		case k:
			return false
		}
	}
}

func (s *modelState) two() bool {
	return s.sessions[0].phase == modelHolds && s.sessions[1].phase == modelHolds
}

// end ends what client p does; its keys are released.
func (s *modelState) end(c *model, p int) {
	s.sessions[p] = modelSession{}
	for i := range c.servers {
		v := &s.servers[i]
		if v.owner == int8(p+1) {
			v.owner, v.left = 0, 0
		}
		if v.snapOwner == int8(p+1) {
			v.snapOwner, v.snapLeft = 0, 0
		}
		v.per[p].yes, v.per[p].gone, v.per[p].report, v.per[p].heal = false, false, 0, 0
	}
}

func (s *modelState) count(c *model, p int) (n int) {
	for i := range c.servers {
		if s.servers[i].per[p].yes {
			n++
		}
	}
	return n
}

// next calls visit for each state that follows.
func (s *modelState) next(c *model, visit func(t modelState)) {
	maj := c.servers/2 + 1
	// A tick.
	t := *s
	for i := range c.servers {
		v := &t.servers[i]
		if v.left > 0 {
			if v.left--; v.left == 0 {
				v.owner = 0
			}
		}
		if v.snapLeft > 0 {
			if v.snapLeft--; v.snapLeft == 0 {
				v.snapOwner = 0
			}
		}
		if v.young > 0 {
			v.young--
		}
	}
	for p := range t.sessions {
		x := &t.sessions[p]
		if x.phase == modelHolds {
			if x.left--; x.left == 0 {
				t.end(c, p)
				continue
			}
		}
		if (x.phase == modelVotes || x.round && !x.carried) && x.age < c.life[p] {
			x.age++
		}
		if x.phase == modelVotes && x.age >= c.life[p]-c.allowance {
			t.end(c, p)
		}
	}
	visit(t)
	for i := range c.servers {
		v := &s.servers[i]
		if s.losses < c.losses {
			t := *s
			t.losses++
			lose := func(t *modelState) {
				w := &t.servers[i]
				w.young = -1
				for p := range w.per {
					w.per[p].report = noReport
					if w.per[p].heal == healYoung && !c.anyEpoch && !c.noCondition {
						w.per[p].heal = noHeal
					}
				}
			}
			w := &t.servers[i]
			w.owner, w.left = 0, 0
			lose(&t)
			visit(t)
			if c.files && v.snapOwner != 0 {
				t := *s
				t.losses++
				w := &t.servers[i]
				w.owner, w.left = v.snapOwner, v.snapLeft
				lose(&t)
				visit(t)
			}
		}
		if c.files && s.losses < c.losses && v.owner != 0 && (v.snapOwner != v.owner || v.snapLeft != v.left) {
			t := *s
			t.servers[i].snapOwner, t.servers[i].snapLeft = v.owner, v.left
			visit(t)
		}
		if v.young == -1 {
			t := *s
			t.servers[i].young = c.quarantine
			visit(t)
		}
		if c.fast && v.left == 1 {
			t := *s
			w := &t.servers[i]
			w.owner, w.left = 0, 0
			if w.snapLeft == 1 { // by the same clock
				w.snapOwner, w.snapLeft = 0, 0
			}
			visit(t)
		}
		if c.fast && v.young == 1 {
			t := *s
			w := &t.servers[i]
			w.young = 0
			if w.left == 1 {
				w.owner, w.left = 0, 0
			}
			if w.snapLeft == 1 {
				w.snapOwner, w.snapLeft = 0, 0
			}
			visit(t)
		}
	}
	for p := range s.sessions {
		x := &s.sessions[p]
		me := int8(p + 1)
		switch x.phase {
		case modelIdle:
			t := *s
			t.sessions[p].phase = modelVotes
			visit(t)
		case modelVotes:
			for i := range c.servers {
				v := &s.servers[i]
				if v.per[p].yes || v.owner != 0 && v.owner != me || v.owner == 0 && v.young != 0 {
					continue
				}
				t := *s
				w := &t.servers[i]
				if w.owner == 0 {
					w.owner, w.left = me, c.life[p]
				}
				w.per[p].yes = true
				if t.count(c, p) >= maj {
					y := &t.sessions[p]
					y.phase, y.left, y.age = modelHolds, c.life[p]-c.allowance-x.age, 0
					for j := range c.servers {
						t.servers[j].per[p].yes = false
					}
				}
				visit(t)
			}
			t := *s
			t.end(c, p)
			visit(t)
		case modelHolds:
			t := *s
			t.end(c, p)
			visit(t)
			t = *s
			t.sessions[p].round, t.sessions[p].carried, t.sessions[p].age = true, false, 0
			for i := range c.servers {
				q := &t.servers[i].per[p]
				q.yes, q.gone = false, false
				if q.report == reportedNow {
					q.report = reportedBefore
				}
			}
			visit(t)
			if x.round {
				for i := range c.servers {
					v := &s.servers[i]
					q := &v.per[p]
					if !q.yes && v.owner == me {
						t := *s
						w := &t.servers[i]
						w.left = max(w.left, c.life[p])
						w.per[p].yes, w.per[p].gone, w.per[p].report = true, false, noReport
						if y := &t.sessions[p]; !y.carried && t.count(c, p) >= maj {
							y.carried = true
							y.left = max(y.left, c.life[p]-c.allowance-y.age)
							y.age = 0
						}
						visit(t)
					}
					if !q.yes && !q.gone && v.owner != me {
						t := *s
						t.servers[i].per[p].gone = true
						visit(t)
					}
					if p >= c.healers || !q.gone {
						continue
					}
					if c.young && q.report != reportedNow && v.young != 0 && v.owner != me {
						t := *s
						w := &t.servers[i]
						if w.young == -1 {
							w.young = c.quarantine
						}
						if w.per[p].report == noReport {
							w.per[p].report = reportedNow
							visit(t)
						}
					}
					if q.heal == noHeal && (x.carried || c.notCarried) {
						if c.young && (q.report == reportedBefore || q.report == reportedNow && c.sameRound || c.noCondition) {
							t := *s
							t.servers[i].per[p].heal = healYoung
							visit(t)
						}
						if c.old {
							t := *s
							t.servers[i].per[p].heal = healOld
							visit(t)
						}
					}
				}
			}
			for i := range c.servers {
				v := &s.servers[i]
				h := v.per[p].heal
				if h == noHeal {
					continue
				}
				t := *s
				w := &t.servers[i]
				w.per[p].heal = noHeal
				if v.owner == 0 && (h == healYoung || v.young == 0) {
					w.owner, w.left = me, c.life[p]
					visit(t)
				} else {
					visit(t)
				}
			}
		}
	}
}

func (c *model) start() modelState {
	var s modelState
	for i := range c.servers {
		s.servers[i].owner, s.servers[i].left = 1, c.life[0]
	}
	s.sessions[0] = modelSession{phase: modelHolds, left: c.life[0] - c.allowance}
	return s
}

// search visits all states, and reports whether two sessions came to hold the lock. It fails the test if there are more than the table has
// room for.
func (c *model) search(tb testing.TB, bits int) (states int, broken bool) {
	tb.Helper()
	seen := newSet(bits)
	begin := c.start()
	seen.add(begin.pack(c))
	for frontier := []modelState{begin}; len(frontier) > 0; {
		var following []modelState
		for n := range frontier {
			frontier[n].next(c, func(t modelState) {
				if broken || !seen.add(t.pack(c)) {
					return
				}
				broken = t.two()
				following = append(following, t)
			})
			if broken {
				return seen.n, true
			}
			require.Less(tb, seen.n, len(seen.slots)*9/10, "there are more states")
		}
		frontier = following
	}
	return seen.n, false
}

// Two sessions never hold the lock at once by the rules of docs/decisions/0060-a-quorum-heals.md, and do if one of them is dropped.
func TestHealsModel(t *testing.T) {
	t.Parallel()
	two, three := [modelSessions]int8{2, 2}, [modelSessions]int8{3, 3}
	for name, c := range map[string]struct {
		model

		slow bool
	}{
		"AtOnce":      {model: model{servers: 3, life: two, quarantine: 2, losses: 3, healers: 1, young: true, noCondition: true, breaks: true}},
		"AnyEpoch":    {model: model{servers: 3, life: two, quarantine: 2, losses: 4, healers: 1, young: true, anyEpoch: true, breaks: true}},
		"SameRound":   {model: model{servers: 3, life: two, quarantine: 2, losses: 4, healers: 1, young: true, sameRound: true, breaks: true}},
		"NotCarried":  {model: model{servers: 3, life: two, quarantine: 2, losses: 4, healers: 1, young: true, notCarried: true, breaks: true}},
		"LongerRival": {model: model{servers: 3, life: [2]int8{2, 3}, quarantine: 3, losses: 4, healers: 1, young: true, breaks: true}},
		"NoAllowance": {model: model{servers: 3, life: three, quarantine: 3, losses: 3, healers: 2, young: true, fast: true, breaks: true}},
		"Both":        {model: model{servers: 3, life: two, quarantine: 2, losses: 2, healers: 2, young: true, old: true}},
		"Drift":       {model: model{servers: 3, life: three, quarantine: 3, losses: 2, healers: 2, young: true, fast: true, allowance: 1}},
		"OldData":     {model: model{servers: 3, life: two, quarantine: 2, losses: 2, healers: 2, young: true, files: true}},
		"FiveServers": {model: model{servers: 5, life: two, quarantine: 2, losses: 1, healers: 2, young: true, old: true}},
		"SixLosses":   {slow: true, model: model{servers: 3, life: two, quarantine: 2, losses: 6, healers: 2, young: true, old: true}},
		"Five":        {slow: true, model: model{servers: 5, life: two, quarantine: 2, losses: 3, healers: 2, young: true}},
		"FiveAny":     {slow: true, model: model{servers: 5, life: two, quarantine: 2, losses: 5, healers: 1, young: true, anyEpoch: true, breaks: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bits := 21
			if c.slow {
				redistest.Slow(t, "it has millions of states")
				bits = 23
			}
			states, broken := c.search(t, bits)
			require.Equal(t, c.breaks, broken)
			t.Logf("%d states", states)
		})
	}
}
