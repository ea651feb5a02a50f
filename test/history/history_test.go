// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
)

// quick are the faults that are noticed at once, so that a history has many of them.
func quick() []redistest.Kind {
	return []redistest.Kind{
		redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.CutAfterReply, redistest.DelayRequest, redistest.DelayReply,
	}
}

// checkLimit is how long the checker may take. It takes milliseconds, mostly.
const checkLimit = 5 * time.Minute

// P1, P3: what clients are told on wires that fail can be explained by one lock.
func TestWhatClientsAreToldIsALock(t *testing.T) {
	t.Parallel()
	locktest.Each(t, func(t *testing.T, p locktest.Primitive) {
		g := newGame(t, p, quick())
		for _, history := range g.play(t, 3, 5, 20) {
			g.check(t, history)
		}
	})
}

// P1, P3: also in the layout of Redisson, where tokens have the clock alone.
func TestWhatClientsOfASharedLockAreToldIsALock(t *testing.T) {
	t.Parallel()
	g := newGame(t, locktest.Shared(), quick())
	for _, history := range g.play(t, 3, 5, 20) {
		g.check(t, history)
	}
}

// The checker finds what it is there for. It has to try every order there is to be sure, so the
// history is a short one.
func TestPlantedMistakesAreFound(t *testing.T) {
	t.Parallel()
	history := newGame(t, locktest.Reentrant(), quick()).play(t, 1, 2, 25)[0]
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(model(), history, checkLimit))
	twice, two := duplicated(history), overlapped(history)
	require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(model(), twice, checkLimit), "a token used twice was not found")
	require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(model(), two, checkLimit), "two holders were not found")
}

func TestSoakWhatClientsAreToldIsALock(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	for i := 0; more(); i++ {
		t.Run(strconv.Itoa(i), func(t *testing.T) { // which closes its sessions
			kinds, faults := append(locktest.Primitives(), locktest.Shared()), quick()
			if i%2 == 1 {
				faults = redistest.Kinds()
			}
			g := newGame(t, kinds[i/2%len(kinds)], faults)
			for _, history := range g.play(t, 4, 5, 60) {
				g.check(t, history)
			}
		})
	}
}

// game is a server, a kind of lock, and what befalls its clients.
type game struct {
	server *redistest.Server
	kind   locktest.Primitive
	faults []redistest.Kind

	side  func(who int) locktest.Primitive                          // what a client uses
	model func() porcupine.Model                                    // what explains a history
	known func(history []porcupine.Operation) []porcupine.Operation // what of it the model knows
}

func newGame(t *testing.T, kind locktest.Primitive, faults []redistest.Kind) *game {
	t.Helper()
	g := &game{
		server: redistest.Start(t), kind: kind, faults: faults,
		side:  func(int) locktest.Primitive { return kind },
		model: model,
		known: func(history []porcupine.Operation) []porcupine.Operation { return history },
	}
	wiretest.LoadScripts(t, g.server)
	return g
}

// play lets clients use locks, so many to each, and answers the history of each lock. A client
// that dies has a successor.
func (g *game) play(t *testing.T, locks, clients, calls int) [][]porcupine.Operation {
	t.Helper()
	const lives = 5
	recorders, all := make([]*recorder, locks), make([]*client, locks*clients*lives)
	for i := range recorders {
		recorders[i] = newRecorder()
	}
	for i := range all {
		of := i / (clients * lives)
		all[i] = g.newClient(t, recorders[of], i+1, fmt.Sprint("history/", of))
	}
	locktest.Together(t, locks*clients, func(i int) error {
		for life := range lives {
			died, err := all[i*lives+life].run(calls)
			if !died || err != nil {
				return err
			}
		}
		return nil
	})
	histories := make([][]porcupine.Operation, locks)
	for i, r := range recorders {
		histories[i] = r.mu.history
	}
	return histories
}

// judged answers what of a history the checker is asked. Ghosts of a line last for seconds, and may have the
// lock more than once: dozens of them at a time, which nobody can try in every order. They do no more than to
// explain refusals, so they and the refusals that they may explain are left out.
func (g *game) judged(history []porcupine.Operation) []porcupine.Operation {
	if g.kind.Name == locktest.Reentrant().Name {
		return history
	}
	isGhost := func(o porcupine.Operation) bool { return o.Input.(op).who < 0 }
	return slices.DeleteFunc(slices.Clone(history), func(o porcupine.Operation) bool {
		return isGhost(o) || o.Input.(op).kind == refused && slices.ContainsFunc(history, func(ghost porcupine.Operation) bool {
			return isGhost(ghost) && ghost.Call <= o.Return && o.Call <= ghost.Return
		})
	})
}

func (g *game) check(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	counts := make(map[kind]int)
	for _, o := range history {
		counts[o.Input.(op).kind]++
	}
	begun := time.Now()
	judged := g.known(g.judged(history))
	verdict := porcupine.CheckOperationsTimeout(g.model(), judged, checkLimit)
	t.Logf("%d of %d operations in %v: %d took, %d refused, %d gave, %d ended, %d ghosts",
		len(judged), len(history), time.Since(begun).Round(time.Millisecond), counts[took], counts[refused], counts[gave], counts[ended], counts[mayTake])
	require.Equal(t, porcupine.Ok, verdict)
	require.GreaterOrEqual(t, counts[mayTake], enoughGhosts, "too few faults")
	require.GreaterOrEqual(t, counts[took], enoughTaken, "too few holders")
}

// duplicated answers the history with the token of one holder given to the next as well, or nil
// where there are no two.
func duplicated(history []porcupine.Operation) []porcupine.Operation {
	broken := slices.Clone(history)
	var last uint64
	n := 0
	for i, o := range broken {
		switch in := o.Input.(op); {
		case in.kind != took:
		case n == 3:
			broken[i].Input = op{took, in.who, last}
			return broken
		default:
			last = in.token
			n++
		}
	}
	return nil
}

// overlapped answers the history with one release later than the acquire after it, or nil where
// there is none.
func overlapped(history []porcupine.Operation) []porcupine.Operation {
	broken := slices.Clone(history)
	slices.SortFunc(broken, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
	for i, o := range broken {
		in := o.Input.(op)
		if in.kind != gave {
			continue
		}
		for _, next := range broken[i+1:] {
			if after := next.Input.(op); after.kind == took && after.who != in.who && next.Call > o.Return {
				broken[i].Call, broken[i].Return = next.Return+1, next.Return+2
				return broken
			}
		}
	}
	return nil
}
