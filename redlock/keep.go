// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// electorate is the servers of a group, to which renewals go as if to one. For each hold it returns what a
// quorum says: that the hold exists, or that it is gone. The deadline of a term counts from before the
// renewal was sent to the first server, so it is before the end of each key of that quorum.
type electorate struct{ *group }

// Clustered implements renewal.Server.
func (electorate) Clustered() bool { return false }

// The returns of holder/renew, by hold.
const (
	gone   int64 = 0
	alive  int64 = 1
	unsaid int64 = -1
)

// returns is the reply of one server.
type returns struct {
	member   int
	outcomes []wire.Outcome
}

// RunMany implements renewal.Server. It returns when every hold is decided, or all servers have replied, or
// ctx ends. Servers that have not replied by then continue until ctx would have ended: their part of a hold
// has to be renewed, too.
func (e electorate) RunMany(ctx context.Context, calls []wire.Call) []wire.Outcome {
	count := newCount(len(e.members), calls)
	back := make(chan returns, len(e.members))
	for i, m := range e.members {
		e.late.Go(func() {
			patience, cancel := e.patience(ctx)
			defer cancel()
			back <- returns{i, m.Runner.RunMany(patience, named(m, calls))}
		})
	}
	for range e.members {
		select {
		case r := <-back:
			count.add(r.outcomes)
			if count.undecided == 0 {
				return count.outcomes()
			}
		case <-ctx.Done():
			return count.outcomes()
		}
	}
	return count.outcomes()
}

// patience returns a context that ends when ctx would by itself, or the group closes.
func (e electorate) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, dated := ctx.Deadline()
	if !dated {
		deadline = time.Now().Add(time.Second)
	}
	return context.WithDeadline(e.ctx, deadline)
}

// named returns the calls as one member takes them: the holds that terms name by their attempt begin with its id.
func named(m *session.Session, calls []wire.Call) []wire.Call {
	own := make([]wire.Call, len(calls))
	for n, call := range calls {
		args := make([]string, len(call.Args))
		for i := range args {
			args[i] = call.Args[i]
			if i%2 == 0 {
				args[i] = m.ID() + args[i]
			}
		}
		own[n] = wire.Call{Script: call.Script, Keys: call.Keys, Args: args}
	}
	return own
}

// count counts what the servers say of each hold.
type count struct {
	tallies   [][]tally // by call and key
	undecided int
}

func newCount(members int, calls []wire.Call) *count {
	c := &count{tallies: make([][]tally, len(calls))}
	for n, call := range calls {
		c.tallies[n] = make([]tally, len(call.Keys))
		for i := range c.tallies[n] {
			c.tallies[n][i].n = members
		}
		c.undecided += len(call.Keys)
	}
	return c
}

// add counts the reply of one server. An error is no reply, and neither is a refusal.
func (c *count) add(outcomes []wire.Outcome) {
	for n, tallies := range c.tallies {
		for i := range tallies {
			if outcomes[n].Err != nil || i >= outcomes[n].Reply.Len() || outcomes[n].Reply.Int(i) < 0 {
				continue
			}
			if tallies[i].add(outcomes[n].Reply.Int(i) == alive) {
				c.undecided--
			}
		}
	}
}

// outcomes returns what the count comes to, as one server would say it.
func (c *count) outcomes() []wire.Outcome {
	all := make([]wire.Outcome, len(c.tallies))
	for n, tallies := range c.tallies {
		said := make([]int64, len(tallies))
		for i, t := range tallies {
			switch t.verdict() {
			case carried:
				said[i] = alive
			case failed:
				said[i] = gone
			case open:
				said[i] = unsaid
			}
		}
		all[n].Reply = wire.Numbers(said)
	}
	return all
}
