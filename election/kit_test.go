// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// nobody is what observers are told when no process leads.
var nobody election.Leader

// valueKey and channel are what the election "a" has at the server beside its lock.
const valueKey, channel = "sb:{a}:leader", "sb:{a}:leader:changed"

// mustLead returns the term of a candidate that nobody is before.
func mustLead(tb testing.TB, e *election.Election) election.Term {
	tb.Helper()
	return locktest.Must(tb, e.Campaign)
}

// mustCampaign campaigns on another goroutine, and returns when n candidates of "a" are in the queue.
func mustCampaign(ctx context.Context, tb testing.TB, server *redistest.Server, e *election.Election, n int) <-chan locktest.Result[election.Term] {
	tb.Helper()
	term := locktest.LaterWith(ctx, e.Campaign)
	redistest.Await(tb, "a place in the queue", func() bool { return locktest.Tickets(tb, server, "a") == n })
	return term
}

// observer takes the changes of an election one by one.
type observer struct {
	testing.TB

	next func() (election.Leader, error, bool)
}

// observe begins to observe, until the test ends.
func observe(tb testing.TB, e *election.Election) *observer {
	tb.Helper()
	next, stop := iter.Pull2(e.Observe(locktest.Context(tb)))
	tb.Cleanup(stop)
	return &observer{tb, next}
}

// must returns the next change, which is no error.
func (o *observer) must() election.Leader {
	o.Helper()
	l, err, more := o.next()
	require.NoError(o, err)
	require.True(o, more)
	return l
}

// until returns the first change that is as it should be.
func (o *observer) until(is func(election.Leader) bool) election.Leader {
	o.Helper()
	for {
		if l := o.must(); is(l) {
			return l
		}
	}
}

// leads is what until takes: the leader of a term, with a value.
func leads(t election.Term, value string) func(election.Leader) bool {
	return func(l election.Leader) bool { return l.Token == t.Token() && l.Value == value }
}

func isNobody(l election.Leader) bool { return l == nobody }
