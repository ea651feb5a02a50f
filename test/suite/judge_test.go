// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// taken is what is taken of a name, as the judge of a crowd knows it.
type taken struct {
	holds    [16]taker // sorted, the free ones first
	greatest [2]uint64 // the greatest token of this side, and of its rivals
}

// taker is a user that has a hold.
type taker struct {
	who   int // counted from 1; 0 is none
	rival bool
	token uint64
}

// side returns the place of a side in greatest.
func side(rival bool) int { //nolint:revive // which of two
	if rival {
		return 1
	}
	return 0
}

// after returns what is taken after an action; false if it cannot have happened.
func (t taken) after(k Kind, a action) (taken, bool) {
	takes := [2]int{k.takes(), k.rival().takes()}
	capacity := max(k.Of, 1)
	me := taker{a.who + 1, a.rival, a.token}
	at := slices.Index(t.holds[:], me)
	mine := takes[side(a.rival)]
	switch a.verb {
	case took:
		sum := mine
		for _, h := range t.holds {
			if h.who != 0 {
				sum += takes[side(h.rival)]
			}
		}
		for other, greatest := range t.greatest {
			excludes := takes[other]+mine > capacity
			if excludes && !k.NoTokens && a.token <= greatest {
				return t, false
			}
		}
		t.greatest[side(a.rival)] = max(t.greatest[side(a.rival)], a.token)
		free := slices.Index(t.holds[:], taker{})
		if sum > capacity || free < 0 {
			return t, false
		}
		t.holds[free] = me
	case gave:
		if at < 0 {
			return t, false
		}
		t.holds[at] = taker{}
	case lost, had:
		if at >= 0 {
			t.holds[at] = taker{}
		}
	}
	slices.SortFunc(t.holds[:], func(a, b taker) int { return a.who - b.who })
	return t, true
}

// judgeOf returns what knows whether a history is one of a lock of this kind.
func judgeOf(k Kind) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return taken{} },
		Step: func(state, input, _ any) (bool, any) {
			after, may := state.(taken).after(k, input.(action))
			return may, after
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
	}
}

// judge returns the verdict on a history.
func judge(k Kind, history []action) porcupine.CheckResult {
	var all []porcupine.Operation
	for _, a := range history {
		all = append(all, porcupine.Operation{ClientId: a.who, Input: a, Call: a.from, Return: a.to})
	}
	return porcupine.CheckOperationsTimeout(judgeOf(k), all, 5*time.Minute)
}

// The judge finds two holders, a side beside the other one, a token that does not rise, and a release of what was not held.
func TestTheJudgeFindsPlantedMistakes(t *testing.T) {
	t.Parallel()
	at := func(from int64, verb verb, who int, token uint64) action {
		return action{verb: verb, who: who, token: token, from: from, to: from + 1}
	}
	rival := func(a action) action {
		a.rival = true
		return a
	}
	lock, readers := Kind{Name: "lock"}, Kind{Name: "readers", Takes: 1, RivalTakes: many, Of: many, Rival: newPair}
	for name, c := range map[string]struct {
		kind    Kind
		want    porcupine.CheckResult
		history []action
	}{
		"turns":                   {lock, porcupine.Ok, []action{at(0, took, 1, 10), at(2, gave, 1, 10), at(4, took, 2, 11), at(6, gave, 2, 11)}},
		"a release meets a grant": {lock, porcupine.Ok, []action{at(0, took, 1, 10), at(2, gave, 1, 10), at(2, took, 2, 11)}},
		"a loss meets a grant":    {lock, porcupine.Ok, []action{at(0, took, 1, 10), {lost, 1, false, 10, 2, 9}, at(4, took, 2, 11)}},
		"a token twice":           {lock, porcupine.Illegal, []action{at(0, took, 1, 10), at(2, gave, 1, 10), at(4, took, 2, 10)}},
		"a token falls":           {lock, porcupine.Illegal, []action{at(0, took, 1, 10), at(2, gave, 1, 10), at(4, took, 2, 9)}},
		"two holders":             {lock, porcupine.Illegal, []action{at(0, took, 1, 10), at(2, took, 2, 11), at(4, gave, 1, 10)}},
		"a holder that is lost later": {
			lock, porcupine.Illegal, []action{at(0, took, 1, 10), at(2, took, 2, 11), {lost, 1, false, 10, 4, 9}},
		},
		"a release twice": {lock, porcupine.Illegal, []action{at(0, took, 1, 10), at(2, gave, 1, 10), at(4, gave, 1, 10)}},
		"readers together": {
			readers, porcupine.Ok,
			[]action{at(0, took, 1, 10), at(2, took, 3, 9), at(4, gave, 1, 10), at(6, gave, 3, 9), rival(at(8, took, 2, 11))},
		},
		"a reader beside a writer": {readers, porcupine.Illegal, []action{rival(at(0, took, 2, 10)), at(2, took, 1, 11), rival(at(4, gave, 2, 10))}},
		"a writer beside a reader": {readers, porcupine.Illegal, []action{at(0, took, 1, 10), rival(at(2, took, 2, 11)), at(4, gave, 1, 10)}},
		"a writer below a reader":  {readers, porcupine.Illegal, []action{at(0, took, 1, 10), at(2, gave, 1, 10), rival(at(4, took, 2, 9))}},
		"a reader below a writer":  {readers, porcupine.Illegal, []action{rival(at(0, took, 2, 10)), rival(at(2, gave, 2, 10)), at(4, took, 1, 9)}},
	} {
		require.Equal(t, c.want, judge(c.kind, c.history), name)
	}
}
