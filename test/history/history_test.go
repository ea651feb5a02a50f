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

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// quick are the faults that are noticed at once, so that a history has many of them.
func quick() []redistest.FaultKind {
	return []redistest.FaultKind{
		redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.CutAfterReply, redistest.DelayRequest, redistest.DelayReply,
	}
}

// silent is why these tests take real time.
const silent = "calls fail on wires that fail, and clients make their connections anew by timers of their own"

const (
	// checkLimit is how long the checker may take. It takes milliseconds, mostly.
	checkLimit = 5 * time.Minute
	// ghostLimit is how long it may try to explain ghosts as well, of which a busy machine makes many.
	ghostLimit = 3 * time.Second
)

// P1, P3: the results of clients on failing connections can be explained by one lock.
func TestHistoriesOfClientsAreThoseOfALock(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, silent)
	locktest.Each(t, func(t *testing.T, p locktest.Primitive) {
		g := newGame(t, p, quick())
		for _, history := range g.play(t, 3, 5, 8) {
			g.check(t, history)
		}
	})
}

// P1, P3: also in the layout of Redisson, where only the clock makes tokens.
func TestHistoriesOfClientsOfASharedLockAreThoseOfALock(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, silent)
	g := newGame(t, locktest.RedissonReentrant(), quick())
	for _, history := range g.play(t, 3, 5, 8) {
		g.check(t, history)
	}
}

// The checker finds a token that is used twice, and two holders.
func TestPlantedMistakesAreFound(t *testing.T) {
	t.Parallel()
	checks(t, model(), map[string]played{
		"Turns":        {porcupine.Ok, []porcupine.Operation{tookAt(0, 1, 10), gaveAt(2, 1, 10), tookAt(4, 2, 11), gaveAt(6, 2, 11)}},
		"Together":     {porcupine.Ok, []porcupine.Operation{tookAt(0, 1, 10), gaveAt(2, 1, 10), tookAt(2, 2, 11)}},
		"TokenTwice":   {porcupine.Illegal, []porcupine.Operation{tookAt(0, 1, 10), gaveAt(2, 1, 10), tookAt(4, 2, 10)}},
		"TokenFalls":   {porcupine.Illegal, []porcupine.Operation{tookAt(0, 1, 10), gaveAt(2, 1, 10), tookAt(4, 2, 9)}},
		"TwoHolders":   {porcupine.Illegal, []porcupine.Operation{tookAt(0, 1, 10), tookAt(2, 2, 11), gaveAt(4, 1, 10)}},
		"RefusedFree":  {porcupine.Illegal, []porcupine.Operation{tookAt(0, 1, 10), gaveAt(2, 1, 10), at(4, op{kind: refused, who: 2})}},
		"GhostHadIt":   {porcupine.Ok, []porcupine.Operation{at(0, op{kind: mayTake, who: -1}), at(2, op{kind: refused, who: 2}), at(4, op{kind: mayLeave, who: -1})}},
		"GhostHasLeft": {porcupine.Illegal, []porcupine.Operation{at(0, op{kind: mayTake, who: -1}), at(2, op{kind: mayLeave, who: -1}), at(4, op{kind: refused, who: 2})}},
	})
}

// played is a history, and what the checker is to say of it.
type played struct {
	want    porcupine.CheckResult
	history []porcupine.Operation
}

// at returns an operation that lasts from an instant to the next.
func at(from int64, o op) porcupine.Operation {
	return porcupine.Operation{ClientId: o.who, Input: o, Call: from, Return: from + 1}
}

func tookAt(from int64, who int, token uint64) porcupine.Operation {
	return at(from, op{took, who, token})
}

func gaveAt(from int64, who int, token uint64) porcupine.Operation {
	return at(from, op{gave, who, token})
}

// checks asks the checker about each history.
func checks(t *testing.T, m porcupine.Model, all map[string]played) {
	t.Helper()
	for name, c := range all {
		require.Equal(t, c.want, porcupine.CheckOperationsTimeout(m, c.history, checkLimit), name)
	}
}

func TestSoakHistoriesOfClientsAreThoseOfALock(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	for i := 0; more(); i++ {
		t.Run(strconv.Itoa(i), func(t *testing.T) { // which closes its sessions
			kinds, faults := append(locktest.Primitives(), locktest.RedissonReentrant()), quick()
			if i%2 == 1 {
				faults = redistest.FaultKinds()
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
	faults []redistest.FaultKind

	side  func(who int) locktest.Primitive                          // what a client uses
	model func() porcupine.Model                                    // what explains a history
	known func(history []porcupine.Operation) []porcupine.Operation // the part of the history that the model knows
}

func newGame(t *testing.T, kind locktest.Primitive, faults []redistest.FaultKind) *game {
	t.Helper()
	g := &game{
		server: redistest.Start(t), kind: kind, faults: faults,
		side:  func(int) locktest.Primitive { return kind },
		model: model,
		known: func(history []porcupine.Operation) []porcupine.Operation { return history },
	}
	redistest.LoadScripts(t, g.server)
	return g
}

// play lets clients use locks, so many to each, and returns the history of each lock. A client
// that dies has a successor.
func (g *game) play(t *testing.T, locks, clients, calls int) [][]porcupine.Operation {
	t.Helper()
	const lifetimes = 5
	recorders, all := make([]*recorder, locks), make([]*client, locks*clients*lifetimes)
	for i := range recorders {
		recorders[i] = newRecorder()
	}
	for i := range all {
		of := i / (clients * lifetimes)
		all[i] = g.newClient(t, recorders[of], i+1, fmt.Sprint("history/", of))
	}
	locktest.Together(t, locks*clients, func(i int) error {
		for life := range lifetimes {
			died, err := all[i*lifetimes+life].run(calls)
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

// plain returns the part of a history that the checker can always judge. Ghosts of a queue last for
// seconds, and may have the lock more than once. Dozens of them at a time have more orders than the checker
// can try. Ghosts only explain refusals, so they are left out, with the refusals that they may explain.
func plain(history []porcupine.Operation) []porcupine.Operation {
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
	judged, verdict := history, porcupine.Unknown
	if g.kind.Name == locktest.Reentrant().Name { // has no queue
		verdict = porcupine.CheckOperationsTimeout(g.model(), judged, ghostLimit)
	}
	if verdict == porcupine.Unknown {
		judged = g.known(plain(history))
		verdict = porcupine.CheckOperationsTimeout(g.model(), judged, checkLimit)
	}
	t.Logf("%d of %d operations in %v: %d took, %d refused, %d gave, %d ended, %d ghosts",
		len(judged), len(history), time.Since(begun).Round(time.Millisecond), counts[took], counts[refused], counts[gave], counts[ended], counts[mayTake])
	require.Equal(t, porcupine.Ok, verdict)
	require.GreaterOrEqual(t, counts[mayTake], enoughGhosts, "too few faults")
	require.GreaterOrEqual(t, counts[took], enoughTaken, "too few holders")
}
