// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"

	"github.com/signalbox-go/signalbox/election"
)

// newElection returns the election of a scene, by which another process leads if the fault is held.
func newElection(e *callFixture) *election.Election { return election.New(e.session(), "a") }

func leadsElsewhere(e *callFixture) {
	_, err := election.New(e.other[0], "a").Campaign(context.Background())
	e.must(err)
}

// leading makes a call of a term.
func leading(do func(term election.Term, ctx context.Context) error) prepareCall {
	return func(e *callFixture) preparedCall {
		term, err := newElection(e).Campaign(context.Background())
		e.must(err)
		return func(ctx context.Context) error { return do(term, ctx) }
	}
}

// elections returns the calls of an election and its terms.
func elections() []testedCall {
	lead := func(context.Context, election.Term) error { return nil }
	return []testedCall{
		{name: "election.Election.Campaign", class: waits, holds: leadsElsewhere, ready: func(e *callFixture) preparedCall {
			return func(ctx context.Context) error { return no(newElection(e).Campaign(ctx)) }
		}},
		{name: "election.Election.Run", class: waits, holds: leadsElsewhere, ready: func(e *callFixture) preparedCall {
			return func(ctx context.Context) error { return newElection(e).Run(ctx, lead) }
		}},
		{name: "election.Election.RunCallbacks", class: listens, ready: func(e *callFixture) preparedCall {
			return func(ctx context.Context) error {
				return newElection(e).RunCallbacks(ctx, election.Callbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}})
			}
		}},
		{name: "election.Election.Leader", class: requests, holds: leadsElsewhere, free: "ErrNotHeld", ready: func(e *callFixture) preparedCall {
			return func(ctx context.Context) error { return no(newElection(e).Leader(ctx)) }
		}},
		{name: "election.Election.Health", class: requests, holds: leadsElsewhere, ready: func(e *callFixture) preparedCall { return newElection(e).Health }},
		{name: "election.Election.Observe", class: listens, holds: leadsElsewhere, ready: func(e *callFixture) preparedCall {
			return func(ctx context.Context) (last error) {
				for _, last = range newElection(e).Observe(ctx) { // the last error says how it ends
				}
				return last
			}
		}},
		{name: "election.Term.Resign", class: unlocks, ready: leading(func(term election.Term, _ context.Context) error { return term.Resign() })},
		{name: "election.Term.SetValue", class: writes, ready: leading(func(term election.Term, ctx context.Context) error {
			return term.SetValue(ctx, "x")
		})},
	}
}
