// SPDX-License-Identifier: Apache-2.0

// Package quorum is the arithmetic of votes.
//
// # Guarantees
//
//  1. Any two quorums of the same servers share one.
//  2. A verdict never changes: what is still to come cannot turn it.
package quorum

// Size is how many of n servers decide.
func Size(n int) int { return n/2 + 1 }

// Verdict is what a count of answers comes to.
type Verdict int

const (
	// Open: what is not answered yet decides.
	Open Verdict = iota
	// Carried: a quorum said yes.
	Carried
	// Failed: no quorum can say yes any more.
	Failed
)

// Tally counts the answers of N servers. Each answers once, or never.
type Tally struct{ N, Yes, No int }

// Verdict answers what the count comes to, whatever is still to come.
func (t *Tally) Verdict() Verdict {
	switch {
	case t.Yes >= Size(t.N):
		return Carried
	case t.N-t.No < Size(t.N):
		return Failed
	}
	return Open
}

// Add counts one answer more, and reports whether it decided.
func (t *Tally) Add(yes bool) (decided bool) { //nolint:revive // an answer, not a switch
	before := t.Verdict()
	if yes {
		t.Yes++
	} else {
		t.No++
	}
	return before == Open && t.Verdict() != Open
}
