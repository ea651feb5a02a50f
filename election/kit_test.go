// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// noLeader is what observers yield while no process leads.
var noLeader election.Leader

// valueKey and channel are the key of the value of the election "a", and its channel.
const valueKey, channel = "sb:{a}:leader", "sb:{a}:leader:changed"

// mustLead returns the term of a candidate that leads at once.
func mustLead(tb testing.TB, e *election.Election) election.Term {
	tb.Helper()
	return locktest.Must(tb, e.Campaign)
}

// mustCampaign campaigns on another goroutine, and returns when n candidates of "a" are in the queue.
func mustCampaign(ctx context.Context, tb testing.TB, server *redistest.Server, e *election.Election, n int) <-chan locktest.Result[election.Term] {
	tb.Helper()
	term := locktest.LaterWith(ctx, e.Campaign)
	redistest.Await(tb, "a ticket in the queue", func() bool { return locktest.Tickets(tb, server, "a") == n })
	return term
}

// observer receives the changes of an election one by one.
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

// must returns the next change, and fails the test if it is an error.
func (o *observer) must() election.Leader {
	o.Helper()
	l, err, more := o.next()
	require.NoError(o, err)
	require.True(o, more)
	return l
}

// until returns the first change for which is returns true.
func (o *observer) until(is func(election.Leader) bool) election.Leader {
	o.Helper()
	for {
		if l := o.must(); is(l) {
			return l
		}
	}
}

// leads is an argument of until: it accepts the leader of a term with that value.
func leads(t election.Term, value string) func(election.Leader) bool {
	return func(l election.Leader) bool { return l.Token == t.Token() && l.Value == value }
}

func isNoLeader(l election.Leader) bool { return l == noLeader }
