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

	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/test/kit"
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
	server := redistest.Start(t)
	kit.LoadScripts(t, server)
	for _, history := range play(t, server, 3, 5, 30, quick()) {
		check(t, history)
	}
}

// The checker finds what it is there for. It has to try every order there is to be sure, so the
// history is a short one.
func TestPlantedMistakesAreFound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	kit.LoadScripts(t, server)
	history := play(t, server, 1, 2, 25, quick())[0]
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(model(), history, checkLimit))
	twice, two := duplicated(history), overlapped(history)
	require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(model(), twice, checkLimit), "a token used twice was not found")
	require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(model(), two, checkLimit), "two holders were not found")
}

func TestSoakWhatClientsAreToldIsALock(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := kit.Soak(t)
	for i := 0; more(); i++ {
		t.Run(strconv.Itoa(i), func(t *testing.T) { // which closes its sessions
			server := redistest.Start(t)
			kinds := quick()
			if i%2 == 1 {
				kinds = redistest.Kinds()
			}
			for _, history := range play(t, server, 4, 5, 60, kinds) {
				check(t, history)
			}
		})
	}
}

// play lets clients use locks, so many to each, and answers the history of each lock. A client
// that dies has a successor.
func play(t *testing.T, server *redistest.Server, locks, clients, calls int, kinds []redistest.Kind) [][]porcupine.Operation {
	t.Helper()
	const lives = 5
	recorders, all := make([]*recorder, locks), make([]*client, locks*clients*lives)
	for i := range recorders {
		recorders[i] = &recorder{begun: time.Now()}
	}
	for i := range all {
		of := i / (clients * lives)
		all[i] = newClient(t, recorders[of], i+1, fmt.Sprint("history/", of), server, kinds)
	}
	kit.Together(t, locks*clients, func(i int) error {
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

func check(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	counts := make(map[kind]int)
	for _, o := range history {
		counts[o.Input.(op).kind]++
	}
	begun := time.Now()
	verdict := porcupine.CheckOperationsTimeout(model(), history, checkLimit)
	t.Logf("%d operations in %v: %d took, %d refused, %d gave, %d ended, %d ghosts",
		len(history), time.Since(begun).Round(time.Millisecond), counts[took], counts[refused], counts[gave], counts[ended], counts[mayTake])
	require.Equal(t, porcupine.Ok, verdict)
	require.Greater(t, counts[mayTake], len(history)/50, "too few faults: the history shows nothing")
	require.Greater(t, counts[took], len(history)/10)
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
