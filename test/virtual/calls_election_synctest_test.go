// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"

	"github.com/signalbox-go/signalbox/election"
)

// newElection returns the election of a scene, by which another process leads if the fault is held.
func newElection(c *callFixture) *election.Election { return election.New(c.session(), "a") }

func leadsElsewhere(c *callFixture) {
	_, err := election.New(c.other[0], "a").Campaign(context.Background())
	c.must(err)
}

// leading makes a call of a term.
func leading(do func(term election.Term, ctx context.Context) error) prepareCall {
	return func(c *callFixture) preparedCall {
		term, err := newElection(c).Campaign(context.Background())
		c.must(err)
		return func(ctx context.Context) error { return do(term, ctx) }
	}
}

// elections returns the calls of an election and its terms.
func elections() []testedCall {
	lead := func(context.Context, election.Term) error { return nil }
	return []testedCall{
		{name: "election.Election.Campaign", class: waits, holds: leadsElsewhere, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return no(newElection(c).Campaign(ctx)) }
		}},
		{name: "election.Election.Run", class: waits, holds: leadsElsewhere, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return newElection(c).Run(ctx, lead) }
		}},
		{name: "election.Election.RunCallbacks", class: listens, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error {
				return newElection(c).RunCallbacks(ctx, election.Callbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}})
			}
		}},
		{name: "election.Election.Leader", class: requests, holds: leadsElsewhere, free: "ErrNotHeld", ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return no(newElection(c).Leader(ctx)) }
		}},
		{name: "election.Election.Health", class: requests, holds: leadsElsewhere, ready: func(c *callFixture) preparedCall { return newElection(c).Health }},
		{name: "election.Election.Observe", class: listens, holds: leadsElsewhere, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) (last error) {
				for _, last = range newElection(c).Observe(ctx) { // the last error says how it ends
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
