// SPDX-License-Identifier: Apache-2.0

package redlock

// The arithmetic of votes. Any two quorums of the same servers share one, and a verdict never changes: what is still to
// come cannot turn it.

// majority is how many of n servers decide.
func majority(n int) int { return n/2 + 1 }

// verdict is the result of a count of replies.
type verdict int

const (
	// open: missing replies decide.
	open verdict = iota
	// carried: a quorum said yes.
	carried
	// failed: no quorum can say yes any more.
	failed
)

// tally counts the replies of n servers. Each replies once, or never.
type tally struct{ n, yes, no int }

// verdict returns what the count comes to, whatever is still to come.
func (t *tally) verdict() verdict {
	switch {
	case t.yes >= majority(t.n):
		return carried
	case t.n-t.no < majority(t.n):
		return failed
	}
	return open
}

// add counts one more reply, and reports whether it decided.
func (t *tally) add(yes bool) (decided bool) { //nolint:revive // a reply, not a switch
	before := t.verdict()
	if yes {
		t.yes++
	} else {
		t.no++
	}
	return before == open && t.verdict() != open
}
